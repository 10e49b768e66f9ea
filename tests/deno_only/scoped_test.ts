/** Deno with permission for the lock's own files and nothing else. */
import { assert, assertEquals } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { Lock } from "../../mod.ts";
import { mustBlock, test } from "../support/harness.ts";

const repository = fromFileUrl(new URL("../../", import.meta.url));

test("acquire() in deno waits with permission for P and P.pid alone, and inspect() sees its own hold", async ({ path, agent }) => {
  const [lock, pid] = [path(), path("a.lock.pid")];
  const flags = [`--allow-read=${lock},${pid},${repository}`, `--allow-write=${lock},${pid}`];
  for (const ffi of [[], ["--allow-ffi"]]) {
    const [holder, waiter] = [await agent("bun"), await agent("deno", { flags: [...flags, ...ffi] })];
    await holder.lock(lock);
    assertEquals(await holder.tryAcquire(), true);
    await waiter.lock(lock);
    assertEquals(await waiter.tryAcquire(), false);
    const waiting = await mustBlock(waiter.call("acquire", { name: "lock" }));
    await holder.release();
    assertEquals(await waiting.done(), true);
    assertEquals((await waiter.call("inspect", { name: "lock" })).state, "held");
    await waiter.release();
  }
});

test("tryAcquire() by PID file asks Deno about as many paths in the end as after the first time: it forgets none", (place) => {
  const { permissions } = Deno;
  const original = permissions.querySync;
  const paths = new Set<string>();
  permissions.querySync = (descriptor) => {
    if ("path" in descriptor) paths.add(String(descriptor.path));
    return original.call(permissions, descriptor);
  };
  try {
    const lock = new Lock(place.path(), { backend: "pidfile" });
    const counts = Array.from({ length: 20 }, () => {
      assertEquals(lock.tryAcquire(), true);
      lock.release();
      return paths.size;
    });
    assert(counts[0] > 0, "nothing was asked, so this would show nothing");
    assertEquals(counts.at(-1), counts[1], [...paths].join(" "));
  } finally {
    permissions.querySync = original;
  }
});

/** Deno with permission for the lock's own files and nothing else. */
import { assertEquals } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { mustBlock, test } from "../harness.ts";

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

/** A lock file on which another program has a lease: fcntl(2), F_SETLEASE. Samba and NFS servers take such. */
import { writeFileSync } from "node:fs";
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { Lock, scan } from "../mod.ts";
import { test, within } from "./support/harness.ts";
import { failure, lease } from "./support/lockers.ts";
import { kinds } from "./support/pid_files.ts";

// Deno without FFI opens without O_NONBLOCK, and so waits for the end of the lease in the kernel.
for (const kind of kinds.filter((kind) => kind !== "deno-no-ffi")) {
  for (const backend of ["flock", "auto", "pidfile"] as const) {
    test(`acquire() in ${kind} by ${backend} counts a leased lock file as held, and gets it when the lease has ended`, async (place) => {
      const { path, agent } = place;
      writeFileSync(path(), "");
      const lessee = await lease(place, path());
      const user = await agent(kind);
      await user.lock(path(), { backend });
      assertEquals(await user.tryAcquire(), false);
      const error = await failure(user.call("acquire", { name: "lock", options: { timeout: 0 } }));
      assertEquals(error.name, "LockTimeoutError", error.message);
      assertStringIncludes(error.message, "has a lease on it");
      assert(!error.message.includes("left no record"), error.message); // no process could read one
      if (kind !== "node20") assertStringIncludes(error.message, `pid ${lessee.pid} has a lease on it`);
      await user.call("begin", { name: "lock" }); // answers once it waits
      lessee.write("\n");
      assertEquals(await within(60_000, user.call("granted", { name: "lock" })), true);
      assert(await user.call("verify", { name: "lock" }));
      await user.release();
    });
  }
}

for (const kind of ["write", "read"]) {
  test(`inspect() and scan() tell of a ${kind} lease on a lock file, and that a try is refused`, async (place) => {
    const { dir, path } = place;
    writeFileSync(path(), "");
    const lessee = await lease(place, path(), kind);
    const lock = new Lock(path());
    const words = new RegExp(`^pid ${lessee.pid} has a lease on it`);
    for (const status of [lock.inspect(), scan(dir)[0]]) {
      assertEquals([status.state, status.holders], ["held", []], status.reason);
      assertMatch(status.reason, words);
    }
    assertEquals(lock.tryAcquire(), false);
    assertEquals(await lessee.line(), "asked");
    assertMatch(lock.inspect().reason, words);
    lessee.write("\n");
    await lock.acquire({ timeout: 10_000 });
    assertEquals(lock.inspect().holder?.pid, process.pid);
    lock.release();
  });
}

test("tryAcquire() counts a PID file that cannot be read for a lease as held", async (place) => {
  const { path } = place;
  writeFileSync(path("a.lock.pid"), "4711\n");
  const lessee = await lease(place, path("a.lock.pid"));
  const lock = new Lock(path());
  assertEquals(lock.tryAcquire(), false);
  const { state, unread, reason } = lock.inspect();
  assertEquals([state, unread], ["unknown", true]);
  assertStringIncludes(reason, "cannot be read while another program has a lease on it");
  lessee.write("\n");
});

/** A lock file on which another program has a lease: fcntl(2), F_SETLEASE. Samba and NFS servers take such. */
import { writeFileSync } from "node:fs";
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { test, within } from "./harness.ts";
import { failure } from "./lockers.ts";
import { kinds } from "./pid_files.ts";

/** Holds the lease through the request to end it, until a line comes; prints `broken` when that request does. */
const LEASE = `import fcntl, os, signal, sys
signal.signal(signal.SIGIO, lambda *_: print("broken", flush=True))
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("leased", flush=True)
sys.stdin.readline()
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
sys.stdin.readline()`;

// Deno without FFI opens without O_NONBLOCK, and so waits for the end of the lease in the kernel.
for (const kind of kinds.filter((kind) => kind !== "deno-no-ffi")) {
  test(`acquire() in ${kind} counts a leased lock file as held, and gets it when the lease has ended`, async ({ path, agent, child }) => {
    writeFileSync(path(), "");
    const lessee = child("python3", ["-uSc", LEASE, path()]);
    assertEquals(await lessee.line(), "leased");
    const user = await agent(kind);
    await user.lock(path(), { backend: "flock" });
    assertEquals(await user.tryAcquire(), false);
    const error = await failure(user.call("acquire", { name: "lock", options: { timeout: 0 } }));
    assertEquals(error.name, "LockTimeoutError", error.message);
    assertStringIncludes(error.message, "another program has a lease on the file");
    assertEquals(await lessee.line(), "broken");
    const waiting = user.call("acquire", { name: "lock", options: { timeout: 10_000 } });
    lessee.write("\n");
    await within(10_000, waiting);
    assert(await user.call("verify", { name: "lock" }));
    await user.release();
  });
}

/** src/sys/linux.ts: where libc or the kernel has not all of it, and what it says of errors. */
import { readFileSync } from "node:fs";
import { assertEquals, assertMatch } from "@std/assert";
import { type AgentError, test } from "../support/harness.ts";

const FFI_KINDS = ["deno", "bun", "node26"] as const;

for (const kind of FFI_KINDS) {
  for (const code of ["ENOSYS", "EPERM"]) {
    test(`tryAcquire() in ${kind} goes by node:fs where statx(2) answers ${code}, as an old kernel or a container does`, async ({ agent, path }) => {
      // Only where our probe asks, for "/": the runtime's own calls are of no concern here.
      const trace = ["-f", "-qq", "--seccomp-bpf", "-o", path("log"), "-e", "trace=statx", "-P", "/"];
      const by = ["strace", ...trace, "-e", `inject=statx:error=${code}`];
      const [lock, other] = [await agent(kind, { by }), await agent("node20")];
      for (const each of [lock, other]) await each.lock(path());
      assertEquals(await lock.tryAcquire(), true);
      assertMatch(readFileSync(path("log"), "utf8"), /"\/".*INJECTED/);
      assertEquals(await other.tryAcquire(), false);
      await lock.release();
      assertEquals(await other.tryAcquire(), true);
      assertEquals(await lock.tryAcquire(), false);
    });
  }

  test(`tryAcquire() in ${kind} says what open(2) answered, in words and with the path`, async ({ agent, path }) => {
    const inject = ["-e", "trace=openat", "-P", path(), "-e", "inject=openat:error=EMFILE"];
    const by = ["strace", "-f", "-qq", "--seccomp-bpf", "-o", path("log"), ...inject];
    const lock = await agent(kind, { by });
    await lock.lock(path());
    const error = await lock.tryAcquire().then(() => undefined, (error) => error as AgentError);
    assertEquals([error?.name, error?.code, error?.path], ["LockError", "EMFILE", path()]);
    assertMatch(error?.message ?? "", /^Cannot acquire ".*a\.lock": EMFILE: too many open files/);
  });

  test(`tryAcquire() in ${kind} goes on where open(2), statx(2), pread(2), pwrite(2) and ftruncate(2) are interrupted`, async ({ agent, path }) => {
    const calls = ["openat", "statx", "pread64", "pwrite64", "ftruncate"];
    const inject = calls.flatMap((call) => ["-e", `inject=${call}:error=EINTR:when=1`]);
    const trace = ["-e", `trace=${calls}`, "-P", path(), "-P", `${path()}.pid`];
    const by = ["strace", "-f", "-qq", "--seccomp-bpf", "-o", path("log"), ...trace, ...inject];
    const lock = await agent(kind, { by });
    await lock.lock(path());
    assertEquals(await lock.tryAcquire(), true);
    assertEquals(readFileSync(path(), "utf8").split("\n")[0], String(lock.pid));
    await lock.release();
    assertEquals(readFileSync(path(), "utf8"), "");
    for (const call of calls) assertMatch(readFileSync(path("log"), "utf8"), new RegExp(`${call}\\(.*INJECTED`));
  });
}

/**
 * What flock(2) can answer, made to answer it: strace injects the errno, and
 * its log shows that it did. In Node 20 flock(1) makes the call for us.
 */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { chmodSync, copyFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { Lock } from "../../mod.ts";
import { type Agent, AgentError, type Kind, KINDS, type Place, test, within } from "../support/harness.ts";
import { openIn, underStrace } from "../support/lockers.ts";
import { deadOwner, leave } from "../support/pid_files.ts";

/** Lets an agent work under injected faults; returns what each flock(2) of its answered, in order. */
async function injected(
  { agent, path }: Place,
  kind: Kind,
  fault: string,
  use: (agent: Agent) => Promise<void>,
  more: string[] = [],
): Promise<string[]> {
  const log = path(`${fault.replaceAll(/\W/g, "-")}.strace`);
  const inject = ["-e", "trace=flock,statfs", "-e", `inject=flock:error=${fault}`, ...more];
  await underStrace(agent, kind, log, inject, use);
  const answers = readFileSync(log, "utf8").matchAll(/flock\(.*\) += (?:(0)|-1 (\w+) \(.*?\)( \(INJECTED\))?)$/gm);
  return [...answers].map(([, granted, code, made]) => granted ?? code + (made ? " injected" : ""));
}

/** How an errno reads in a reason: its name, or in Deno without FFI and flock(1) the C library's words. */
const WORDS = {
  EIO: /\bEIO\b|Input\/output error/,
  EBADF: /\bEBADF\b|Bad file descriptor/,
  ENOLCK: /\bENOLCK\b|No locks available/,
  EOPNOTSUPP: /\bEOPNOTSUPP\b|Operation not supported/,
  ENOSYS: /\bENOSYS\b|Function not implemented/,
};

/** A call that must fail, and how. */
async function failure(call: Promise<unknown>): Promise<AgentError> {
  return await assertRejects(() => within(60_000, call), AgentError);
}

for (const kind of KINDS) {
  test(`acquire() in ${kind} outlasts 1,000 times EINTR`, async (place) => {
    const path = place.path();
    const answers = await injected(place, kind, "EINTR:when=1..1000", async (agent) => {
      await agent.lock(path, { backend: "flock" });
      assertEquals(await agent.call("acquire", { name: "lock", options: { timeout: 60_000 } }), true);
      const stranger = new Lock(path);
      assertEquals(stranger.tryAcquire(), false);
      await agent.release();
      assertEquals(stranger.tryAcquire(), true);
      stranger.release();
    });
    assertEquals(answers, [...Array(1000).fill("EINTR injected"), "0"]);
  });

  test(`acquire() in ${kind} keeps its deadline through 1,000 times EINTR`, async (place) => {
    const holder = new Lock(place.path()).acquireSync();
    const answers = await injected(place, kind, "EINTR:when=1..1000", async (agent) => {
      await agent.lock(place.path(), { backend: "flock" });
      const begin = performance.now();
      const error = await failure(agent.call("acquire", { name: "lock", options: { timeout: 300 } }));
      assertEquals([error.name, error.code], ["LockTimeoutError", "ETIMEDOUT"]);
      assert(performance.now() - begin >= 300, "given up too early");
      holder.release();
      assertEquals(await agent.tryAcquire(), true);
    });
    // Not exactly: in Node 20 each try is a process, and strace counts in each.
    assert(answers.filter((answer) => answer === "EINTR injected").length >= 1000);
    for (const answer of answers) assertMatch(answer, /^(EINTR injected|EAGAIN|0)$/);
    assertEquals(answers.at(-1), "0");
  });

  for (const code of ["EIO", "EBADF"] as const) {
    // strace counts in each process by itself, and each try is another flock(1): see the test below.
    if (kind !== "node20") {
      test(`tryAcquire() in ${kind} is true at the second try after one ${code}`, async (place) => {
        const answers = await injected(place, kind, `${code}:when=1`, async (agent) => {
          await agent.lock(place.path(), { backend: "flock" });
          assertEquals(await agent.tryAcquire(), true);
          assertEquals(new Lock(place.path()).tryAcquire(), false);
        });
        assertEquals(answers, [`${code} injected`, "0"]);
      });
    }

    test(`tryAcquire() in ${kind} throws LockError with code ${code} where that stays`, async (place) => {
      const answers = await injected(place, kind, code, async (agent) => {
        for (const backend of ["flock", "auto"]) {
          await agent.lock(place.path(), { backend }, backend);
          const error = await failure(agent.tryAcquire(backend));
          assertEquals([error.name, error.code, error.path], ["LockError", code, place.path()]);
          assertMatch(error.message, WORDS[code]);
          assertEquals(await agent.call("held", { name: backend }), false);
        }
      });
      assertEquals(answers, Array(4).fill(`${code} injected`));
      assert(!existsSync(place.path("a.lock.pid")), "a failure of the disk is no reason for a PID file");
    });
  }

  for (const code of ["ENOLCK", "EOPNOTSUPP", "ENOSYS"] as const) {
    test(`tryAcquire() in ${kind} after ${code} throws LockUnsupportedError with backend "flock", and takes the PID file with "auto"`, async (place) => {
      const path = place.path();
      const answers = await injected(place, kind, code, async (agent) => {
        await agent.lock(path, { backend: "flock" }, "flock");
        const error = await failure(agent.tryAcquire("flock"));
        assertEquals([error.name, error.code, error.path], ["LockUnsupportedError", "ENOTSUP", path]);
        assertMatch(error.message, WORDS[code]);

        await agent.lock(path);
        assertEquals(await agent.tryAcquire(), true);
        const { backend, reason } = await agent.call("backend", { name: "lock" });
        assertEquals(backend, "pidfile");
        assertMatch(reason, WORDS[code]);
        assert(existsSync(`${path}.pid`));

        const stranger = new Lock(path, { backend: "flock" });
        assertEquals(stranger.tryAcquire(), false);
        await agent.release();
        assert(!existsSync(`${path}.pid`));
        assertEquals(stranger.tryAcquire(), true);
        stranger.release();
      });
      // "flock", "auto", and once more when the PID file asks whether the kernel lock is held.
      assertEquals(answers, Array(3).fill(`${code} injected`));
    });
  }

  test(`tryAcquire() in ${kind} is false after EACCES where the file system is not known, as SMB mounts say "held"`, async (place) => {
    const answers = await injected(place, kind, "EACCES", async (agent) => {
      await agent.lock(place.path());
      assertEquals(await agent.tryAcquire(), false);
      assertEquals((await agent.call("backend", { name: "lock" })).backend, "flock");
    }, ["-e", "inject=statfs:error=EIO"]);
    assertEquals(answers, ["EACCES injected"]);
  });

  // Deno without FFI may not ask for the file system, so there it stays held.
  if (kind !== "deno-no-ffi") {
    test(`acquire() in ${kind} throws after EACCES on a local disk, where a security policy says so, and no holder`, async (place) => {
      const answers = await injected(place, kind, "EACCES", async (agent) => {
        await agent.lock(place.path());
        for (const call of ["try", "acquire"]) {
          const error = await failure(agent.call(call, { name: "lock", options: { timeout: 60_000 } }));
          assertEquals([error.name, error.code, error.path], ["LockError", "EACCES", place.path()]);
          assertMatch(error.message, /security policy \(AppArmor/);
        }
        assertEquals(openIn(place.path(), agent.pid), 0);
        // Nor by PID file: whether others have it can only be asked by a try, where the kernel does not list them.
        await agent.lock(place.path(), { backend: "pidfile" }, "other");
        assertEquals((await failure(agent.tryAcquire("other"))).code, "EACCES");
        assert(!existsSync(`${place.path()}.pid`));
      });
      assertEquals(answers, Array(3).fill("EACCES injected"));
    });
  }
}

/** Lets an agent work where every such call on its lock file, or another, answers so. */
async function refusing(
  { agent, path }: Place,
  kind: Kind,
  calls: string,
  code: string,
  use: (agent: Agent) => unknown,
  file = path(),
) {
  const log = path("strace.log");
  const inject = ["-P", file, "-e", `trace=${calls}`, "-e", `inject=${calls}:error=${code}`];
  await underStrace(agent, kind, log, inject, async (user) => void await use(user));
  assertMatch(readFileSync(log, "utf8"), new RegExp(` = -1 ${code} \\(.*?\\) \\(INJECTED\\)`));
}

for (const kind of KINDS) {
  test(`tryAcquire() in ${kind} is true, and leaves no record, where the user's quota is used up`, async (place) => {
    await refusing(place, kind, "pwrite64,write", "EDQUOT", async (agent) => {
      await agent.lock(place.path(), { backend: "flock" });
      assertEquals(await agent.tryAcquire(), true);
      assertEquals(readFileSync(place.path(), "utf8"), "");
      assertEquals(new Lock(place.path()).tryAcquire(), false);
    });
  });

  test(`tryAcquire() in ${kind} outlives a close(2) that fails on a file of /proc`, async (place) => {
    const log = place.path("strace.log");
    const inject = ["-P", "/proc/locks", "-e", "trace=close", "-e", "inject=close:error=EIO"];
    await underStrace(place.agent, kind, log, inject, async (agent) => {
      await agent.lock(place.path(), { backend: "pidfile" });
      assertEquals(await agent.tryAcquire(), true);
      await agent.release();
    });
    // Deno without FFI may read nothing there.
    if (kind !== "deno-no-ffi") assertMatch(readFileSync(log, "utf8"), /close\(.* = -1 EIO .* \(INJECTED\)/);
  });

  test(`tryAcquire() in ${kind} leaves no descriptor open where statx(2) fails now and then`, async (place) => {
    const file = place.path("a.lock.pid");
    new Lock(place.path(), { backend: "pidfile" }).acquireSync();
    const log = place.path("strace.log");
    const inject = ["-P", file, "-e", "trace=statx", "-e", "inject=statx:error=ENOMEM:when=2+3"];
    await underStrace(place.agent, kind, log, inject, async (agent) => {
      await agent.lock(place.path(), { backend: "pidfile" });
      for (let i = 0; i < 12; i++) await agent.tryAcquire().catch(() => {});
      assertEquals(openIn(file, agent.pid), 0);
    });
    assertMatch(readFileSync(log, "utf8"), /ENOMEM .* \(INJECTED\)/);
  });

  test(`tryAcquire() in ${kind} throws where a PID file cannot be read with EAGAIN, which only of an open means a lease`, async (place) => {
    leave(place.path("a.lock.pid"), deadOwner());
    await refusing(place, kind, "pread64,read", "EAGAIN", async (agent) => {
      await agent.lock(place.path(), { backend: "pidfile" });
      assertEquals((await failure(agent.tryAcquire())).code, "EAGAIN");
    }, place.path("a.lock.pid"));
  });

  // Names that one runtime or another does not know: it says UNKNOWN, or "Unknown system error -122".
  for (const code of ["EDQUOT", "EOVERFLOW", "ENXIO"]) {
    test(`tryAcquire() in ${kind} throws LockError with code ${code} where open(2) answers that`, async (place) => {
      await refusing(place, kind, "openat", code, async (agent) => {
        await agent.lock(place.path());
        const error = await failure(agent.tryAcquire());
        assertEquals([error.name, error.code, error.path], ["LockError", code, place.path()]);
      });
    });
  }
}

for (const [code, words] of [["EIO", "Input/output error"], ["EBADF", "Bad file descriptor"]]) {
  test(`tryAcquire() in node20 is true at the second try after one ${code} of flock(1)`, async ({ agent, dir, path }) => {
    // In flock(1)'s place: it fails once as that does, and is that from then on.
    const command = path("flock");
    const script = `#!/bin/sh
if mkdir ${dir}/failed 2>/dev/null; then echo "flock: 3: ${words}" >&2; exit 65; fi
exec ${dir}/real "$@"
`;
    copyFileSync("/usr/bin/flock", path("real"));
    writeFileSync(command, script);
    chmodSync(command, 0o755);
    const instead = `mount --bind ${command} /usr/bin/flock && exec "$@"`;
    const user = await agent("node20", { by: ["unshare", "-m", "sh", "-c", instead, "sh"] });
    await user.lock(path(), { backend: "flock" });
    assertEquals(await user.tryAcquire(), true);
    assert(existsSync(path("failed")), "flock(1) was not asked where it should have been");
    assertEquals(new Lock(path()).tryAcquire(), false);
  });
}

for (const kind of ["deno", "bun", "node20"] as const) {
  test(`tryAcquire() in ${kind} is not refused by the PID file that it took from a dead owner and could not remove`, async (place) => {
    let injections = 0;
    // Which of its opens of the PID file fails decides how far it gets.
    for (let nth = 1; nth <= 7; nth++) {
      const path = place.path(`${nth}.lock`);
      leave(`${path}.pid`, deadOwner());
      const log = place.path(`${nth}.strace`);
      const inject = ["-P", `${path}.pid`, "-e", "trace=openat", "-e", `inject=openat:error=EMFILE:when=${nth}`];
      await underStrace(place.agent, kind, log, inject, async (agent) => {
        await agent.lock(path, { backend: "flock" });
        if (await agent.tryAcquire().catch(() => false)) await agent.release();
        assertEquals(await agent.tryAcquire(), true, `after the open number ${nth} failed`);
        await agent.release();
        assertEquals(new Lock(path).tryAcquire(), true, `by another process, after the open number ${nth} failed`);
      });
      injections += Number(readFileSync(log, "utf8").includes("(INJECTED)"));
    }
    assert(injections >= 4, `only ${injections} were made to fail`);
  });
}

/** What the system refuses a PID file: hard links, room, size; and many at once. CASES rows 5, 32 and 50. */
import { readdirSync, readFileSync, unlinkSync, writeFileSync } from "node:fs";
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { Lock } from "../mod.ts";
import { type Agent, AgentError, type Kind, type Place, test } from "./support/harness.ts";
import { failure, underStrace } from "./support/lockers.ts";
import { deadOwner, kinds, leave, names, recordIn } from "./support/pid_files.ts";

const PIDFILE = { backend: "pidfile" } as const;

/** Lets an agent work where link(2) answers so; returns how often it was asked. */
async function withoutLinks(
  { agent, path }: Place,
  kind: Kind,
  code: string,
  use: (agent: Agent) => Promise<void>,
): Promise<number> {
  const log = path("strace.log");
  const inject = ["-e", "trace=link,linkat", "-e", `inject=link,linkat:error=${code}`];
  await underStrace(agent, kind, log, inject, use);
  // A line for the call's end: with threads beginning and end can be two lines, and the last call may have no end.
  const ends = /\blink(at)?(\(.*[^>]$| resumed>)/;
  const calls = readFileSync(log, "utf8").split("\n").filter((line) => ends.test(line));
  assertEquals(calls.filter((line) => !line.includes(`${code} `) || !line.endsWith("(INJECTED)")), []);
  unlinkSync(log);
  return calls.length;
}

/** One is plenty for those that all take the same way. */
const CODES = ["EPERM", "EOPNOTSUPP", "ENOSYS", "EMLINK", "EXDEV"];

for (const kind of kinds) {
  for (const code of kind === "node20" || kind === "deno-no-ffi" ? ["EPERM"] : CODES) {
    test(`tryAcquire() in ${kind} by PID file works where link(2) says ${code}`, async (place) => {
      const { dir, path } = place;
      const stale: string[] = [];
      const other = new Lock(path(), { ...PIDFILE, onStale: (holder) => stale.push(String(holder.nonce)) });
      const links = await withoutLinks(place, kind, code, async (agent) => {
        await agent.lock(path(), PIDFILE);
        assertEquals(await agent.tryAcquire(), true);
        assertEquals(recordIn(path("a.lock.pid")).pid, agent.pid);
        assertEquals(names(dir), ["a.lock.pid", "strace.log"]);
        assertEquals(other.tryAcquire(), false);
        await agent.release();
        assertEquals(names(dir), ["strace.log"]);
        other.acquireSync();
        assertEquals(await agent.tryAcquire(), false);
        other.release();
        if (kind === "deno-no-ffi") return; // it may not ask whether an owner is dead
        const owner = deadOwner();
        leave(path("a.lock.pid"), owner);
        assertEquals(await agent.tryAcquire(), true);
        assertEquals(await agent.call("stale"), [owner.pid]);
        assertEquals(recordIn(path("a.lock.pid")).pid, agent.pid);
        assertEquals(names(dir), ["a.lock.pid", "strace.log"]);
        await agent.release();
      });
      assert(links >= (kind === "deno-no-ffi" ? 1 : 2), `${links} links`);
      assertEquals([stale, names(dir)], [[], []]);
    });
  }

  test(`acquire() in ${kind} by PID file takes a damaged one for held where there are no hard links, and says what to do`, async (place) => {
    const { dir, path } = place;
    writeFileSync(path("a.lock.pid"), "");
    const links = await withoutLinks(place, kind, "EPERM", async (agent) => {
      await agent.lock(path(), PIDFILE);
      const waiting = agent.call("acquire", { name: "lock", options: { timeout: 4000 } });
      const error = await assertRejects(() => waiting, AgentError);
      assertEquals([error.name, error.code, error.holder], ["LockTimeoutError", "ETIMEDOUT", undefined]);
      assertMatch(
        error.message,
        /is damaged, and on a file system without hard links its maker may be about to write it/,
      );
      assert(error.message.includes(`"fuser -v ${path("a.lock.pid")}" shows`), error.message);
      assertEquals(names(dir), ["a.lock.pid", "strace.log"]);
      assertEquals(readFileSync(path("a.lock.pid"), "utf8"), "");
    });
    assert(links > 10, `${links} links: it was not judged again and again`);
    assertEquals(new Lock(path(), PIDFILE).tryAcquire(), true); // where there are links, it is old by now
  });
}

/** A file system of 64 KiB without any room left, seen by the agent alone. */
const FULL = 'mount -t tmpfs -o size=64k none "$0" && { cat /dev/zero > "$0/filler" 2>/dev/null; true; } && exec "$@"';

for (const kind of kinds) {
  for (const left of ["nothing", "a dead owner's file"]) {
    if (left !== "nothing" && kind === "deno-no-ffi") continue; // it may not ask whether an owner is dead
    test(`tryAcquire() in ${kind} by PID file says ENOSPC on a full disk with ${left} on it, leaves no litter, and works when there is room`, async (place) => {
      const { dir, path } = place;
      const agent = await place.agent(kind, { by: ["unshare", "-m", "sh", "-c", FULL, dir] });
      const seen = `/proc/${agent.pid}/root${dir}`; // its file system, from outside
      if (left !== "nothing") {
        unlinkSync(`${seen}/filler`);
        leave(`${seen}/a.lock.pid`, deadOwner());
        assertMatch(String(fill(`${seen}/filler`)), /ENOSPC/);
      }
      const before = readdirSync(seen).sort();
      await agent.lock(path(), PIDFILE);
      const error = await failure(agent.tryAcquire());
      assertEquals([error.name, error.code, error.path], ["LockError", "ENOSPC", path()], error.message);
      assertEquals(await agent.call("held", { name: "lock" }), false);
      assertEquals(readdirSync(seen).sort(), before);
      unlinkSync(`${seen}/filler`);
      assertEquals(await agent.tryAcquire(), true);
      await agent.release();
      assertEquals(readdirSync(seen), []);
      assertEquals(readdirSync(dir), []);
    });
  }
}

/** Writes until it fails; returns that error. */
function fill(file: string): unknown {
  try {
    for (;;) writeFileSync(file, new Uint8Array(4096), { flag: "a" });
  } catch (error) {
    return error;
  }
}

for (const kind of kinds) {
  test(`tryAcquire() in ${kind} by PID file says EFBIG where no file may grow, leaves no litter, and the next process acquires`, async (place) => {
    const { dir, path } = place;
    // SIGXFSZ, which comes with EFBIG, would end the runtime: ignored, as a shell's child inherits it.
    const agent = await place.agent(kind, { by: ["sh", "-c", 'trap "" XFSZ; exec "$@"', "sh"] });
    await agent.lock(path(), PIDFILE);
    const limit = async (size: string) => {
      const prlimit = place.child("prlimit", [`--fsize=${size}:unlimited`, "--pid", String(agent.pid)]);
      assertEquals((await prlimit.ended).code, 0, prlimit.errors);
    };
    await limit("0");
    for (let i = 0; i < 2; i++) {
      const error = await failure(agent.tryAcquire());
      assertEquals([error.name, error.code, error.path], ["LockError", "EFBIG", path()], error.message);
      assertEquals(names(dir), []);
    }
    // The kernel's lock needs no record.
    await agent.lock(path("kernel.lock"), { backend: "flock" }, "kernel");
    assertEquals(await agent.tryAcquire("kernel"), true);
    assertEquals(new Lock(path("kernel.lock")).tryAcquire(), false);
    await agent.release("kernel");
    unlinkSync(path("kernel.lock"));
    const next = new Lock(path(), PIDFILE);
    assertEquals(next.tryAcquire(), true);
    assertEquals(await agent.tryAcquire(), false);
    next.release();
    await limit("unlimited");
    assertEquals(await agent.tryAcquire(), true);
  });
}

for (const backend of ["pidfile", "flock"] as const) {
  test(`acquire() and release() by ${backend} throw nothing in four processes that do nothing else`, async (place) => {
    const { dir, path } = place;
    const agents = await Promise.all(
      [0, 1, 2, 3].map((i) => place.agent(kinds[backend === "pidfile" ? i % kinds.length : 0])),
    );
    for (const agent of agents) await agent.lock(path(), { backend });
    writeFileSync(path("count"), "0");
    const times = backend === "pidfile" ? 50 : 100;
    await Promise.all(agents.map(async (agent) => {
      assertEquals(await agent.call("loop", { name: "lock", times }), times);
      assertEquals(await agent.call("count", { name: "lock", file: path("count"), times: 20 }), 20);
      assertEquals(await agent.call("stale"), []);
    }));
    assertEquals(readFileSync(path("count"), "utf8"), "80");
    assertEquals(names(dir), backend === "pidfile" ? ["count"] : ["a.lock", "count"]);
  });
}

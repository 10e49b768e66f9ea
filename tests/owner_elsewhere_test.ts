/** Owners that are another user's, or another PID namespace's: CASES rows 14, 15 and 17. */
import { chmodSync, readFileSync } from "node:fs";
import process from "node:process";
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { Lock, LockTimeoutError } from "../mod.ts";
import { Agent, AgentError, ownKind, test } from "./harness.ts";
import { asNobody, kinds, leave, ownerOf, recordIn, startTimeOf } from "./pid_files.ts";

for (const kind of kinds) {
  const mayAsk = kind !== "deno-no-ffi";
  for (const [what, startTime] of [["the right", () => startTimeOf(1)], ["another", () => "1"]] as const) {
    const dead = mayAsk && what === "another";
    test(`tryAcquire() in ${kind} of another user ${dead ? "takes over from" : "is refused by"} a PID file of pid 1 with ${what} start time`, async (place) => {
      const { dir, path } = place;
      chmodSync(dir, 0o777);
      const agent = await place.agent(kind, asNobody());
      const owner = ownerOf(1, { startTime: startTime() });
      const bytes = leave(path("a.lock.pid"), owner);
      chmodSync(path("a.lock.pid"), 0o644);
      const verdict = await agent.call("processState", { pid: 1, startTime: startTime() });
      assertEquals(verdict.state, dead ? "dead" : mayAsk ? "alive" : "unknown");
      await agent.lock(path(), { backend: "pidfile" });
      assertEquals(await agent.tryAcquire(), dead);
      if (!dead) assertEquals(new Uint8Array(readFileSync(path("a.lock.pid"))), bytes);
    });
  }
}

/** An agent in a PID namespace of its own, which ends with it; and its PID there. */
async function inNamespace(dir: string, fn: (agent: Agent, inside: number) => Promise<void>): Promise<void> {
  const by = ["unshare", "--kill-child", "-pf", "--mount-proc"];
  // Not ready(): the PID that it tells is some other process's here, and would be killed in the end.
  const agent = Agent.start(ownKind, { by, allow: dir });
  try {
    await fn(agent, JSON.parse(await agent.line()).ready);
  } finally {
    await agent.kill();
  }
}

test("acquire() is refused by a holder in another PID namespace, and says why and what settles it", async ({ dir, path }) => {
  await inNamespace(dir, async (agent, inside) => {
    await agent.lock(path(), { backend: "pidfile" });
    assertEquals(await agent.tryAcquire(), true);
    assertEquals(recordIn(path("a.lock.pid")).pid, inside);
    for (const backend of ["pidfile", "flock"] as const) {
      const lock = new Lock(path(), { backend });
      assertEquals(lock.tryAcquire(), false);
      const error = await assertRejects(() => lock.acquire({ timeout: 0 }), LockTimeoutError, "another PID namespace");
      assertStringIncludes(error.message, `there, "ps -o pid,lstart,args -p ${inside}" shows whether it lives`);
      assertEquals(error.holder?.pid, inside);
    }
    assertEquals(Lock.inspect(path()).state, "unknown");
    await agent.release();
    assertEquals(new Lock(path(), { backend: "pidfile" }).tryAcquire(), true);
  });
});

test("acquire() in a PID namespace is refused by a holder outside, whose number is nobody's there", async ({ dir, path }) => {
  const lock = new Lock(path(), { backend: "pidfile" }).acquireSync();
  await inNamespace(dir, async (agent) => {
    assertEquals((await agent.call("processState", { pid: process.pid })).state, "dead");
    await agent.lock(path(), { backend: "pidfile" });
    assertEquals(await agent.tryAcquire(), false);
    const waiting = agent.call("acquire", { name: "lock", options: { timeout: 0 } });
    await assertRejects(() => waiting, AgentError, "another PID namespace");
    lock.release();
    assertEquals(await agent.tryAcquire(), true);
  });
});

test("tryAcquire() does not take over from a living owner in another time namespace, whose start time looks like another's", async ({ dir, path }) => {
  const by = ["unshare", "--kill-child", "-T", "--boottime", "100000", "-f"];
  const agent = Agent.start(ownKind, { by, allow: dir });
  try {
    await agent.ready();
    await agent.lock(path(), { backend: "pidfile" });
    assertEquals(await agent.tryAcquire(), true);
    const lock = new Lock(path(), { backend: "pidfile" });
    assertEquals(lock.tryAcquire(), false);
    const { state, reason } = lock.inspect();
    assertEquals(state, "unknown");
    assertStringIncludes(reason, "another time namespace");
    await agent.release();
    assertEquals(lock.tryAcquire(), true);
    // And the other way round: from in there, we look as if we were another process.
    assertEquals(await agent.tryAcquire(), false);
    lock.release();
  } finally {
    await agent.kill();
  }
});

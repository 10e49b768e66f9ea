/** Owners that are another user's, or another PID namespace's: CASES rows 14, 15 and 17. */
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { Lock, LockTimeoutError } from "../mod.ts";
import { system } from "../src/sys/mod.ts";
import { Agent, AgentError, type Kind, ownKind, type Place, test } from "./support/harness.ts";
import {
  asNobody,
  deadOwner,
  kinds,
  leave,
  nonce,
  ownerOf,
  recordIn,
  sleeper,
  startTimeOf,
} from "./support/pid_files.ts";

const REPOSITORY = fileURLToPath(new URL("../", import.meta.url));

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

/** Runs an agent by a command, until `fn` is done. */
async function agentBy(
  place: Place,
  by: readonly string[],
  fn: (agent: Agent) => Promise<void>,
  kind: Kind = ownKind,
  flags?: readonly string[],
): Promise<void> {
  const agent = Agent.start(kind, { by, allow: place.dir, flags });
  try {
    JSON.parse(await agent.line()); // not ready(): the PID that it tells may be another process's here
    await fn(agent);
  } finally {
    await agent.kill();
  }
}

const NAMESPACE = ["unshare", "--kill-child", "-mpf", "--mount-proc"];

/** What a shell does before it becomes the agent. */
const before = (command: string) => ["sh", "-c", `${command} && exec "$@"`, "sh"];

/** As the same kernel was called before a new lease of DHCP, or in a container with a random name. */
const RENAMED = ["unshare", "--uts", ...before("hostname renamed.example")];

test("tryAcquire() takes over from a dead owner of a host that has another name since, and from no living one", async (place) => {
  const { dir, path } = place;
  const isLocal = system().fileSystem(dir) === "local";
  await agentBy(place, RENAMED, async (agent) => {
    for (const backend of ["pidfile", "flock"]) {
      leave(path("dead.pid"), deadOwner());
      await agent.lock(path("dead"), { backend });
      assertEquals(await agent.tryAcquire(), isLocal);
      if (isLocal) await agent.release();
      leave(path("live.pid"), ownerOf(sleeper(place)));
      await agent.lock(path("live"), { backend });
      assertEquals(await agent.tryAcquire(), false);
    }
  });
});

/** Another boot id, as systemd-nspawn gives its containers. */
const otherBoot = (file: string) => before(`mount --bind ${file} /proc/sys/kernel/random/boot_id`);

test("tryAcquire() is refused by a living owner in a system container, which has a boot id of its own and the same host name", async (place) => {
  const { path } = place;
  writeFileSync(path("boot"), "11111111-2222-4333-8444-555555555555\n");
  await agentBy(place, [...NAMESPACE, ...otherBoot(path("boot"))], async (agent) => {
    for (const backend of ["pidfile", "flock"] as const) {
      await agent.lock(path(), { backend: "pidfile" });
      assertEquals(await agent.tryAcquire(), true);
      assertEquals(recordIn(path("a.lock.pid")).bootId, "11111111-2222-4333-8444-555555555555");
      assertEquals(new Lock(path(), { backend }).tryAcquire(), false);
      await agent.release();
      const lock = new Lock(path(), { backend: "pidfile" }).acquireSync();
      await agent.lock(path(), { backend });
      assertEquals(await agent.tryAcquire(), false);
      assertEquals(lock.verify(), true);
      lock.release();
    }
  });
});

test("tryAcquire() takes over from an owner that was killed before a restart of the machine", async (place) => {
  const { dir, path } = place;
  writeFileSync(path("boot"), "11111111-2222-4333-8444-555555555555\n");
  await agentBy(place, ["unshare", "-m", ...otherBoot(path("boot"))], async (agent) => {
    await agent.lock(path(), { backend: "pidfile" });
    assertEquals(await agent.tryAcquire(), true);
  });
  const isLocal = system().fileSystem(dir) === "local";
  const { fileSystem } = recordIn(path("a.lock.pid"));
  assertEquals(fileSystem, isLocal ? "local" : system().fileSystem(dir) ?? "unknown");
  const lock = new Lock(path(), { backend: "pidfile", onStale: () => {} });
  assertEquals(lock.inspect().state, isLocal ? "stale" : "unknown");
  assertEquals(lock.tryAcquire(), isLocal);
  if (isLocal) lock.release();
});

test("tryAcquire() in a PID namespace whose /proc shows another one does not go by what that says of a number", async (place) => {
  const { path } = place;
  // Without --mount-proc: /proc/1 is the machine's first process there, and not the agent, which has number 1.
  await agentBy(place, ["unshare", "--kill-child", "-pf"], async (agent) => {
    await agent.lock(path("probe"), { backend: "pidfile" });
    assertEquals(await agent.tryAcquire(), true);
    const record = recordIn(path("probe.pid"));
    assertEquals([record.pid, record.startTime], [1, undefined]);
    assertEquals(record.pidNamespace === system().self().pidNamespace, false);
    // As another process of that namespace, whose /proc is its own, would see it.
    leave(path("a.lock.pid"), { ...record, startTime: "1", nonce: nonce() });
    for (const backend of ["pidfile", "flock"]) {
      await agent.lock(path(), { backend }, backend);
      assertEquals(await agent.tryAcquire(backend), false);
    }
    assertEquals((await agent.call("processState", { pid: 1, startTime: "1" })).state, "alive");
    // The kernel's list names outer processes by their outer numbers, so it is not read.
    const other = new Lock(path("kernel.lock")).acquireSync();
    await agent.lock(path("kernel.lock"), {}, "kernel");
    const { holders, reason } = await agent.call("inspect", { name: "kernel" });
    assertStringIncludes(reason, "another PID namespace");
    assertStringIncludes(reason, "/proc/locks cannot be read here");
    assertEquals(holders.length, 1);
    other.release();
  });
});

if (ownKind === "deno") {
  const blind = (dir: string) => [`--allow-read=${dir},${REPOSITORY}`, `--allow-write=${dir}`, "--allow-run"];
  const MAY_BE =
    /counts as held because .* (?:PID namespace|pidNamespace) .*"ps -o pid,lstart,args -p \d+" shows whether it lives/;
  const BREAK = 'If no process holds it any more, "holdfast break ';

  test("tryAcquire() in Deno without FFI is refused by a living owner in another PID namespace, also with --allow-run", async (place) => {
    const { dir, path } = place;
    await inNamespace(dir, async (holder) => {
      await holder.lock(path(), { backend: "pidfile" });
      assertEquals(await holder.tryAcquire(), true);
      const reader = await place.agent("deno-no-ffi", { flags: blind(dir) });
      for (const backend of ["pidfile", "flock"]) {
        await reader.lock(path(), { backend }, backend);
        assertEquals(await reader.tryAcquire(backend), false);
        const late = reader.call("acquire", { name: backend, options: { timeout: 0 } });
        const { message } = await assertRejects(() => late, AgentError);
        assertMatch(message, MAY_BE);
        assertStringIncludes(message, BREAK);
        assertEquals(/kill/.test(message), false, message);
      }
      assertEquals(await holder.call("held", { name: "lock" }), true);
    });
  });

  test("tryAcquire() is refused by a living Deno without FFI in another PID namespace, whose record does not say so", async (place) => {
    const { dir, path } = place;
    await agentBy(
      place,
      NAMESPACE,
      async (holder) => {
        await holder.lock(path(), { backend: "pidfile" });
        assertEquals(await holder.tryAcquire(), true);
        const { pidNamespace, bootId, nonce } = recordIn(path("a.lock.pid"));
        assertEquals([pidNamespace, bootId, nonce?.length], [undefined, undefined, 32]);
        for (const backend of ["pidfile", "flock"] as const) {
          const lock = new Lock(path(), { backend });
          assertEquals(lock.tryAcquire(), false);
          const { message } = await assertRejects(() => lock.acquire({ timeout: 0 }), LockTimeoutError);
          assertMatch(message, MAY_BE);
          assertStringIncludes(message, BREAK);
          assertEquals(/kill/.test(message), false, message);
        }
        // It knows itself, by the nonce of what it holds.
        assertEquals((await holder.call("inspect", { name: "lock" })).state, "held");
        await holder.lock(path(), { backend: "pidfile" }, "second");
        const late = holder.call("acquire", { name: "second", options: { timeout: 0 } });
        await assertRejects(() => late, AgentError, "which is this very process, by another Lock object");
        await holder.release();
        assertEquals(new Lock(path(), { backend: "pidfile" }).tryAcquire(), true);
      },
      "deno-no-ffi",
      blind(dir),
    );
  });
}

test("acquire() does not take a process of another PID namespace that has its own number for itself", async ({ path }) => {
  const here = new Lock(path(), { backend: "pidfile" });
  leave(path("a.lock.pid"), ownerOf(process.pid, { pidNamespace: "4026539999" }));
  const { message } = await assertRejects(() => here.acquire({ timeout: 0 }), LockTimeoutError);
  assertStringIncludes(message, "another PID namespace");
  assertEquals(/this very process|kill/.test(message), false, message);
});

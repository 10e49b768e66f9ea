/** LockStatus.complete: whether every holder would be seen from where somebody looks. */
import { writeFileSync } from "node:fs";
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { Lock, type LockStatus, scan } from "../mod.ts";
import { system } from "../src/sys/mod.ts";
import { inspectPath } from "../src/inspect/inspect.ts";
import { Agent, type Kind, type Place, test } from "./support/harness.ts";
import { failure } from "./support/lockers.ts";
import { deadOwner, deadPid, kinds, leave } from "./support/pid_files.ts";

/** What an agent sees of a path, in short, and why. */
async function seen(agent: Agent, path: string): Promise<[state: string, complete: boolean, reason: string]> {
  const { state, complete, reason }: LockStatus = await agent.call("look", { path });
  return [state, complete, reason];
}

/** An agent in a PID namespace of its own, which ends with it. */
async function inNamespace(kind: Kind, { dir }: Place, fn: (agent: Agent) => Promise<void>): Promise<void> {
  const agent = Agent.start(kind, { by: ["unshare", "--kill-child", "-pf", "--mount-proc"], allow: dir });
  try {
    await agent.line(); // not ready(): the PID that it tells is some other process's here
    await fn(agent);
  } finally {
    await agent.kill();
  }
}

/** flock(1) has it, without a record. */
async function byFlock({ child }: Place, path: string, ...options: string[]): Promise<void> {
  const holder = child("flock", [...options, path, "sh", "-c", "echo granted; cat"]);
  assertEquals(await holder.line(), "granted", holder.errors);
}

const UNSEEN = /, so a holder without a record would not be seen/;

test("inspect() is complete where the kernel lists every lock, and scan() too", async (place) => {
  const { dir, path, agent } = place;
  await byFlock(place, path("held.lock"));
  const reader = await agent();
  await reader.lock(path("shared.lock"), { mode: "shared" });
  assertEquals(await reader.tryAcquire(), true);
  await byFlock(place, path("shared.lock"), "-s");
  const owner = await agent();
  await owner.lock(path("owned.lock"), { backend: "pidfile" });
  assertEquals(await owner.tryAcquire(), true);
  writeFileSync(path("free.lock"), "");
  leave(path("stale.lock"), deadOwner());
  const expected = { free: "free", held: "held", owned: "held", shared: "held", stale: "stale" };
  for (const [name, state] of Object.entries(expected)) {
    const status = Lock.inspect(path(`${name}.lock`));
    assertEquals([status.state, status.complete], [state, true], `${name}: ${status.reason}`);
  }
  assertEquals(Lock.inspect(path("missing.lock")).complete, true);
  const found = scan(dir).map((
    { path, state, complete },
  ) => [path.slice(dir.length + 1, -".lock".length), state, complete]);
  assertEquals(found, Object.entries(expected).map(([name, state]) => [name, state, true]));
});

for (const kind of kinds) {
  test(`inspect() in ${kind} in a PID namespace is not complete, but of what it holds exclusively or is not there`, async (place) => {
    const { path } = place;
    await byFlock(place, path("held.lock"));
    await byFlock(place, path("shared.lock"), "-s");
    writeFileSync(path("stale.lock"), `${deadPid()}\n`);
    await inNamespace(kind, place, async (agent) => {
      const mayAsk = kind !== "deno-no-ffi"; // whether a process lives
      for (const [name, state] of [["held", "free"], ["shared", "free"], ["stale", mayAsk ? "stale" : "unknown"]]) {
        const [found, complete, reason] = await seen(agent, path(`${name}.lock`));
        assertEquals([found, complete], [state, false], `${name}: ${reason}`);
        assertMatch(reason, UNSEEN);
      }
      assertEquals((await seen(agent, path("missing.lock"))).slice(0, 2), ["free", true]);
      for (
        const [name, mode, complete] of [["own.lock", "exclusive", true], ["shared.lock", "shared", false]] as const
      ) {
        await agent.lock(path(name), { mode }, name);
        assertEquals(await agent.tryAcquire(name), true);
        const [state, found, reason] = await seen(agent, path(name));
        assertEquals([state, found], ["held", complete], `${name}: ${reason}`);
        if (!complete) assertMatch(reason, /so (?:another reader|a holder without a record) would not be seen/);
      }
      const all: LockStatus[] = await agent.call("scan", { directory: place.dir });
      assertEquals(
        all.map(({ path, complete }) => [path.split("/").at(-1), complete]),
        [["held.lock", false], ["own.lock", true], ["shared.lock", false], ["stale.lock", false]],
      );
      // A PID file's owner is one thing, and who has the kernel's lock on the file beside it another.
      await agent.lock(path("pid.lock"), { backend: "pidfile" }, "pid");
      assertEquals(await agent.tryAcquire("pid"), true);
      writeFileSync(path("pid.lock"), "");
      const [state, complete, reason] = await seen(agent, path("pid.lock"));
      assertEquals([state, complete], [mayAsk ? "held" : state, false]);
      assertMatch(reason, UNSEEN);
    });
  });

  test(`acquire() in ${kind} in a PID namespace says that the holder cannot be seen from there`, async (place) => {
    const { path } = place;
    await byFlock(place, path());
    await inNamespace(kind, place, async (agent) => {
      await agent.lock(path());
      for (const sync of [false, true]) {
        const late = await failure(agent.call("acquire", { name: "lock", sync, options: { timeout: 0 } }));
        assertStringIncludes(
          late.message,
          "at once: held by a process that cannot be seen from here. It counts as held",
        );
        assertMatch(late.message, UNSEEN);
      }
      const options = { signalHolder: "SIGTERM" };
      const { message } = await failure(agent.call("acquire", { name: "lock", options }));
      assertMatch(message, /was not sent SIGTERM, because the kernel refuses it, and .* would not be seen/);
    });
  });
}

if (kinds.includes("deno-no-ffi")) {
  test("inspect() in Deno without FFI is not complete, but of what it holds exclusively or is not there", async ({ path, agent }) => {
    const user = await agent("deno-no-ffi");
    writeFileSync(path("free"), "");
    const shared = new Lock(path("shared"), { mode: "shared" }).acquireSync();
    for (const [name, mode] of [["own", "exclusive"], ["shared", "shared"]] as const) {
      await user.lock(path(name), { mode }, name);
      assertEquals(await user.tryAcquire(name), true);
    }
    const expected = { free: ["free", false], missing: ["free", true], own: ["held", true], shared: ["held", false] };
    for (const [name, state] of Object.entries(expected)) {
      const [found, complete, reason] = await seen(user, path(name));
      assertEquals([found, complete], state, `${name}: ${reason}`);
      assertEquals(/^.*\/proc\/locks cannot be read here, so a holder/.test(reason), !complete, reason);
    }
    shared.release();
  });
}

test("inspect() is complete in the initial PID namespace only, where /proc/locks can be read, and on a local disk", ({ path }) => {
  writeFileSync(path(), "");
  const sys = system();
  const of = (other: Partial<typeof sys>) => inspectPath({ ...sys, ...other }, path());
  assertEquals(of({}).complete, true);
  for (
    const [what, other, why] of [
      ["no list", { kernelLocks: () => undefined }, "/proc/locks cannot be read here"],
      ["a namespace", { self: () => ({ ...sys.self(), pidNamespace: "4026532000" }) }, "only this PID namespace's"],
      ["none told", { self: () => ({ ...sys.self(), pidNamespace: undefined }) }, "only this PID namespace's"],
      ["NFS", { fileSystem: () => "nfs" }, "a holder on another host, or by another mount, would not be seen"],
      ["not told", { fileSystem: () => undefined }, "its file system is not known, so a holder on another host"],
    ] as [string, Partial<typeof sys>, string][]
  ) {
    const { state, complete, reason } = of(other);
    assertEquals([state, complete], ["free", false], what);
    assert(reason.includes(why), `${what}: ${reason}`);
  }
});

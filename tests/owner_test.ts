/** Is a record's owner alive, dead or unknown: owner.ts's rules on real processes. All facts: owner_table_test.ts. */
import { execFileSync } from "node:child_process";
import { copyFileSync, readFileSync } from "node:fs";
import process from "node:process";
import { assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { processState } from "../mod.ts";
import { judge } from "../src/record/owner.ts";
import type { HolderFields } from "../src/record/record.ts";
import { system } from "../src/sys/mod.ts";
import { type Agent, AgentError, type Place, test } from "./support/harness.ts";
import {
  deadOwner,
  deadPid,
  headless,
  kinds,
  leave,
  names,
  ownerOf,
  recordIn,
  sleeper,
  startTimeOf,
  threadId,
  zombie,
} from "./support/pid_files.ts";

interface Case {
  readonly owner: (place: Place, judge: number) => HolderFields | Promise<HolderFields>;
  /** What it is on a local disk; elsewhere an owner that needs one is unknown. */
  readonly state: "alive" | "dead" | "unknown";
  readonly reason: RegExp;
  readonly needsLocal?: boolean;
}

const BEFORE = { bootId: "00000000-0000-4000-8000-000000000000", fileSystem: "local" };
const ELSEWHERE = { host: "some-other-host" };
const CONTAINER = { pidNamespace: "4026539999" };
const LATER = /belongs to a later process now/;
const ALIVE = /^process \d+ is alive$/;
const GONE = /^there is no process \d+$/;

const HEADLESS = "a process whose first thread has ended while another goes on";
/** Alive, but a PID file of it that it does not hold was left by an earlier load of its program: ours_test.ts. */
const OWN = "the judge's own PID";

const CASES: Record<string, Case> = {
  "a process that has ended": { owner: () => deadOwner(), state: "dead", reason: GONE },
  "a live process": { owner: (place) => ownerOf(sleeper(place)), state: "alive", reason: ALIVE },
  "a live process of unknown start time": {
    owner: (place) => ownerOf(sleeper(place), { startTime: undefined }),
    state: "alive",
    reason: ALIVE,
  },
  "a live process with another start time": {
    owner: (place) => ownerOf(sleeper(place), { startTime: "1" }),
    state: "dead",
    reason: LATER,
  },
  [OWN]: { owner: (_, pid) => ownerOf(pid), state: "alive", reason: ALIVE },
  "the judge's own PID with an old start time": {
    owner: (_, pid) => ownerOf(pid, { startTime: "1" }),
    state: "dead",
    reason: LATER,
  },
  "a zombie": { owner: async (place) => ownerOf(await zombie(place)), state: "dead", reason: /a zombie/ },
  [HEADLESS]: {
    owner: async (place) => ownerOf(await headless(place)),
    state: "alive",
    reason: /alive/,
  },
  "a thread's id": {
    owner: async (place) => ownerOf(await threadId(place)),
    state: "dead",
    reason: /^\d+ is a thread of process \d+ now$/,
  },
  "a live process whose program is called ) Z (": {
    owner: (place) => {
      copyFileSync("/bin/sleep", place.path(") Z ("));
      const { pid } = place.child(place.path(") Z ("), ["600"]);
      return ownerOf(pid);
    },
    state: "alive",
    reason: ALIVE,
  },
  "a live process, from before a restart of the machine": {
    owner: (place) => ownerOf(sleeper(place), BEFORE),
    state: "dead",
    reason: /^the machine was restarted since$/,
    needsLocal: true,
  },
  "a container, from before a restart of the machine, or a system container with a boot id of its own": {
    owner: () => deadOwner({ ...BEFORE, ...CONTAINER }),
    state: "unknown",
    reason: /another PID namespace \(a container\?\); there, "ps -o pid,lstart,args -p \d+" shows/,
  },
  "another boot of a host without a name": {
    owner: () => deadOwner({ ...BEFORE, host: undefined }),
    state: "unknown",
    reason: /another boot, of this machine or of another one; there, "ps -o pid,lstart,args -p \d+" shows/,
  },
  "another boot, of a guest that has the host's name and a folder of the host": {
    owner: () => deadOwner({ ...BEFORE, fileSystem: "vboxsf" }),
    state: "unknown",
    reason: /another boot, of this machine or of another one; there,/,
  },
  "another boot of another host": {
    owner: () => deadOwner({ ...BEFORE, ...ELSEWHERE }),
    state: "unknown",
    reason: /another host; there, "ps -o pid,lstart,args -p \d+" shows/,
  },
  "a process that has ended, of a host that was called otherwise then": {
    owner: () => deadOwner(ELSEWHERE),
    state: "dead",
    reason: GONE,
    needsLocal: true,
  },
  "a live process, of a host that was called otherwise then": {
    owner: (place) => ownerOf(sleeper(place), ELSEWHERE),
    state: "alive",
    reason: ALIVE,
    needsLocal: true,
  },
  "a process that has ended, whose record has no boot id": {
    owner: () => deadOwner({ bootId: undefined }),
    state: "unknown",
    reason: /its record has no bootId .*; where it runs, "ps -o pid,lstart,args -p \d+" shows/,
  },
  "a process that has ended, whose record has no PID namespace": {
    owner: () => deadOwner({ pidNamespace: undefined }),
    state: "unknown",
    reason: /its record has no pidNamespace \(written without --allow-ffi\?\); where it runs,/,
  },
  "a live process with another start time, whose record has no time namespace": {
    owner: (place) => ownerOf(sleeper(place), { startTime: "1", timeNamespace: undefined }),
    state: "unknown",
    reason: /whether it started in this time namespace is not known; where it was started, "ps -o/,
  },
  "another PID namespace, with the number of a process that has ended here": {
    owner: () => deadOwner(CONTAINER),
    state: "unknown",
    reason: /another PID namespace \(a container\?\); there, "ps -o pid,lstart,args -p \d+" shows/,
  },
  "another PID namespace, with the number of a zombie here": {
    owner: async (place) => ownerOf(await zombie(place), CONTAINER),
    state: "unknown",
    reason: /another PID namespace/,
  },
  "nothing but the PID of a live process": {
    owner: (place) => ({ pid: sleeper(place) }),
    state: "alive",
    reason: ALIVE,
  },
  "nothing but the PID of a process that has ended": {
    owner: () => ({ pid: deadPid() }),
    state: "dead",
    reason: GONE,
  },
};

for (const [what, { owner, state, reason }] of Object.entries(CASES)) {
  test(`judge() says ${state} of ${what}`, async (place) => {
    const verdict = judge(await owner(place, process.pid), system(), "local");
    assertMatch(verdict.reason, reason);
    assertEquals(verdict.state, state);
  });
}

/** Deno without FFI may not ask, and knows neither its own host nor its namespace: another's number may be its own. */
const MAY_NOT_ASK = /It counts as held because this process may not ask whether another one lives/;
const HAS_THE_NUMBER = /It counts as held because this process has that number too, and cannot tell whether the record/;

/** A try by the kernel's lock, which looks at the PID file, and then by PID file. */
async function tries(place: Place, agent: Agent, what: string): Promise<void> {
  const { dir, path } = place;
  const { owner, state, reason, needsLocal } = CASES[what];
  if (needsLocal && system().fileSystem(dir) !== "local") return;
  const dead = state === "dead" && agent.kind !== "deno-no-ffi";
  const file = path("a.lock.pid");
  const fields = await owner(place, agent.pid);
  const bytes = leave(file, fields);
  const untouched = () => assertEquals(new Uint8Array(readFileSync(file)), bytes, what);
  const told = await agent.call("stale");
  await agent.lock(path(), { backend: "pidfile" });
  await agent.lock(path(), { backend: "flock" }, "kernel");
  assertEquals(await agent.tryAcquire("kernel"), dead, what);
  if (dead) {
    // The kernel's holder removes it, or it would be in the way once its PID is another's.
    assertEquals(names(dir).filter((name) => name !== ") Z ("), ["a.lock"], what);
    await agent.release("kernel");
    leave(file, fields);
    assertEquals(await agent.tryAcquire(), true, what);
    assertEquals(await agent.call("stale"), [...told, fields.pid, fields.pid], what);
    const { pid, nonce } = recordIn(file);
    assertEquals([pid, nonce === fields.nonce], [agent.pid, false], what);
    await agent.release();
    assertEquals(names(dir).filter((name) => name !== ") Z ("), ["a.lock"], what);
    return;
  }
  untouched();
  assertEquals(await agent.tryAcquire(), false, what);
  const late = agent.call("acquire", { name: "lock", options: { timeout: 0 } });
  const { name, code, holder, message } = await assertRejects(() => late, AgentError);
  assertEquals([name, code, holder.pid], ["LockTimeoutError", "ETIMEDOUT", fields.pid], what);
  const knowsNothing = agent.kind === "deno-no-ffi" && fields.nonce !== undefined;
  const words = knowsNothing && fields.pid === agent.pid
    ? HAS_THE_NUMBER
    : knowsNothing || (agent.kind === "deno-no-ffi" && fields.pid !== agent.pid)
    ? MAY_NOT_ASK
    : state === "unknown"
    ? reason
    : new RegExp(
      `held by pid ${fields.pid}.*(?:as soon as that process releases it|fuser -v|which is this very process|holds it is not proven)`,
    );
  assertMatch(message, words, what);
  untouched();
  assertEquals(await agent.call("stale"), told, what);
}

for (const kind of kinds) {
  for (const state of ["alive", "dead", "unknown"]) {
    const does = kind === "deno-no-ffi" || state !== "dead" ? "is refused by" : "takes over from";
    test(`tryAcquire() in ${kind} ${does} every PID file of which the owner is ${state}`, async (place) => {
      const agent = await place.agent(kind);
      for (const what in CASES) {
        const apart = what === HEADLESS || (what === OWN && kind !== "deno-no-ffi"); // which does not know its thread
        if (CASES[what].state === state && !apart) await tries(place, agent, what);
      }
    });
  }

  test(`tryAcquire() in ${kind} is refused by a PID file of ${HEADLESS}`, async (place) => {
    await tries(place, await place.agent(kind), HEADLESS);
  });
}

test("processState() says the same of a process as the judge of records", async (place) => {
  const live = sleeper(place);
  const gone = deadPid();
  assertEquals(processState(live), { state: "alive", reason: `process ${live} is alive` });
  assertEquals(processState(live, startTimeOf(live)).state, "alive");
  assertEquals(processState(live, "1").state, "dead");
  assertEquals(processState(process.pid).state, "alive");
  assertEquals(processState(process.pid, "1").state, "dead");
  assertEquals(processState(gone), { state: "dead", reason: `there is no process ${gone}` });
  assertEquals(processState(await zombie(place)).state, "dead");
  assertEquals(processState(await threadId(place)).state, "dead");
});

test("processState() is a TypeError for what is no number, and a RangeError for what is no process", () => {
  // The casts here and below: it is about what JavaScript may hand over.
  for (const bad of ["1", "", undefined, null, 1n, {}, [1], true] as unknown as number[]) {
    assertThrows(() => processState(bad), TypeError, "its id must be a number");
  }
  for (const bad of [0, -0, -1, 1.5, NaN, Infinity, -Infinity, 2 ** 31, 99999999999, 2 ** 53]) {
    assertThrows(() => processState(bad), RangeError, "its id must be from 1 to 2147483647");
  }
});

test("processState() is a TypeError for a start time that is no text, which would never equal one", (place) => {
  const pid = sleeper(place);
  for (const bad of [Number(startTimeOf(pid)), null, new Date(), BigInt(startTimeOf(pid))] as unknown as string[]) {
    assertThrows(() => processState(pid, bad), TypeError);
  }
});

test("judge() says dead of a process that ends between the two questions", async (place) => {
  const shell = place.child("sh", ["-c", "sleep 600 & echo $!; wait; cat"]);
  const pid = Number(await shell.line());
  const sys = system();
  const asked: string[] = [];
  const verdict = judge(ownerOf(pid), {
    ...sys,
    exists: (pid) => {
      const answer = sys.exists(pid);
      asked.push(String(answer));
      return answer;
    },
    processInfo: (pid) => {
      const end = "kill -9 $0; for i in $(seq 10000); do kill -0 $0 2>/dev/null || exit 0; done; exit 1";
      execFileSync("sh", ["-c", end, String(pid)]); // its parent waits for it, so it is gone and no zombie
      return sys.processInfo(pid);
    },
  });
  assertEquals(verdict, { state: "dead", reason: `there is no process ${pid}` });
  assertEquals(asked, ["exists", "gone"]);
});

test("judge() says alive of a process that exists and of which nothing more can be seen", (place) => {
  const pid = sleeper(place);
  const verdict = judge(ownerOf(pid, { startTime: "1" }), { ...system(), processInfo: () => undefined });
  assertEquals(verdict.state, "alive");
  assertMatch(verdict.reason, /nothing more about it can be seen from here/);
});

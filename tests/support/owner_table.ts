/**
 * Every combination of what a record and its reader know of each other, and what the verdict on the owner must be:
 * stated once more, without a line of src/record/owner.ts.
 */
import type { judge } from "../../src/record/owner.ts";
import type { HolderFields } from "../../src/record/record.ts";
import { type Identity, type Processes, type ProcessInfo, SystemError } from "../../src/sys/contract.ts";

/** How a fact of the reader stands to the same fact of the owner. */
export const RELATIONS = ["equal", "different", "unknown here", "unknown there", "unknown on both sides"] as const;
export type Relation = typeof RELATIONS[number];

/** Facts of which only the relation matters. */
const FACTS = ["boot", "time", "host", "start", "user"] as const;

const INITIAL = "4026531836", CONTAINER = "4026532201", OTHER = "4026532202";

/** PID namespaces, the reader's and the owner's: which one it is matters too. */
const NAMESPACES: readonly (readonly [Relation, here: string | undefined, there: string | undefined])[] = [
  ["equal", INITIAL, INITIAL],
  ["equal", CONTAINER, CONTAINER],
  ["different", INITIAL, CONTAINER],
  ["different", CONTAINER, INITIAL],
  ["different", CONTAINER, OTHER],
  ["unknown here", undefined, INITIAL],
  ["unknown here", undefined, CONTAINER],
  ["unknown there", INITIAL, undefined],
  ["unknown there", CONTAINER, undefined],
  ["unknown on both sides", undefined, undefined],
];

/** What the reader finds under the owner's number. */
const FOUND = ["a process", "nothing", "a zombie", "a thread", "a process it cannot look at", "no answer"] as const;

/** What the owner saw its file on; undefined in a record of the kernel back end. */
const SEEN = ["local", "vboxsf", undefined] as const;

export interface Case extends Readonly<Record<typeof FACTS[number], Relation>> {
  readonly namespaces: typeof NAMESPACES[number];
  readonly found: typeof FOUND[number];
  /** Whether the reader sees the file on a local disk. */
  readonly local: boolean;
  readonly seen: typeof SEEN[number];
}

/** All of them: 5 to the power of 6, and more. */
export function* cases(): Generator<Case> {
  for (const boot of RELATIONS) {
    for (const namespaces of NAMESPACES) {
      for (const time of RELATIONS) {
        for (const host of RELATIONS) {
          for (const start of RELATIONS) {
            for (const user of RELATIONS) {
              for (const found of FOUND) {
                for (const local of [true, false]) {
                  for (const seen of SEEN) yield { boot, namespaces, time, host, start, user, found, local, seen };
                }
              }
            }
          }
        }
      }
    }
  }
}

const PID = 4711;

/** The two values of a fact: the reader's, and the owner's. */
const values = <T>(relation: Relation, one: T, another: T): [here: T | undefined, there: T | undefined] => [
  relation === "unknown here" || relation === "unknown on both sides" ? undefined : one,
  relation === "unknown there" || relation === "unknown on both sides"
    ? undefined
    : relation === "different"
    ? another
    : one,
];

/** A case as `judge` is given it. */
export function given(each: Case): Parameters<typeof judge> {
  const boot = values(each.boot, "boot-1", "boot-2"), host = values(each.host, "web-1", "web-2");
  const time = values(each.time, "4026531834", "4026532300"), start = values(each.start, "100", "200");
  const user = values(each.user, 1000, 1001), [, pidHere, pidThere] = each.namespaces;
  const self: Identity = {
    pid: 1,
    bootId: boot[0],
    pidNamespace: pidHere,
    timeNamespace: time[0],
    host: host[0],
    uid: user[0],
    runtime: "deno/2.9.6",
  };
  const owner: HolderFields = {
    pid: PID,
    bootId: boot[1],
    pidNamespace: pidThere,
    timeNamespace: time[1],
    host: host[1],
    uid: user[1],
    startTime: start[1],
    fileSystem: each.seen,
    runtime: "deno/2.9.6",
    nonce: "0123456789abcdef0123456789abcdef",
  };
  const looks: Record<Case["found"], ProcessInfo | undefined> = {
    "a process": { state: "S", threadGroup: PID, startTime: start[0] },
    "a zombie": { state: "Z", threadGroup: PID, startTime: start[0] },
    "a thread": { state: "S", threadGroup: PID - 1, startTime: start[0] },
    "a process it cannot look at": undefined,
    "nothing": undefined,
    "no answer": undefined,
  };
  // The cast: a verdict asks nothing else.
  const processes = {
    self: () => self,
    exists: () =>
      each.found === "nothing" ? "gone" : each.found === "no answer" ? new SystemError("EACCES", "denied") : "exists",
    processInfo: () => looks[each.found],
  } satisfies Partial<Processes> as Partial<Processes> as Processes;
  return [owner, processes, each.local ? "local" : "nfs"];
}

/** What it must be. */
export function right({ boot, namespaces, time, host, start, found, local, seen }: Case): "alive" | "dead" | "unknown" {
  const [namespace, here, there] = namespaces;
  const bothInitial = here === INITIAL && there === INITIAL;
  const oneKernel = local && seen !== "vboxsf" && bothInitial && host === "equal";
  if (boot === "different" && oneKernel) return "dead"; // restarted
  const sameTable = boot === "equal" && namespace === "equal" && (local || host === "equal");
  if (!sameTable || found === "no answer") return "unknown";
  if (found === "nothing" || found === "a zombie" || found === "a thread") return "dead";
  if (found === "a process" && start === "different") return time === "equal" ? "dead" : "unknown";
  return "alive";
}

/** How things may be: a fact that a side does not know is so, or so. */
interface World {
  readonly boot: boolean;
  readonly namespace: boolean;
  readonly time: boolean;
  readonly host: boolean;
}

/** Whether each fact is really the same, in every way that fits what is known. */
export function* worlds({ boot, namespaces: [namespace], time, host }: Case): Generator<World> {
  const ways = (relation: Relation) =>
    relation === "equal" ? [true] : relation === "different" ? [false] : [true, false];
  for (const b of ways(boot)) {
    for (const n of ways(namespace)) {
      for (const t of ways(time)) {
        for (const h of ways(host)) yield { boot: b, namespace: n, time: t, host: h };
      }
    }
  }
}

/** Whether the owner's number is one of the reader's own table. Two machines may have one boot id: a copied memory. */
export const isInTable = ({ local }: Case, { boot, namespace, host }: World): boolean =>
  boot && namespace && (local || host);

/** Whether the owner may be alive in a world. */
export function mayLive(each: Case, world: World): boolean {
  const { namespaces: [, here, there], found, start, local, seen } = each;
  if (isInTable(each, world)) {
    if (found === "nothing" || found === "a zombie" || found === "a thread") return false;
    return !(found === "a process" && start === "different" && world.time);
  }
  // Elsewhere it may: unless one kernel alone has the file, and that is this one, in which it is not.
  const oneKernel = local && (seen === "local" || (seen === undefined && world.host));
  return !(oneKernel && !world.boot && here === INITIAL && there === INITIAL);
}

/** What is wrong with the verdicts of such a judge: the first of each kind. */
export function faults(verdict: typeof judge): string[] {
  const found = new Map<string, string>();
  const fault = (what: string, each: Case) => {
    if (!found.has(what)) found.set(what, `${what}: ${JSON.stringify(each)}`);
  };
  for (const each of cases()) {
    const { state } = verdict(...given(each));
    const expected = right(each);
    if (state !== expected) fault(`${state}, and ${expected} is right`, each);
    if (state === "unknown") continue;
    for (const world of worlds(each)) {
      if (state === "dead" && mayLive(each, world)) fault("dead, and it may live", each);
      if (state === "alive" && !isInTable(each, world)) fault("alive, and the number may be another process's", each);
    }
  }
  return [...found.values()];
}

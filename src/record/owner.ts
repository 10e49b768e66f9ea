/**
 * Is a record's owner alive, dead or unknown. Unknown is never stolen from.
 *
 * A PID is a number in one table of processes: that of one PID namespace of one kernel. So the first question is
 * whether the owner's table is this process's. Two facts agree only if both are known: a fact that is unknown to
 * one side neither agrees nor differs, and where it matters the verdict is "unknown". (A reader that did not know its own
 * namespace took a living owner in another container for dead, and there were two holders.)
 *
 * The rules, of which the first that answers wins (docs/protocol.md has them too):
 *
 * 1. Nothing says where the owner lives, as in another program's PID file: its number is judged (rules 5 to 9).
 * 2. Another boot id of a host of the same name: dead, if one kernel after another had the file, so that the first must
 *    have ended. That takes both sides in the initial PID namespace (a system container has a boot id of its own,
 *    beside a living host) and the file on a local disk, as each of them sees it: what is a host's local disk is a
 *    guest's shared folder, and a server's is its clients' network.
 * 3. Not the same PID namespace, boot and host, all known: unknown. On a local disk boot and PID namespace are enough,
 *    because they name the kernel, whatever it is called today (DHCP, a container's random name). macOS, FreeBSD and
 *    Windows have neither boot ids nor PID namespaces: there the name of the system stands for the namespace, a boot
 *    is not asked for, and the host's name decides.
 * 4. Start times of two time namespaces cannot be compared: if only the start time would make it dead, unknown.
 * 5. kill(2) with signal 0 says ESRCH: dead. It cannot be asked: unknown.
 * 6. A zombie: dead.
 * 7. The number is a thread's: dead.
 * 8. Both start times are known, and differ: dead.
 * 9. Else alive; but of a record of this library, in this process's own table, dead if the thread that it names has
 *    ended (a Worker that was terminated; `owner_thread.ts`).
 */
import type { HolderFields } from "./record.ts";
import { system } from "../sys/mod.ts";
import { whyThreadIsDead } from "./owner_thread.ts";
import { INITIAL_PID_NAMESPACE, JAIL } from "../sys/proc.ts";
import { type Identity, type Processes, SystemError } from "../sys/contract.ts";

/** A verdict on a process, with its reason in words. */
export interface ProcessState {
  /** `"unknown"` is to be treated as alive. */
  readonly state: "alive" | "dead" | "unknown";
  /** Why, for people. */
  readonly reason: string;
}

const verdict = (state: ProcessState["state"], reason: string): ProcessState => ({ state, reason });

/** For a person, to settle what cannot be settled from here. */
const howToTell = (pid: number) => `"ps -o pid,lstart,args -p ${pid}" shows whether it lives`;

type Fact = string | undefined;

const agree = (a: Fact, b: Fact): boolean => a !== undefined && a === b;
const differ = (a: Fact, b: Fact): boolean => a !== undefined && b !== undefined && a !== b;

/** Linux names its namespaces by numbers. Other systems have no boot id and no time namespaces. */
const isLinux = (pidNamespace: Fact): boolean => pidNamespace !== undefined && /^\d+$/.test(pidNamespace);

/** Two jails are called the same: FreeBSD does not tell a process which one it is in. */
const sameNamespace = (a: Fact, b: Fact): boolean => agree(a, b) && a !== JAIL;

/**
 * Judges the owner that a record names. `fileSystem`: what the record lies on, as this process sees it
 * (`sys.fileSystem`); undefined if that is not known.
 */
export function judge(owner: HolderFields, processes: Processes, fileSystem?: string): ProcessState {
  const { pid, startTime, uid } = owner;
  if (saysNotWhere(owner)) return judgeNumber(pid, startTime, processes, uid);
  const self = processes.self();
  const isLocal = fileSystem === "local";
  if (wasRestarted(owner, self, isLocal)) return verdict("dead", "the machine was restarted since");
  if (!isHere(owner, self, isLocal)) return verdict("unknown", whyNotHere(owner, self, processes));
  const byStart = judgeNumber(pid, startTime, processes, uid);
  if (byStart.state === "alive") {
    const ended = whyThreadIsDead(owner, processes);
    return ended === undefined ? byStart : verdict("dead", ended);
  }
  if (byStart.state !== "dead" || !isLinux(self.pidNamespace)) return byStart;
  if (agree(owner.timeNamespace, self.timeNamespace)) return byStart;
  const byNumber = judgeNumber(pid, undefined, processes, uid);
  if (byNumber.state === "dead") return byNumber;
  const why = differ(owner.timeNamespace, self.timeNamespace)
    ? "it started in another time namespace"
    : "whether it started in this time namespace is not known";
  return verdict("unknown", `${why}; where it was started, ${howToTell(pid)}`);
}

/**
 * Another program's PID file, or a process that this one has found in its own table. A record of this library says
 * at least which runtime wrote it.
 */
function saysNotWhere({ nonce, runtime, bootId, pidNamespace, timeNamespace, host }: HolderFields): boolean {
  return [nonce, runtime, bootId, pidNamespace, timeNamespace, host].every((fact) => fact === undefined);
}

/** Rule 2. */
function wasRestarted(owner: HolderFields, self: Identity, isLocal: boolean): boolean {
  return differ(owner.bootId, self.bootId) && isLocal &&
    [owner, self].every(({ pidNamespace }) => pidNamespace === INITIAL_PID_NAMESPACE) &&
    agree(owner.host, self.host) &&
    // A record of the kernel back end does not say what its writer saw. There the kernel's lock decides.
    (owner.fileSystem === undefined || owner.fileSystem === "local");
}

/** Whether a fact that both know says that the owner lives elsewhere: its number is another process's here. */
export const isElsewhere = (owner: HolderFields, self: Identity): boolean =>
  (["pidNamespace", "bootId", "host"] as const).some((name) => differ(owner[name], self[name]));

/** Rule 3: whether the owner's number is one of this process's table. */
function isHere(owner: HolderFields, self: Identity, isLocal: boolean): boolean {
  if (!sameNamespace(owner.pidNamespace, self.pidNamespace)) return false;
  const linux = isLinux(self.pidNamespace);
  if (linux && !agree(owner.bootId, self.bootId)) return false;
  return (linux && isLocal) || agree(owner.host, self.host);
}

const NAMES = { pidNamespace: "PID namespace", bootId: "boot", host: "host name" } as const;

const SAME_NUMBER =
  "this process has that number too, and cannot tell whether the record is its own (it takes --allow-ffi): a Worker " +
  "that has ended may have left it, or a process in another container or on another host may hold it";

function whyNotHere(owner: HolderFields, self: Identity, processes: Processes): string {
  const there = `; there, ${howToTell(owner.pid)}`;
  const differs = (name: "host" | "pidNamespace" | "bootId") => differ(owner[name], self[name]);
  const namespace = "it runs in another PID namespace (a container?)";
  // A container of this machine has another host's name, too.
  if (differs("pidNamespace") && agree(owner.bootId, self.bootId)) return namespace + there;
  if (differs("host")) return `it runs on another host${there}`;
  if (differs("pidNamespace")) return namespace + there;
  if (differs("bootId")) return `it is from another boot, of this machine or of another one${there}`;
  const missing = (side: HolderFields | Identity) =>
    (["pidNamespace", "bootId", "host"] as const)
      .find((name) => side[name] === undefined && !(name === "bootId" && !isLinux(side.pidNamespace)));
  const [here, elsewhere] = [missing(self), missing(owner)];
  // "ps" would show this very process, which proves nothing.
  if (owner.pid === self.pid && (here || elsewhere)) return SAME_NUMBER;
  const asked = here && processes.exists(owner.pid, owner.uid);
  // Where not even that may be asked, it says what it takes.
  if (asked instanceof SystemError) return `${asked.message}; ${howToTell(owner.pid)}`;
  const why = here
    ? `this process does not know its own ${NAMES[here]} (it takes --allow-ffi?), so it cannot judge another one`
    : elsewhere
    ? `its record has no ${elsewhere} (written without --allow-ffi?)`
    : "both run in a jail, and whether it is the same jail is not known";
  return `${why}; where it runs, ${howToTell(owner.pid)}`;
}

/** Rules 5 to 9, for a number of this process's own table. */
export function judgeNumber(
  pid: number,
  startTime: string | undefined,
  processes: Processes,
  uid?: number,
): ProcessState {
  // 5.
  const exists = pid === processes.self().pid ? "exists" : processes.exists(pid, uid);
  if (exists instanceof SystemError) {
    return verdict("unknown", `${exists.message}; ${howToTell(pid)}`);
  }
  if (exists === "gone") return verdict("dead", `there is no process ${pid}`);
  const found = processes.processInfo(pid);
  if (!found) {
    // It may have ended between the two questions.
    if (processes.exists(pid, uid) === "gone") return verdict("dead", `there is no process ${pid}`);
    return verdict("alive", `process ${pid} exists; nothing more about it can be seen from here`);
  }
  // 6. kill(2) succeeds on a zombie (gajae-code#5778).
  if (found.state === "Z" || found.state === "X") {
    return verdict("dead", `process ${pid} has ended and waits for its parent (a zombie)`);
  }
  // 7. It succeeds on a thread's id too, and /proc/TID exists (psutil#687).
  if (found.threadGroup !== undefined && found.threadGroup !== pid) {
    return verdict("dead", `${pid} is a thread of process ${found.threadGroup} now`);
  }
  // 8. Also "my own PID", from before a container's restart (stellar-core#652).
  if (differ(startTime, found.startTime)) return verdict("dead", `the number ${pid} belongs to a later process now`);
  // 9.
  if (found.state === "T") return verdict("alive", `process ${pid} is alive, but stopped`); // by SIGSTOP, or Ctrl-Z
  return verdict("alive", `process ${pid} is alive`);
}

/**
 * Judges the author of a record in a lock file that has no kernel lock, on a local disk, where that would be listed
 * whatever container took it. So one that does not say where it ran (without FFI) is judged by its number too.
 */
export function judgeWithoutLock(owner: HolderFields, processes: Processes, fileSystem?: string): ProcessState {
  const state = judge(owner, processes, fileSystem);
  if (state.state !== "unknown" || isElsewhere(owner, processes.self())) return state;
  const byNumber = judgeNumber(owner.pid, undefined, processes, owner.uid);
  return byNumber.state === "dead" ? byNumber : state;
}

/**
 * Tells whether a process is alive, and why.
 *
 * Sees through what fools `kill(pid, 0)` alone: a zombie and a thread's id are
 * `"dead"`, and so is, if `startTime` is given, a process that merely has the
 * same number. A process of another user is alive.
 *
 * Not guaranteed: that the answer still holds when you read it. Without the
 * permission to ask (Deno without `--allow-ffi`) the answer is `"unknown"`.
 *
 * @example
 * ```ts
 * import { processState } from "@holdfast/lock";
 *
 * console.log(processState(1)); // { state: "alive", reason: "process 1 is alive" }
 * ```
 *
 * @param pid Process id: a whole number from 1 to 2147483647. Others are groups of processes to kill(2), so they are refused.
 * @param startTime The process's start time, as a record or `/proc/PID/stat` field 22 has it.
 * @returns The verdict.
 * @throws {TypeError} If `pid` is not a number, or `startTime` not a string.
 * @throws {RangeError} If it is not a process id.
 */
export function processState(pid: number, startTime?: string): ProcessState {
  if (typeof pid !== "number") {
    throw new TypeError(`Cannot judge a process as its id must be a number: received ${pid}`);
  }
  if (!Number.isInteger(pid) || pid < 1 || pid > 2 ** 31 - 1) {
    throw new RangeError(`Cannot judge a process as its id must be from 1 to 2147483647: received ${pid}`);
  }
  if (startTime !== undefined && typeof startTime !== "string") {
    // A number would equal no start time, and a living process would be called dead.
    throw new TypeError(`Cannot judge a process as its start time must be a string: received ${startTime}`);
  }
  return judgeNumber(pid, startTime, system());
}

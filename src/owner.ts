/**
 * Is a record's owner alive, dead or unknown: seven rules, the first that
 * answers wins. Unknown is never stolen from.
 */
import type { HolderFields } from "./record.ts";
import { system } from "./sys/mod.ts";
import { type Processes, SystemError } from "./sys/sys.ts";
import { whyThreadIsDead } from "./thread.ts";

/** A verdict on a process, with its reason in words. */
export interface ProcessState {
  /** `"unknown"` is to be treated as alive. */
  readonly state: "alive" | "dead" | "unknown";
  /** Why, for people. */
  readonly reason: string;
}

const verdict = (state: ProcessState["state"], reason: string): ProcessState => ({ state, reason });

/** For the person who has to settle what cannot be settled from here. */
const howToTell = (pid: number) => `"ps -o pid,lstart,args -p ${pid}" shows whether it lives`;

const differ = (a: string | undefined, b: string | undefined) => a !== undefined && b !== undefined && a !== b;

/** Judges the owner that a record names. */
export function judge(owner: HolderFields, processes: Processes): ProcessState {
  const self = processes.self();
  const { pid, host } = owner;
  // 1. A PID from before a reboot says nothing about today's (moby#46988).
  if (differ(owner.bootId, self.bootId) && host !== undefined && host === self.host) {
    return verdict("dead", "the machine was restarted since");
  }
  // 2. A PID means nothing on another host or in another namespace (gbrain#2840).
  if (differ(host, self.host)) {
    return verdict("unknown", `it runs on another host; there, ${howToTell(pid)}`);
  }
  if (differ(owner.pidNamespace, self.pidNamespace)) {
    return verdict("unknown", `it runs in another PID namespace (a container?); there, ${howToTell(pid)}`);
  }
  const verdictHere = judgeHere(pid, owner.startTime, processes, owner.uid);
  if (verdictHere.state === "alive") {
    const ended = whyThreadIsDead(owner, processes);
    if (ended) return verdict("dead", ended);
  }
  // Another time namespace shifts the start time: it says nothing then.
  if (verdictHere.state === "dead" && owner.timeNamespace !== self.timeNamespace) {
    const byNumber = judgeHere(pid, undefined, processes, owner.uid);
    if (byNumber.state !== "dead") {
      return verdict("unknown", `it started in another time namespace; there, ${howToTell(pid)}`);
    }
  }
  return verdictHere;
}

/** Rules 3 to 7, for a process of this machine and PID namespace. */
function judgeHere(
  pid: number,
  startTime: string | undefined,
  processes: Processes,
  uid?: number,
): ProcessState {
  // 3.
  const exists = pid === processes.self().pid ? "exists" : processes.exists(pid, uid);
  if (exists instanceof SystemError) {
    return verdict("unknown", `${exists.message}; ${howToTell(pid)}`);
  }
  if (exists === "gone") return verdict("dead", `there is no process ${pid}`);
  const found = processes.look(pid);
  if (!found) {
    // It may have ended between the two questions.
    if (processes.exists(pid, uid) === "gone") return verdict("dead", `there is no process ${pid}`);
    return verdict("alive", `process ${pid} exists; nothing more about it can be seen from here`);
  }
  // 4. kill(2) succeeds on a zombie (gajae-code#5778).
  if (found.state === "Z" || found.state === "X") {
    return verdict("dead", `process ${pid} has ended and waits for its parent (a zombie)`);
  }
  // 5. It succeeds on a thread's id too, and /proc/TID exists (psutil#687).
  if (found.threadGroup !== undefined && found.threadGroup !== pid) {
    return verdict("dead", `${pid} is a thread of process ${found.threadGroup} now`);
  }
  // 6. Also "my own PID", from before a container's restart (stellar-core#652).
  if (differ(startTime, found.startTime)) return verdict("dead", `the number ${pid} belongs to a later process now`);
  // 7.
  if (found.state === "T") return verdict("alive", `process ${pid} is alive, but stopped`); // by SIGSTOP, or Ctrl-Z
  return verdict("alive", `process ${pid} is alive`);
}

/**
 * Whether a process is alive, and why that is so.
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
 * @throws {TypeError} if `pid` is not a number, or `startTime` not a string.
 * @throws {RangeError} if it is not a process id.
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
  return judgeHere(pid, startTime, system());
}

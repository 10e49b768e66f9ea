/**
 * Whether the process that a record names is its lock's holder. A record is a claim: whoever may write the file can
 * make it. Only a proven holder is signalled, and no one is told to end another.
 */
import { hasLockOf } from "./holders.ts";
import { judge } from "./owner.ts";
import type { LockHolder } from "./record.ts";
import { isWindows } from "./sys/mod.ts";
import { type System, SystemError } from "./sys/sys.ts";

/** `true`, or why it is not proven, in words. */
export type Proof = true | string;

/** By its own open files, whether a process has the kernel lock of the file at a path. Where they are hidden it is not proven. */
export function proofOfLock(sys: System, path: string, { pid }: Pick<LockHolder, "pid">): Proof {
  let has: boolean | undefined;
  try {
    const stat = sys.stat(path);
    has = stat !== undefined && hasLockOf(sys, stat, "exactly")(pid);
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
    return `the lock file cannot be looked at: ${error.message}`;
  }
  if (has) return true;
  const why = has === undefined
    ? `which files pid ${pid} has open cannot be seen from here`
    : `pid ${pid} has no lock on the file that stands there`;
  return isWindows() ? why : `${why} ("fuser -v ${path}", as root, names the processes that have it open)`;
}

/** Why a record is not proven to be of the process that has its number now; undefined if it is. `fileSystem`: what the record lies on. */
export function whyNotIdentified(sys: System, holder: LockHolder, fileSystem?: string): string | undefined {
  const self = sys.self();
  const { state, reason } = judge(holder, sys, fileSystem);
  if (state !== "alive") return reason;
  for (const name of ["startTime", "bootId", "pidNamespace", "host"] as const) {
    if (holder[name] === undefined) return `its record has no ${name}, so it cannot be verified`;
    // The start time was compared with the process' own.
    if (name !== "startTime" && self[name] === undefined) return `the ${name} of this process cannot be told`;
  }
  return undefined;
}

/**
 * Whether the process that a record names is its lock's holder. A record is a claim: each user
 * with the right to write the file can make it. Only a proven holder is signalled, or named to a person as the process
 * to end.
 */
import { hasLockOf } from "./holders.ts";
import { pidPath, readContent } from "../backend/entry.ts";
import { whyNotIdentified } from "../record/identity.ts";
import type { Proof } from "../record/in_the_way.ts";
import { whoElseMayChange } from "../record/trust.ts";
import type { LockHolder } from "../record/record.ts";
import { isWindows } from "../sys/mod.ts";
import { shown } from "../sys/printable.ts";
import { type System, SystemError } from "../sys/contract.ts";

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
  return isWindows() ? why : `${why} ("fuser -v ${shown(path)}", as root, names the processes that have it open)`;
}

/**
 * Whether the process that a lock's PID file names made it: the record fits that process, and no other user can have
 * written it. Any user can find out the start time of a process, and the rest of what a record says.
 */
export function proofOfOwner(sys: System, path: string, holder: LockHolder): Proof {
  const file = pidPath(path);
  try {
    const there = readContent(sys, file);
    const named = there?.content.kind === "record" ? there.content.holder : undefined;
    if (!there || named?.nonce !== holder.nonce || named?.pid !== holder.pid) {
      return "its PID file is another one by now";
    }
    return whyNotIdentified(sys, holder, sys.fileSystem(file)) ?? whoElseMayChange(sys, file, there.stat) ?? true;
  } catch (error) {
    if (error instanceof SystemError) return `its PID file cannot be read: ${error.message}`;
    throw error;
  }
}

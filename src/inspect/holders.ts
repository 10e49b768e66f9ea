/**
 * Finds the holders of a kernel lock. `/proc/locks` names the process that took it,
 * which may have ended: a lock belongs to the open file, which a child can have
 * inherited and keep (leveldb#623), and which the flock(1) command locks for
 * another process. `/proc/PID/fdinfo` tells what a process has open.
 */
import { isElsewhere, judgeNumber, type ProcessState } from "../record/owner.ts";
import { LockHolder } from "../record/record.ts";
import { isSameFile, type KernelLock, LockTable } from "../sys/locks.ts";
import type { FileStat, System } from "../sys/contract.ts";
import { whyThreadIsDead } from "../record/owner_thread.ts";

/** How long all processes are searched for a file, in milliseconds: a machine may have a hundred thousand open. */
const BUDGET = 1_000;

/** What is known of the holders of one file. */
export interface Holders {
  readonly holders: readonly LockHolder[];
  /** What must be said of how they were found, in words. */
  readonly remarks: readonly string[];
  /** One of the locks is no longer there. */
  readonly changed: boolean;
  /** Each of the others has a holder that was seen to have it, as far as the kernel or a record told. */
  readonly complete: boolean;
}

/**
 * The holders of the locks that the kernel lists on a file. `recorded`: whom its record names, read after the list;
 * `author`: what is known of that process.
 */
export function holdersOf(
  sys: System,
  locks: readonly KernelLock[],
  stat: FileStat,
  recorded: LockHolder | undefined,
  author: ProcessState["state"] | undefined,
): Holders {
  const mounts = sys.mounts();
  const hasIt = hasLockOf(sys, stat, "vaguely", mounts);
  let fresh: readonly KernelLock[] | undefined;
  // All processes are searched only for a lock that stays: most that changed hands did so a moment ago.
  const isStill = ({ pid, mode }: KernelLock): boolean => {
    fresh ??= new LockTable(sys.kernelLocks() ?? "", mounts).flocks(stat);
    return fresh.some((lock) => lock.pid === pid && lock.mode === mode);
  };
  const holders = new Map<number, LockHolder>();
  const remarks: string[] = [];
  let changed = false, complete = true;
  for (const lock of locks) {
    const { found, remark, gone, unseen } = holderOf(sys, lock, recorded, author, hasIt, isStill);
    if (gone) changed = true;
    if (unseen) complete = false;
    for (const each of found) holders.set(each.pid, each);
    if (remark) remarks.push(remark);
  }
  for (const pid of holders.keys()) {
    if (sys.processInfo(pid)?.state === "T") remarks.push(`pid ${pid} is stopped, and keeps it`);
  }
  return { holders: [...holders.values()], remarks, changed, complete };
}

/**
 * Whether a process has a lock of this file among its open files; undefined where they are hidden. A lock's line names
 * its file by device and inode, which on btrfs and overlayfs fit other files too: so the descriptor itself is looked
 * at. Where that cannot be done, such a line counts as this file's, unless it must be known `"exactly"`.
 */
export function hasLockOf(
  sys: System,
  stat: FileStat,
  how: "exactly" | "vaguely" = "vaguely",
  mounts = sys.mounts(),
): (pid: number) => boolean | undefined {
  return (pid) =>
    sys.descriptorLocks(pid)?.some(({ fd, locks }) => {
      const table = new LockTable(locks, mounts);
      if (table.flocks(stat).length === 0) return false;
      const open = sys.descriptorStat(pid, fd);
      return open ? isSameFile(open, stat) : how === "vaguely" || table.flocks(stat, false).length > 0;
    });
}

/** Those of these processes that have; `late`: there was no time for all. */
export function search(
  pids: Iterable<number>,
  hasIt: (pid: number) => boolean | undefined,
): { keepers: number[]; late: boolean } {
  const began = performance.now();
  const late = () => performance.now() - began > BUDGET;
  const keepers: number[] = [];
  for (const pid of pids) {
    if (late()) break;
    if (hasIt(pid)) keepers.push(pid);
  }
  return { keepers, late: late() };
}

function holderOf(
  sys: System,
  lock: KernelLock,
  recorded: LockHolder | undefined,
  author: ProcessState["state"] | undefined,
  hasIt: (pid: number) => boolean | undefined,
  isStill: (lock: KernelLock) => boolean,
): { found: LockHolder[]; remark?: string; gone?: true; unseen?: true } {
  const { pid, mode } = lock;
  const alive = pid > 0 && judgeNumber(pid, undefined, sys).state !== "dead"; // a zombie has no files
  const isRecorded = recorded !== undefined && author === "alive";
  // The kernel and a living process' record agree. It clears that before it closes the file.
  // A Worker's that was terminated may stay with its process: in Bun.
  const isItsProcess = () =>
    !isElsewhere(recorded!, sys.self()) && sys.processInfo(pid)?.startTime === recorded?.startTime; // `!`: asked of one that is there
  const isWorkers = () => isItsProcess() && whyThreadIsDead(recorded!, sys) !== undefined; // `!` as above
  if (alive && recorded?.pid === pid && (isRecorded || isWorkers())) return { found: [recorded] };
  const named = (process: number): LockHolder => {
    const { command, startTime, uid } = sys.processInfo(process) ?? {};
    // What the dead taker's record says of the hold is true of the process that inherited it.
    const { label, acquiredAt } = recorded?.pid === pid ? recorded : { label: undefined, acquiredAt: undefined };
    return new LockHolder({ pid: process, command, startTime, uid, mode, label, acquiredAt });
  };
  let has = alive ? hasIt(pid) : false;
  if (alive && has === false && isStill(lock)) has = hasIt(pid); // it has taken it again meanwhile
  // The kernel says that it has the lock; a record with its number that does not say where it is from is its own.
  const isAuthor = recorded?.pid === pid && author === "unknown" && !isElsewhere(recorded, sys.self());
  if (has) return { found: [isAuthor ? recorded : named(pid)] };
  if (has === undefined) {
    return {
      found: [named(pid)],
      unseen: true,
      remark: `which files pid ${pid} has open cannot be seen from here (another user's?), so a child may have it`,
    };
  }
  // Taken by flock(1) for the process that its record names. Not where the files of that process are hidden: any user with the right
  // to write the file can name it (ssh-agent, which hides its own, was sent a SIGTERM).
  const recordedHasIt = isRecorded ? hasIt(recorded.pid) : false;
  if (isRecorded && recordedHasIt) return { found: [recorded] };
  if (!isStill(lock)) return { found: [], gone: true };
  const gone = pid <= 0
    ? "a process of another PID namespace took it"
    : `pid ${pid} took it, and has ${alive ? "it no longer" : "ended"}`;
  // Where flock(1) took it for its author (Node 20), only the user knows that: it may be of one that died before.
  const record = author === "dead" && recorded?.pid !== pid
    ? ` (the record is of ${recorded}, and that has ended)`
    : recordedHasIt === undefined
    ? ` (the record is of ${recorded}, whose open files cannot be seen from here)`
    : "";
  // Its children come after it: their numbers are higher, until those begin anew.
  const all = (sys.all() ?? []).sort((a, b) => Number(a < pid) - Number(b < pid) || a - b);
  const { keepers, late } = search(all, hasIt);
  if (keepers.length > 0) {
    return { found: keepers.map(named), remark: `${gone}: a process that has the same open file keeps it${record}` };
  }
  const why = late ? "was not found in time" : "cannot be seen from here";
  return { found: [], unseen: true, remark: `${gone}; the process that has the same open file ${why}${record}` };
}

/** Finds the holders of a lock, without ever taking it. Reads, and changes nothing. */
import { pidPath, readEntry } from "../backend/entry.ts";
import { systemFailure } from "../record/errors.ts";
import { holdersOf } from "./holders.ts";
import { judge, judgeWithoutLock } from "../record/owner.ts";
import { placeOf } from "../record/place.ts";
import { read, type Reading } from "./reading.ts";
import { LockHolder } from "../record/record.ts";
import { holdsHere } from "../backend/registry.ts";
import { either, inPlace, type LockStatus, NO_FILE, viewOf } from "./status.ts";
import { type KernelLock, LockTable } from "../sys/locks.ts";
import { INITIAL_PID_NAMESPACE } from "../sys/proc.ts";
import { type FileStat, type System, SystemError } from "../sys/contract.ts";

export type { LockStatus };

/** The status of the lock at a path. Throws LockError where its files cannot be read. */
export function inspectPath(sys: System, given: string): LockStatus {
  let path = given;
  try {
    path = sys.resolveParents(given);
    const kernel = inspectKernel(sys, path);
    const status = kernel.state === "held" ? kernel : either(kernel, inspectPidFile(sys, path));
    return { ...inPlace(status, viewOf(sys, path)), path: given };
  } catch (error) {
    throw error instanceof SystemError ? systemFailure("inspect", path, error) : error;
  }
}

/** What a lock is whose owner, by all that is known, is this. */
const STATES = { alive: "held", dead: "stale", unknown: "unknown" } as const;

/** The status by `P.pid` alone; undefined where there is none. */
export function inspectPidFile(sys: System, path: string): LockStatus | undefined {
  const entry = readEntry(sys, path, pidPath(path), false); // nothing is written, not even to tell its age
  if (!entry) return undefined;
  const { holder, owner, unread } = entry;
  const state = STATES[owner.state];
  const holders = holder ? [holder] : [];
  const known = { mode: holder?.mode, holder, unread, holders, reason: owner.reason };
  return { path, state, complete: true, backend: "pidfile", ...known };
}

/** It changes hands between two readings: no more often than that in a row, or it counts as held. */
const READINGS = 5;

/**
 * Number of readings before the files of a process are looked at, if its
 * exclusive lock has no record: it may be one of ours, about to be released.
 * A reader of `/proc/PID/fdinfo` keeps the file open for that instant, and the
 * lock with it: beside 10,000 looks, 1 of 600,000 tries was refused on a free lock.
 */
const SETTLED = 2;

/** Why a lock is held that this thread holds. */
export const BY_US = "this process holds it";
const UNSEEN = "a holder without a record would not be seen";

/** Why a lock is free, where there is nothing else to be said. */
export const FREE = "the kernel shows no lock on it";

/** Why a lock is held whose file is kept from being read: on Windows, and by an SMB server. */
const KEPT = "its content is locked, as a runtime without --allow-ffi locks the whole file on Windows, and a Worker";
const KEPT_BY_SERVER = "its SMB server refuses every reader, as it does while another mount or host has it locked";

/** What a record of this thread has in common with it, known or not. */
const OWN_FACTS = ["pid", "thread", "startTime", "bootId", "pidNamespace"] as const;

/** Why the kernel's list does not have every lock; undefined if it has. */
function whyUnlisted(sys: System, table: LockTable | undefined): string | undefined {
  if (table === undefined) return "/proc/locks cannot be read here";
  return sys.self().pidNamespace === INITIAL_PID_NAMESPACE // which sees every process, and so every line
    ? undefined
    : "/proc/locks shows only this PID namespace's processes (a container?)";
}

/** The status of the kernel lock alone. */
export function inspectKernel(sys: System, path: string): LockStatus {
  for (let readings = 1;; readings++) {
    const first = read(sys, path);
    if (!first) return { path, state: "free", complete: true, holders: [], reason: NO_FILE };
    const kernelLocks = sys.kernelLocks();
    const table = kernelLocks === undefined ? undefined : new LockTable(kernelLocks, sys.mounts());
    const status = judgeKernel(sys, path, first, table, () => read(sys, path), readings > SETTLED);
    if (status) return status;
    if (readings === READINGS) {
      const reason = "it changes hands again and again";
      return { path, state: "held", complete: false, backend: "flock", holders: [], reason };
    }
  }
}

/**
 * What a reading, the kernel's list of a moment later, and another reading come
 * to. A holder writes its record after it has the lock, and clears it before it
 * gives that up: so the same record before and after the list belongs to the
 * holder that the list shows or, where it shows none, to one that died.
 * undefined: it changed hands meanwhile.
 */
export function judgeKernel(
  sys: System,
  path: string,
  { stat, holder: before, bare = false, hidden }: Reading,
  table: LockTable | undefined,
  again: () => Reading | undefined,
  settled = false,
): LockStatus | undefined {
  const waiters = table?.waiters(stat);
  const unread: true | undefined = hidden && true;
  const locks = table?.flocks(stat) ?? [];
  const unlisted = whyUnlisted(sys, table);
  const complete = unlisted === undefined;
  if (locks.length > 0) {
    const agree = locks.some(({ pid }) => pid === before?.pid);
    const recorded = agree ? before : again()?.holder;
    if (!recorded && !hidden && locks[0].mode === "exclusive" && !settled) return undefined;
    const held = heldByKernel(sys, path, locks, stat, recorded, unlisted);
    return held && { ...held, waiters, unread: held.holder ? undefined : unread };
  }
  const unnamed = { path, complete, unread, holders: [], waiters };
  const holders = before ? [before] : [];
  const status = { path, complete, backend: "flock", mode: before?.mode, holder: before, holders } as const;
  // The one holder that needs no /proc to be seen.
  if (holdsHere(stat.identity)) {
    const self = sys.self();
    // A reader writes no record. One that a dead holder left may have this process's number, as in a container that was
    // started anew, and would make the hold exclusive.
    const isOwn = OWN_FACTS.every((fact) => before?.[fact] === self[fact]);
    const holder = before && isOwn ? before : new LockHolder(self);
    const mode = holder.mode ?? (hidden === "kept" ? "exclusive" : undefined);
    const alone = mode === "exclusive";
    const reason = complete || alone ? BY_US : `${BY_US}; ${unlisted}, so ${UNSEEN}`;
    const held = { mode, holder, holders: [holder], reason };
    return { ...status, ...held, state: "held", complete: complete || alone };
  }
  const lessee = table?.lessee(stat);
  if (lessee !== undefined || hidden === "leased") {
    const who = lessee === undefined ? "another program" : `pid ${lessee}`;
    const reason =
      `${who} has a lease on it (a Samba or NFS server?), and is asked to end that when another program opens it`;
    return { ...unnamed, state: "held", reason };
  }
  // Of an SMB mount's files the kernel lists what is locked through the same mount alone.
  if (hidden === "kept" || (hidden === "unread" && sys.fileSystem(path) === "cifs")) {
    const reason = hidden === "kept" ? KEPT : KEPT_BY_SERVER;
    return { ...unnamed, state: "held", complete: false, backend: "flock", mode: "exclusive", reason };
  }
  if (unlisted !== undefined) {
    const unseen = `${unlisted}, so ${UNSEEN}`;
    if (hidden) return { ...unnamed, state: "unknown", reason: `it may not be read, and ${unlisted}` };
    if (!before) return { ...unnamed, state: "free", reason: `it holds no record; ${unseen}` };
    const owner = judge(before, sys, sys.fileSystem(path));
    const state = STATES[owner.state];
    return { ...status, state, reason: `${owner.reason}; ${unseen}` };
  }
  if (hidden === "unread") {
    return { ...unnamed, state: "unknown", reason: `${FREE}, but it can be opened and not be read` };
  }
  if (!before) {
    const reason = hidden ? `${FREE}; it may not be read, so how it was left is not known` : FREE;
    return { ...unnamed, state: "free", reason };
  }
  const after = again();
  if (after?.holder?.nonce !== before.nonce || after?.holder?.pid !== before.pid) return undefined;
  // Where the kernel lists every lock, and a runtime has one.
  const isListed = sys.way !== undefined && placeOf(sys, path) === undefined;
  const owner = (isListed ? judgeWithoutLock : judge)(before, sys, sys.fileSystem(path));
  if (owner.state === "dead") {
    const reason = `${FREE}, and its last holder left a record: ${owner.reason}`;
    return { ...status, state: "stale", waiters, reason };
  }
  // By bare number another program's PID file, which locks nothing.
  if (bare && owner.state === "alive" && isListed) {
    const named =
      `it names pid ${before.pid}, as a PID file does, but that has no flock(2) lock on it: ${owner.reason}`;
    return { ...unnamed, state: "free", reason: `${FREE}; ${named}` };
  }
  const cause = "a Worker that was terminated, or a file system that keeps its locks to itself";
  const reason = `${FREE} (${cause}?), but as its record says, ${owner.reason}`;
  return { ...status, state: "unknown", waiters, reason };
}

function heldByKernel(
  sys: System,
  path: string,
  locks: readonly KernelLock[],
  stat: FileStat,
  recorded: LockHolder | undefined,
  unlisted: string | undefined,
): LockStatus | undefined {
  const [{ mode }] = locks;
  const author = recorded && judge(recorded, sys, sys.fileSystem(path)).state;
  const { holders, remarks, changed, complete } = holdersOf(sys, locks, stat, recorded, author);
  // The process that took it lives and has it no longer, and no other has it: released since.
  if (holders.length === 0 && (changed || locks.every(({ pid }) => pid > 0 && sys.exists(pid) !== "gone"))) {
    return undefined;
  }
  const what = mode === "shared" ? `${locks.length} shared lock${locks.length > 1 ? "s" : ""}` : "an exclusive lock";
  // Not of a flock(1) that took it for another process: no user has seen its PID.
  const takers = locks.map(({ pid }) => pid).filter((taker) => holders.some(({ pid }) => pid === taker)).join(", ");
  const shows = `the kernel shows ${what} on it${takers && `, taken by pid ${takers}`}`;
  // Beside an exclusive lock there is no other that could be missing from the list.
  const more = mode === "shared" && unlisted !== undefined ? [`${unlisted}, so another reader would not be seen`] : [];
  const reason = [shows, ...remarks, ...more].join("; ");
  const all = complete && more.length === 0;
  return { path, state: "held", complete: all, backend: "flock", mode, holder: holders[0], holders, reason };
}

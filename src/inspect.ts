/** Who holds a lock, without ever taking it. Reads, and changes nothing. */
import type { InTheWay } from "./backend.ts";
import { pidPath, readEntry } from "./backend/entry.ts";
import { systemFailure } from "./errors.ts";
import { holdersOf } from "./holders.ts";
import type { LockBackend, LockMode } from "./options.ts";
import { judge } from "./owner.ts";
import { placeOf } from "./place.ts";
import { read, type Reading } from "./reading.ts";
import { LockHolder } from "./record.ts";
import { holdsHere } from "./registry.ts";
import { type KernelLock, LockTable } from "./sys/locks.ts";
import { type FileStat, type System, SystemError } from "./sys/sys.ts";

/** What is known of a lock. */
export interface LockStatus {
  /** The lock's path. */
  readonly path: string;
  /**
   * `"free"`; `"held"`; `"stale"`: free, and its last holder died without
   * releasing it; `"unknown"`: it may be held, and this process cannot tell.
   * Where `/proc/locks` cannot be read (Deno without `--allow-ffi`, not Linux),
   * the state is judged by the record alone, and `reason` says so.
   */
  readonly state: "free" | "held" | "stale" | "unknown";
  /** What holds it, or held it last. */
  readonly backend?: LockBackend;
  /** How it is held. */
  readonly mode?: LockMode;
  /** Who holds it, or held it last: the first of `holders`. */
  readonly holder?: LockHolder;
  /**
   * `true`: a record may stand in the file, and this process cannot read it. On Windows that is so while a Deno without
   * `--allow-ffi`, or a Worker of any Deno, holds the lock: it keeps the whole file locked.
   */
  readonly unread?: true;
  /** All of them: a shared lock may have many, and so may one whose descriptor was inherited. */
  readonly holders: readonly LockHolder[];
  /**
   * How many processes wait for it in the kernel (flock(1), Python). Those that
   * poll, as this library does, are not seen. Left out where the kernel does not say.
   */
  readonly waiters?: number;
  /** Why the state is what it is, in words. */
  readonly reason: string;
}

/** The status of the lock at a path. Throws LockError where its files cannot be read. */
export function inspectPath(sys: System, given: string): LockStatus {
  let path = given;
  try {
    path = sys.physical(given);
    const kernel = inspectKernel(sys, path);
    const status = kernel.state === "held" ? kernel : either(kernel, inspectPidFile(sys, path));
    return { ...status, path: given, reason: status.reason + remark(sys, path) };
  } catch (error) {
    throw error instanceof SystemError ? systemFailure("inspect", path, error) : error;
  }
}

/** What its file system means, where that is no local disk. */
export function remark(sys: System, path: string): string {
  const place = placeOf(sys, path);
  return place === undefined || place === "unknown" ? "" : `. It is on ${place.where}: ${place.words}`;
}

/** A dead owner's PID file says no more than a dead holder's record. */
export const either = (kernel: LockStatus, pidFile: LockStatus | undefined): LockStatus =>
  !pidFile || (pidFile.state === "stale" && kernel.state !== "free") ? kernel : pidFile;

/** What a lock is whose owner, by all that is known, is this. */
const STATES = { alive: "held", dead: "stale", unknown: "unknown" } as const;

/** The status by `P.pid` alone; undefined where there is none. */
export function inspectPidFile(sys: System, path: string): LockStatus | undefined {
  const entry = readEntry(sys, path, pidPath(path), false); // nothing is written, not even to tell its age
  if (!entry) return undefined;
  const { holder, owner, unread } = entry;
  const state = STATES[owner.state];
  const holders = holder ? [holder] : [];
  return { path, state, backend: "pidfile", mode: holder?.mode, holder, unread, holders, reason: owner.reason };
}

/** The PID namespace that sees every process, and so every line of `/proc/locks`: PROC_PID_INIT_INO, <linux/proc_ns.h>. */
const INITIAL_NAMESPACE = "4026531836";

/** It changes hands between two readings: no more often than that in a row, or it counts as held. */
const READINGS = 5;

/**
 * A lock that is held exclusively without a record may be one of ours that is
 * about to be released: whose files are looked at only after so many readings.
 * For whoever reads `/proc/PID/fdinfo` keeps the file open for that instant, and
 * the lock with it: 1 of 600,000 tries beside 10,000 looks was refused by nobody.
 */
const SETTLED = 2;

/** Why a lock is free, where there is nothing else to be said. */
export const FREE = "the kernel shows no lock on it";

/** Why a lock is held whose file is kept from being read: on Windows, and by an SMB server. */
const KEPT = "its content is locked, as a runtime without --allow-ffi locks the whole file on Windows, and a Worker";
const KEPT_BY_SERVER = "its SMB server lets nobody read it, as it does while another mount or host has it locked";

/** The status of the kernel lock alone. */
export function inspectKernel(sys: System, path: string): LockStatus {
  for (let readings = 1;; readings++) {
    const first = read(sys, path);
    if (!first) return { path, state: "free", holders: [], reason: "there is no lock file" };
    const kernelLocks = sys.kernelLocks();
    const table = kernelLocks === undefined ? undefined : new LockTable(kernelLocks, sys.mounts());
    const status = judgeKernel(sys, path, first, table, () => read(sys, path), readings > SETTLED);
    if (status) return status;
    if (readings === READINGS) {
      return { path, state: "held", backend: "flock", holders: [], reason: "it changes hands again and again" };
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
  if (locks.length > 0) {
    const agree = locks.some(({ pid }) => pid === before?.pid);
    const recorded = agree ? before : again()?.holder;
    if (!recorded && !hidden && locks[0].mode === "exclusive" && !settled) return undefined;
    const held = heldByKernel(sys, path, locks, stat, recorded);
    return held && { ...held, waiters, unread: held.holder ? undefined : unread };
  }
  const unnamed = { path, unread, holders: [], waiters };
  const holders = before ? [before] : [];
  const status = { path, backend: "flock", mode: before?.mode, holder: before, holders } as const;
  // The one holder that needs no /proc to be seen.
  if (holdsHere(stat.identity)) {
    const self = sys.self();
    const holder = before?.pid === self.pid ? before : new LockHolder(self); // a reader has no record, but may have found a dead one's
    const mode = holder.mode ?? (hidden === "kept" ? "exclusive" : undefined);
    return { ...status, state: "held", mode, holder, holders: [holder], reason: "this process holds it" };
  }
  const lessee = table?.lessee(stat);
  if (lessee !== undefined || hidden === "leased") {
    const who = lessee === undefined ? "another program" : `pid ${lessee}`;
    const reason = `${who} has a lease on it (a Samba or NFS server?), and is asked to end that when somebody opens it`;
    return { ...unnamed, state: "held", reason };
  }
  // Of an SMB mount's files the kernel lists what is locked through the same mount alone.
  if (hidden === "kept" || (hidden === "unread" && sys.fileSystem(path) === "cifs")) {
    const reason = hidden === "kept" ? KEPT : KEPT_BY_SERVER;
    return { ...unnamed, state: "held", backend: "flock", mode: "exclusive", reason };
  }
  const unlisted = table === undefined
    ? "/proc/locks cannot be read here"
    : sys.self().pidNamespace !== INITIAL_NAMESPACE
    ? "/proc/locks shows only this PID namespace's processes (a container?)"
    : undefined;
  if (unlisted !== undefined) {
    const unseen = `${unlisted}, so a holder without a record would not be seen`;
    if (hidden) return { path, state: "unknown", unread, holders: [], reason: `it may not be read, and ${unlisted}` };
    if (!before) return { path, state: "free", holders: [], reason: `it holds no record; ${unseen}` };
    const owner = judge(before, sys);
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
  const owner = judge(before, sys);
  if (owner.state === "dead") {
    const reason = `${FREE}, and its last holder left a record: ${owner.reason}`;
    return { ...status, state: "stale", waiters, reason };
  }
  // By bare number another program's PID file, which locks nothing: only where the kernel lists every lock, and a
  // runtime has one.
  if (bare && owner.state === "alive" && sys.way !== undefined && placeOf(sys, path) === undefined) {
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
): LockStatus | undefined {
  const [{ mode }] = locks;
  const { holders, remarks, changed } = holdersOf(sys, locks, stat, recorded);
  // Whoever took it lives and has it no longer, and nobody else has it: released since.
  if (holders.length === 0 && (changed || locks.every(({ pid }) => pid > 0 && sys.exists(pid) !== "gone"))) {
    return undefined;
  }
  const what = mode === "shared" ? `${locks.length} shared lock${locks.length > 1 ? "s" : ""}` : "an exclusive lock";
  // Not of a flock(1) that took it for another, which nobody has ever seen.
  const takers = locks.map(({ pid }) => pid).filter((taker) => holders.some(({ pid }) => pid === taker)).join(", ");
  const reason = [`the kernel shows ${what} on it${takers && `, taken by pid ${takers}`}`, ...remarks].join("; ");
  return { path, state: "held", backend: "flock", mode, holder: holders[0], holders, reason };
}

/** For a message: the record may be a dead holder's, while a program without a record has the lock. */
export function whoHolds(sys: System, path: string): InTheWay {
  let status: LockStatus;
  try {
    status = inspectKernel(sys, path);
  } catch (error) {
    if (error instanceof SystemError) {
      return { unread: true, doubt: `the kernel refuses it, and who has it cannot be seen: ${error.message}` };
    }
    throw error;
  }
  const { state, holder, unread, holders, reason } = status;
  if (state === "free" || state === "stale") return {};
  if (!holder) return { unread, doubt: reason };
  if (state === "unknown") return { holder, doubt: reason };
  const owner = judge(holder, sys);
  const others = holders.length - 1;
  const doubt = owner.state === "alive" ? undefined : `the kernel refuses it; of that process, ${owner.reason}`;
  return { holder, others, doubt };
}

/** What `inspect` and `scan` answer, and how the kernel's answer and the PID file's become one. */
import type { LockBackend, LockMode } from "../record/options.ts";
import { placeOf } from "../record/place.ts";
import type { LockHolder } from "../record/record.ts";
import type { System } from "../sys/contract.ts";

/** What is known of a lock. */
export interface LockStatus {
  /** The lock's path. */
  readonly path: string;
  /**
   * `"free"`; `"held"`; `"stale"`: free, and its last holder died without
   * releasing it; `"unknown"`: it may be held, and this process cannot find out.
   * If `/proc/locks` cannot be read (Deno without `--allow-ffi`, not Linux), the
   * state comes from the record alone, and `reason` says so.
   *
   * The trap: `"free"` and `"stale"` are certain only if `complete` is true.
   */
  readonly state: "free" | "held" | "stale" | "unknown";
  /**
   * Whether this process can see every holder. If not, `holders` may lack some, a
   * lock that is `"free"` or `"stale"` may be held, and `reason` says why:
   * this process is in a PID namespace of its own (a container), `/proc/locks`
   * or a process's files may not be read, or the file is not known to be on a
   * local disk. `true` of a lock that this process holds exclusively: it has no
   * other holder, unless the kernel can grant it by two mounts or on two hosts.
   */
  readonly complete: boolean;
  /** The kind of lock by which it is held, or was held last. */
  readonly backend?: LockBackend;
  /** How it is held. */
  readonly mode?: LockMode;
  /** The holder, or the last one: the first of `holders`. */
  readonly holder?: LockHolder;
  /**
   * `true`: a record may stand in the file, and this process cannot read it. On Windows that is so while a Deno without
   * `--allow-ffi`, or a Worker of any Deno, holds the lock: it keeps the whole file locked.
   */
  readonly unread?: true;
  /** All holders: a shared lock may have many, and so may a lock whose descriptor was inherited. */
  readonly holders: readonly LockHolder[];
  /**
   * Number of processes that wait for it in the kernel (flock(1), Python). A waiter
   * that polls, as this library does, is not counted. Left out if the kernel does not say.
   */
  readonly waiters?: number;
  /** Why the state is what it is, in words. */
  readonly reason: string;
}

/** Whether it looks free and need not be: a holder would not be seen. */
export const isUncertain = ({ state, complete }: LockStatus): boolean =>
  !complete && (state === "free" || state === "stale");

/** Why a lock is free where its file was never made. */
export const NO_FILE = "there is no lock file";

/** What the file system of a path means for what is seen there. */
interface View {
  /** Where it is, for people; empty where that is not known. */
  readonly where: string;
  /** What would not be seen. */
  readonly hides: string;
  /** Whether an exclusive lock may have another holder. */
  readonly both: boolean;
}

/** undefined: it is on a local disk, and nothing is hidden by that. */
export function viewOf(sys: System, path: string): View | undefined {
  const place = placeOf(sys, path);
  if (place === undefined) return undefined;
  if (place === "unknown") {
    return {
      where: "",
      hides: "its file system is not known, so a holder on another host would not be seen",
      both: false,
    };
  }
  const hides = "a holder on another host, or by another mount, would not be seen";
  return { where: `. It is on ${place.where}: ${place.words}`, hides, both: place.both };
}

/** A status with what its place adds. */
export function inPlace(status: LockStatus, view: View | undefined): LockStatus {
  if (!view) return status;
  const { state, complete, mode, backend, reason } = status;
  const isAlone = state === "held" && mode === "exclusive" && backend === "flock" && !view.both;
  // A file that does not exist has no holder, on any file system.
  const all = complete && (isAlone || reason === NO_FILE);
  const why = complete && !all ? `; ${view.hides}` : "";
  return { ...status, complete: all, reason: `${reason}${view.where}${why}` };
}

/**
 * A dead owner's PID file says no more than a dead holder's record. Whatever a PID file says, the kernel's lock may have
 * a holder that is not seen.
 */
export function either(kernel: LockStatus, pidFile: LockStatus | undefined): LockStatus {
  if (!pidFile || (pidFile.state === "stale" && kernel.state !== "free")) return kernel;
  if (kernel.complete) return pidFile;
  return { ...pidFile, complete: false, reason: `${pidFile.reason}; of the lock file, ${kernel.reason}` };
}

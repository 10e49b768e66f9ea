/** Who holds a lock, without ever taking it. Reads, and changes nothing. */
import type { InTheWay } from "./backend.ts";
import { pidPath, readContent, readEntry } from "./backend/entry.ts";
import { systemFailure } from "./errors.ts";
import type { LockBackend, LockMode } from "./options.ts";
import { judge } from "./owner.ts";
import { LockHolder } from "./record.ts";
import { holdsHere } from "./registry.ts";
import { flocksOn, type KernelLock } from "./sys/locks.ts";
import { type System, SystemError } from "./sys/sys.ts";

/** What is known of a lock. */
export interface LockStatus {
  /** The lock's path. */
  readonly path: string;
  /**
   * `"free"`; `"held"`; `"stale"`: free, and its last holder died without
   * releasing it; `"unknown"`: its owner may be alive, and this process cannot
   * tell. Where `/proc/locks` cannot be read (Deno without `--allow-ffi`, not
   * Linux), the state is judged by the record alone, and `reason` says so.
   */
  readonly state: "free" | "held" | "stale" | "unknown";
  /** What holds it, or held it last. */
  readonly backend?: LockBackend;
  /** How it is held. */
  readonly mode?: LockMode;
  /** Who holds it, or held it last. */
  readonly holder?: LockHolder;
  /** Why the state is what it is, in words. */
  readonly reason: string;
}

/** The status of the lock at a path. Throws LockError where its files cannot be read. */
export function inspectPath(sys: System, given: string): LockStatus {
  let path = given;
  try {
    path = sys.physical(given);
    const kernel = inspectKernel(sys, path);
    if (kernel.state === "held") return { ...kernel, path: given };
    const pidFile = inspectPidFile(sys, path);
    // A dead owner's PID file says no more than a dead holder's record.
    return { ...(!pidFile || (pidFile.state === "stale" && kernel.state !== "free") ? kernel : pidFile), path: given };
  } catch (error) {
    throw error instanceof SystemError ? systemFailure("inspect", path, error) : error;
  }
}

function inspectPidFile(sys: System, path: string): LockStatus | undefined {
  const entry = readEntry(sys, path, pidPath(path), false); // nothing is written, not even to tell its age
  if (!entry) return undefined;
  const { holder, owner } = entry;
  const state = ({ alive: "held", dead: "stale", unknown: "unknown" } as const)[owner.state];
  return { path, state, backend: "pidfile", mode: holder?.mode, holder, reason: owner.reason };
}

/** The PID namespace that sees every process, and so every line of `/proc/locks`: PROC_PID_INIT_INO, <linux/proc_ns.h>. */
const INITIAL_NAMESPACE = "4026531836";

/** The status of the kernel lock alone. */
export function inspectKernel(sys: System, path: string): LockStatus {
  const read = readContent(sys, path);
  if (!read) return { path, state: "free", reason: "there is no lock file" };
  const holder = "holder" in read.content ? read.content.holder : undefined;
  const kernelLocks = sys.kernelLocks();
  const locks = flocksOn(kernelLocks ?? "", read.stat, sys.mounts());
  if (locks.length > 0) return heldByKernel(sys, path, locks, holder);
  // The one holder that needs no /proc to be seen.
  if (holdsHere(read.stat.identity)) {
    return {
      path,
      state: "held",
      backend: "flock",
      holder: holder ?? new LockHolder(sys.self()),
      reason: "this process holds it",
    };
  }
  if (kernelLocks === undefined) return byRecord(sys, path, holder, "/proc/locks cannot be read here");
  if (sys.self().pidNamespace !== INITIAL_NAMESPACE) {
    return byRecord(sys, path, holder, "/proc/locks shows only this PID namespace's processes (a container?)");
  }
  if (!holder) return { path, state: "free", reason: "the kernel shows no lock on it" };
  const reason = "the kernel shows no lock on it, and its last holder left a record";
  return { path, state: "stale", backend: "flock", mode: holder.mode, holder, reason };
}

function heldByKernel(sys: System, path: string, locks: KernelLock[], recorded: LockHolder | undefined): LockStatus {
  const [{ pid, mode }] = locks;
  // The record names the owner also where the flock(1) command took the lock for
  // it; a record that is none of a holder's is from one that died.
  const owner = recorded && (recorded.pid === pid || judge(recorded, sys).state === "alive") ? recorded : undefined;
  const { command, startTime } = sys.look(pid) ?? {};
  // Taken by flock(1) for another, which has ended: its number would send people after nobody.
  const ended = pid <= 0 || sys.exists(pid) === "gone";
  const holder = owner ?? (ended ? undefined : new LockHolder({ pid, command, startTime, mode }));
  const reason = `the kernel shows ${
    mode === "shared" ? `${locks.length} shared` : "an exclusive"
  } lock on it, taken by pid ${locks.map(({ pid }) => pid).join(", ")}`;
  return { path, state: "held", backend: "flock", mode, holder, reason };
}

function byRecord(sys: System, path: string, holder: LockHolder | undefined, because: string): LockStatus {
  const unseen = `${because}, so a holder without a record would not be seen`;
  if (!holder) return { path, state: "free", reason: `it holds no record; ${unseen}` };
  const owner = judge(holder, sys);
  const state = ({ alive: "held", dead: "stale", unknown: "unknown" } as const)[owner.state];
  return { path, state, backend: "flock", mode: holder.mode, holder, reason: `${owner.reason}; ${unseen}` };
}

/** For a message: the record may be a dead holder's, while a program without a record has the lock. */
export function whoHolds(sys: System, path: string): InTheWay {
  const { state, holder } = inspectKernel(sys, path);
  if (state === "free" || state === "stale" || !holder) return {};
  const { state: owner, reason } = judge(holder, sys);
  return { holder, doubt: owner === "alive" ? undefined : `the kernel refuses it; of that process, ${reason}` };
}

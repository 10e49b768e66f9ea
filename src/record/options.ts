/** Options, their defaults, and their validation. */
import type { LockHolder } from "./record.ts";
import { resolvePath, show } from "./path.ts";
import { signals } from "../sys/mod.ts";

/** How a lock is held: alone, or together with other shared holders. */
export type LockMode = "exclusive" | "shared";

/** Which kind of lock holds: the kernel's, or a PID file. */
export type LockBackend = "flock" | "pidfile";

/** Options of a lock. */
export interface LockOptions {
  /**
   * `"exclusive"` (default): there is no other holder. `"shared"`: there may be
   * other shared holders, and no exclusive one; the kernel lock only.
   */
  mode?: LockMode;
  /**
   * `"auto"` (default): the kernel lock, or a PID file if the runtime or the
   * file system has no kernel lock. `"flock"`: the kernel lock, or LockUnsupportedError.
   * `"pidfile"`: the PID file.
   */
  backend?: "auto" | LockBackend;
  /**
   * Which file systems the lock file may be on. Through FUSE and some network
   * mounts two processes can both get a lock, each by a mount of its own, without
   * an error. `"warn"` (default): the first lock there writes a line to standard
   * error. `"local"`: only a local disk, as statfs(2) tells it. FUSE, NFS, SMB, 9p
   * and the like, and a file system that is not recognised (not Linux; a rare one;
   * Deno without `--allow-ffi` or `--allow-sys=statfs`), are a LockUnsupportedError.
   * `"any"`: all of them.
   */
  fileSystem?: "warn" | "local" | "any";
  /**
   * `true`: this object may be acquired again while it is held, and must be
   * released as often. Within `run` only its own task may acquire it again: another
   * task that shares the object waits. `false` (default): a nested `run` is a
   * LockDeadlockError.
   */
  reentrant?: boolean;
  /** Permission bits of a lock file, PID file or journal that has to be made, less the umask. Default: `0o644`. No effect on Windows. */
  fileMode?: number;
  /** Text for people, shown in messages about the held lock; at most 200 characters. */
  label?: string;
  /**
   * Called after the lock was acquired, if the last holder died without releasing
   * it, with that holder. Without `onStale`, one line on standard error says so.
   * What it throws is thrown by the call that acquired, and the lock is released.
   */
  onStale?: (holder: LockHolder) => void;
  /**
   * `true`: each time the lock is acquired, released, found stale or lost, it writes
   * a line to `P.journal`, beside the lock file `P`. A path or file URL: to that
   * file. `history` of `@holdfast/lock/journal` reads it. If the journal cannot be
   * written, the lock works all the same, and the first failure is reported on
   * standard error. `false` (default): no journal.
   */
  journal?: boolean | string | URL;
}

/** Options of a wait. */
export interface AcquireOptions {
  /** How long to wait, in milliseconds. `0` tries once; `Infinity` (default) waits for ever. */
  timeout?: number;
  /** Ends the wait when it aborts. It counts only until the lock is granted. */
  signal?: AbortSignal;
  /**
   * Asks the holder to hand the lock over: sends it this signal, such as `"SIGTERM"`,
   * once, and goes on waiting.
   *
   * Guaranteed: only a verified holder is signalled. That is the process of the
   * record, by PID and start time, of this user, host, boot and PID namespace, whose
   * open files show the lock (`/proc/PID/fdinfo`). A PID file must be on a local
   * disk, and no other user may be able to write it or a directory on the way to it.
   * If the holder is not verified within a second, it is not signalled, and the wait
   * ends with a LockHeldError that says why.
   *
   * Not guaranteed: that the holder obeys, or that no other waiter is faster.
   */
  signalHolder?: string;
}

/** The journal of a lock, unless another is named. */
export const journalPath = (lock: string): string => `${lock}.journal`;

/** Options, complete. */
export type Settings =
  & Required<Omit<LockOptions, "label" | "onStale" | "journal">>
  & Pick<LockOptions, "label" | "onStale">
  & {
    /** The journal's path. */
    readonly journal: string | undefined;
  };

function oneOf<T extends string>(name: string, value: unknown, allowed: readonly T[]): T {
  const found = allowed.find((each) => each === value);
  if (found !== undefined) return found;
  const names = allowed.map((each) => `"${each}"`).join(" or ");
  throw new TypeError(`Cannot create a lock as "${name}" must be ${names}: received ${show(value)}`);
}

/** In JavaScript, an option of the wrong name or in the wrong place would otherwise mean a wait for ever. */
export function known(operation: string, options: unknown, names: readonly string[]): void {
  if (typeof options !== "object" || options === null) {
    throw new TypeError(`Cannot ${operation} as its options must be an object: received ${show(options)}`);
  }
  const unknown = Object.keys(options).find((name) => !names.includes(name));
  if (unknown !== undefined) {
    throw new TypeError(`Cannot ${operation} as it has no option "${unknown}": it has ${names.join(", ")}`);
  }
}

/** Checks the options of a wait; the timeout is in milliseconds, and absent it is for ever. */
export function validateWait(
  options: AcquireOptions,
  how: "wait" | "block" = "wait",
): { timeout: number; signal: AbortSignal | undefined; signalHolder: string | undefined } {
  known("wait for a lock", options, how === "wait" ? ["timeout", "signal", "signalHolder"] : ["timeout"]);
  const { signal, signalHolder } = options;
  if (signalHolder !== undefined && !Object.hasOwn(signals(), signalHolder)) {
    const allowed = "the name of a signal, such as SIGTERM";
    throw new TypeError(`Cannot wait for a lock as "signalHolder" must be ${allowed}: received ${show(signalHolder)}`);
  }
  if (signal !== undefined && typeof signal?.throwIfAborted !== "function") {
    throw new TypeError(`Cannot wait for a lock as "signal" must be an AbortSignal: received ${show(signal)}`);
  }
  return { timeout: validateTimeout(options.timeout), signal, signalHolder };
}

/** Checks the options of a lock. */
export function validateOptions(options: LockOptions, path: string, mayAskDirectory: () => boolean): Settings {
  known("create a lock", options, [
    "mode",
    "backend",
    "fileSystem",
    "reentrant",
    "fileMode",
    "label",
    "onStale",
    "journal",
  ]);
  const { mode = "exclusive", backend = "auto", fileSystem = "warn", reentrant = false } = options;
  const { fileMode = 0o644, label, onStale } = options;
  if (typeof fileMode !== "number") {
    throw new TypeError(`Cannot create a lock as "fileMode" must be a number: received ${show(fileMode)}`);
  }
  if (!Number.isInteger(fileMode) || fileMode < 0 || fileMode > 0o777) {
    throw new RangeError(`Cannot create a lock as "fileMode" must be from 0 to 0o777: received ${fileMode}`);
  }
  if (typeof reentrant !== "boolean") {
    throw new TypeError(`Cannot create a lock as "reentrant" must be a boolean: received ${show(reentrant)}`);
  }
  if (label !== undefined && typeof label !== "string") {
    throw new TypeError(`Cannot create a lock as "label" must be a string: received ${show(label)}`);
  }
  if (label !== undefined && label.length > 200) {
    throw new RangeError(`Cannot create a lock as "label" must have at most 200 characters: received ${label.length}`);
  }
  if (onStale !== undefined && typeof onStale !== "function") {
    throw new TypeError(`Cannot create a lock as "onStale" must be a function: received ${show(onStale)}`);
  }
  return {
    mode: oneOf("mode", mode, ["exclusive", "shared"]),
    backend: oneOf("backend", backend, ["auto", "flock", "pidfile"]),
    fileSystem: oneOf("fileSystem", fileSystem, ["warn", "local", "any"]),
    reentrant,
    fileMode,
    label,
    onStale,
    journal: resolveJournal(options.journal, path, mayAskDirectory),
  };
}

function resolveJournal(journal: LockOptions["journal"], path: string, mayAskDirectory: () => boolean) {
  if (journal === undefined || journal === false) return undefined;
  if (journal === true) return journalPath(path);
  if (typeof journal !== "string" && !(journal instanceof URL)) {
    throw new TypeError(`Cannot create a lock as "journal" must be true, false or a path: received ${show(journal)}`);
  }
  const own = resolvePath(journal, mayAskDirectory, "name a journal");
  if ([path, `${path}.pid`].includes(own)) {
    throw new TypeError(
      `Cannot create a lock as "journal" must not be a file of the lock itself: received ${show(own)}`,
    );
  }
  return own;
}

/** Checks a timeout; absent is for ever. */
function validateTimeout(timeout: number | undefined): number {
  if (timeout === undefined) return Infinity;
  if (typeof timeout !== "number") {
    throw new TypeError(
      `Cannot wait for a lock as "timeout" must be a number of milliseconds: received ${show(timeout)}`,
    );
  }
  if (!(timeout >= 0)) {
    throw new RangeError(`Cannot wait for a lock as "timeout" must not be negative: received ${timeout}`);
  }
  return timeout;
}

/** Options, their defaults, and their validation. */
import { isAbsolute, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { LockHolder } from "./record.ts";

/** How a lock is held: alone, or together with others who hold it shared. */
export type LockMode = "exclusive" | "shared";

/** Which kind of lock holds: the kernel's, or a PID file. */
export type LockBackend = "flock" | "pidfile";

/** Options of a lock. */
export interface LockOptions {
  /**
   * `"exclusive"` (default): nobody else holds the lock. `"shared"`: others may
   * hold it shared at the same time, and nobody exclusively; the kernel lock only.
   */
  mode?: LockMode;
  /**
   * `"auto"` (default): the kernel lock, and a PID file where the runtime or the
   * file system has none. `"flock"`: the kernel lock, or LockUnsupportedError.
   * `"pidfile"`: the PID file.
   */
  backend?: "auto" | LockBackend;
  /**
   * `true`: this object may be acquired again while it is held, and must be
   * released as often. In `run` only the task that runs may, so that another
   * task that shares the object waits. `false` (default): a nested `run` is a
   * LockDeadlockError.
   */
  reentrant?: boolean;
  /** Permission bits of a lock file that has to be made, less the umask: `0o644` unless given. */
  fileMode?: number;
  /** Text for people, shown to whoever finds the lock held; at most 200 characters. */
  label?: string;
  /**
   * Called with the last holder where that one died without releasing, after
   * the lock was acquired. Without it, one line on standard error says so. What
   * it throws is thrown by the call that acquired, and the lock is released.
   */
  onStale?: (holder: LockHolder) => void;
}

/** Options of a wait. */
export interface AcquireOptions {
  /** How long to wait, in milliseconds. `0` tries once; `Infinity` (default) waits for ever. */
  timeout?: number;
  /** Ends the wait when it aborts. It counts only until the lock is granted. */
  signal?: AbortSignal;
}

/** Options, complete. */
export type Settings = Required<Omit<LockOptions, "label" | "onStale">> & Pick<LockOptions, "label" | "onStale">;

const show = (value: unknown) => typeof value === "string" ? JSON.stringify(value) : String(value);

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
export function settleWait(options: AcquireOptions): { timeout: number; signal: AbortSignal | undefined } {
  known("wait for a lock", options, ["timeout", "signal"]);
  const { signal } = options;
  if (signal !== undefined && typeof signal?.throwIfAborted !== "function") {
    throw new TypeError(`Cannot wait for a lock as "signal" must be an AbortSignal: received ${show(signal)}`);
  }
  return { timeout: settleTimeout(options.timeout), signal };
}

/** Checks the options of a lock. */
export function settle(options: LockOptions): Settings {
  known("create a lock", options, ["mode", "backend", "reentrant", "fileMode", "label", "onStale"]);
  const { mode = "exclusive", backend = "auto", reentrant = false, fileMode = 0o644, label, onStale } = options;
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
    reentrant,
    fileMode,
    label,
    onStale,
  };
}

/**
 * Checks a path and makes it absolute, so that a later `chdir` does not make it
 * another lock. Where the runtime hides the current directory (Deno without
 * `--allow-read`), a relative path stays relative.
 */
export function settlePath(path: string | URL, mayAskDirectory: () => boolean): string {
  if (path instanceof URL) {
    if (path.protocol !== "file:") {
      throw new TypeError(`Cannot create a lock as its URL must be a file: received ${path}`);
    }
    path = fileURLToPath(path);
  }
  if (typeof path !== "string") {
    throw new TypeError(`Cannot create a lock as its path must be a string or a file URL: received ${show(path)}`);
  }
  if (path === "") throw new TypeError("Cannot create a lock as its path must not be empty");
  if (path.endsWith("/")) {
    throw new TypeError(`Cannot create a lock as its path names a directory: received ${show(path)}`);
  }
  // To a C function the path would end there, and be another file's.
  if (path.includes("\0")) {
    throw new TypeError(`Cannot create a lock as its path must not hold a NUL: received ${show(path)}`);
  }
  if (!isAbsolute(path)) {
    try {
      if (!mayAskDirectory()) return path;
      path = `${process.cwd()}/${path}`;
    } catch {
      return path; // the current directory was deleted: acquiring says so
    }
  }
  // `a/../b` is not `b` where `a` is a symlink; that is for the kernel to resolve.
  return path.split("/").includes("..") ? path.replace(/\/+$/, "") : resolve(path);
}

/** Checks a timeout; absent is for ever. */
function settleTimeout(timeout: number | undefined): number {
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

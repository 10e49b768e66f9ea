/** The error classes. Every message names the operation, the path and the reason. */
import type { LockHolder } from "./record.ts";
import { printable, quote } from "../sys/printable.ts";
import type { SystemError } from "../sys/contract.ts";

/** What a {@linkcode LockError} carries beside its message. */
export interface LockErrorOptions extends ErrorOptions {
  /** The error's code, such as `"ELOCKED"` or the errno's name. */
  readonly code: string;
  /** The path of the lock. */
  readonly path: string;
}

/**
 * Everything that goes wrong with a lock is a `LockError`. One that comes from
 * the system keeps the errno's name as its `code` (`EACCES`, `ENOENT`,
 * `EROFS`, `ENOSPC`, `EMFILE`, … see errno(3)) and the system's error as its
 * `cause`.
 */
export class LockError extends Error {
  /** The class's name. */
  override name = "LockError";
  /** The errno's name, or this package's own code. */
  readonly code: string;
  /** The path of the lock. */
  readonly path: string;

  /** Made by the library. */
  constructor(message: string, options: LockErrorOptions) {
    super(printable(message), options); // what the system said may hold a path as it is
    this.code = options.code;
    this.path = options.path;
  }
}

/** The lock is held by another. `code` is `"ELOCKED"`. */
export class LockHeldError extends LockError {
  /** The class's name. */
  override name = "LockHeldError";
  /** The holder, if it is known. */
  readonly holder: LockHolder | undefined;

  /** Made by the library. */
  constructor(message: string, options: LockErrorOptions & { readonly holder?: LockHolder }) {
    super(message, options);
    this.holder = options.holder;
  }
}

/** The lock was still held by another when the time was up. `code` is `"ETIMEDOUT"`. */
export class LockTimeoutError extends LockHeldError {
  /** The class's name. */
  override name = "LockTimeoutError";
}

/** `release()` of a lock that this object does not hold. `code` is `"ENOTHELD"`. */
export class LockNotHeldError extends LockError {
  /** The class's name. */
  override name = "LockNotHeldError";
}

/**
 * The lock was held, and is no longer, though it was not released: its file was
 * deleted or replaced. Another process may have held it at the same time.
 * `code` is `"ELOST"`.
 */
export class LockLostError extends LockError {
  /** The class's name. */
  override name = "LockLostError";
}

/** The wait could never end: this thread itself holds the lock. `code` is `"EDEADLK"`. */
export class LockDeadlockError extends LockError {
  /** The class's name. */
  override name = "LockDeadlockError";
}

/** This runtime or this file system has no such lock. `code` is `"ENOTSUP"`. */
export class LockUnsupportedError extends LockError {
  /** The class's name. */
  override name = "LockUnsupportedError";
}

/** What the system said, with the errno's name before it. */
export const reasonOf = ({ code, message }: SystemError): string =>
  message.startsWith(code) ? message : `${code}: ${message}`;

/** A system call's error, with the operation and the path that it failed for. */
export function systemFailure(
  operation: "acquire" | "release" | "inspect" | "scan" | "break" | "read the journal of",
  path: string,
  error: SystemError,
): LockError {
  const message = `Cannot ${operation} ${quote(path)}: ${reasonOf(error)}`;
  return new LockError(message, { code: error.code, path, cause: error.cause ?? error });
}

/** Lock: idle, waiting, held, lost; and nothing else. */
import { Choice, type Hold, type Refusal } from "./backend.ts";
import { quote, systemFailure } from "./errors.ts";
import { inspectPath, type LockStatus } from "./inspect.ts";
import { HELD_HERE, Line, waitSync } from "./line.ts";
import { deadlockError, lostError, notHeldError, reportStale, timeoutError } from "./messages.ts";
import {
  type AcquireOptions,
  type LockBackend,
  type LockOptions,
  type Settings,
  settle,
  settlePath,
  settleTimeout,
} from "./options.ts";
import { forget, remember } from "./registry.ts";
import { mayAskDirectory, system } from "./sys/mod.ts";
import { SystemError } from "./sys/sys.ts";
import { Wait } from "./wait.ts";

const now = () => performance.now();

/**
 * A lock at a path: one holder at a time on this machine, in whatever process,
 * runtime or language, as long as each asks for it.
 *
 * Guaranteed: while an exclusive lock is held, every other `Lock` on the same
 * file, and every flock(2) of another program, is refused. The kernel frees it
 * the moment its process ends, `kill -9` included.
 *
 * Not guaranteed: that a program that does not ask is stopped (the lock is
 * advisory, flock(2)); anything across hosts beyond what their shared file
 * system's flock(2) does.
 *
 * The trap: the lock file stays when the lock is free, and must; a deleted one
 * is two locks. A held `Lock` that is garbage collected stays held.
 *
 * @example
 * ```ts
 * import { Lock } from "@holdfast/lock";
 *
 * const path = `${await Deno.makeTempDir()}/nightly.lock`;
 * await new Lock(path).run(async () => {
 *   // nobody else is here
 * });
 * ```
 */
export class Lock implements Disposable, AsyncDisposable {
  /** The lock file: absolute, unless the runtime hides the current directory. */
  readonly path: string;
  readonly #settings: Settings;
  #choice: Choice | undefined;
  #hold: Hold | undefined;
  readonly #line = new Line();

  /**
   * Names a lock. Touches nothing on disk.
   *
   * @param path The lock file, or its file URL. Its directory must exist when the lock is acquired. A relative path is made absolute now.
   * @param options Mode, back end, label, and so on.
   * @throws {TypeError} if the path is empty, holds a NUL, or is no file URL, or an option is of the wrong type.
   * @throws {RangeError} if an option is out of its range.
   */
  constructor(path: string | URL, options: LockOptions = {}) {
    this.path = settlePath(path, mayAskDirectory);
    this.#settings = settle(options);
  }

  /** Whether this object holds the lock. */
  get held(): boolean {
    return this.#hold !== undefined;
  }

  /** `"flock"` or `"pidfile"`; undefined before the first try. */
  get backend(): LockBackend | undefined {
    return this.#choice?.taken;
  }

  /** Why that back end, in words for people. */
  get backendReason(): string {
    return this.#choice?.reason ?? "nothing was tried yet";
  }

  /**
   * One try, synchronous, never waiting.
   *
   * @returns Whether this object holds the lock now because of this call. `false` means that it is held, by another or by this very object, and that nothing on disk was changed.
   * @throws {LockUnsupportedError} if there is no lock of the wanted kind in this runtime or on this file system.
   * @throws {LockError} if the system refuses, such as `ENOENT` for a missing directory, `EACCES`, `EROFS`, `ELOOP` for a symlink, `EMFILE`.
   */
  tryAcquire(): boolean {
    return this.#try() === undefined;
  }

  /**
   * Waits for the lock without blocking the event loop. Calls on one object are
   * served in their order.
   *
   * @param options How long to wait, and what ends the wait.
   * @returns This object, holding the lock.
   * @throws {LockTimeoutError} if it was still held when the time was up.
   * @throws The signal's reason, if it aborts before the lock is granted.
   * @throws {LockError} as `tryAcquire` does.
   * @throws {TypeError} if `timeout` is not a number.
   * @throws {RangeError} if `timeout` is negative or NaN.
   */
  async acquire(options: AcquireOptions = {}): Promise<this> {
    const { signal } = options;
    const timeout = settleTimeout(options.timeout);
    signal?.throwIfAborted(); // before the disk is touched
    const late = (refusal: Refusal) => timeoutError(this.path, timeout, refusal);
    await this.#line.wait(new Wait(timeout, now), signal, () => this.#try(), late);
    return this;
  }

  /**
   * Waits for the lock and blocks this thread: no timer, no promise, no
   * JavaScript signal handler runs meanwhile.
   *
   * @param options How long to wait.
   * @returns This object, holding the lock.
   * @throws {LockTimeoutError} if it was still held when the time was up.
   * @throws {LockDeadlockError} at once, if this thread holds it, through this or another object.
   * @throws {LockError} as `tryAcquire` does.
   * @throws {TypeError} if `timeout` is not a number.
   * @throws {RangeError} if `timeout` is negative or NaN.
   */
  acquireSync(options: Pick<AcquireOptions, "timeout"> = {}): this {
    const timeout = settleTimeout(options.timeout);
    waitSync(new Wait(timeout, now), () => this.#try(), (refusal, deadlock) => {
      return deadlock ? deadlockError(this.path) : timeoutError(this.path, timeout, refusal);
    });
    return this;
  }

  /**
   * Gives the lock up. The lock file stays, empty.
   *
   * @throws {LockNotHeldError} if this object does not hold it; whoever does keeps it.
   * @throws {LockLostError} if its file was deleted or replaced while it was held, so that another may have held it too.
   */
  release(): void {
    const hold = this.#hold;
    if (!hold) throw notHeldError(this.path);
    this.#hold = undefined; // forgotten before it is closed
    forget(hold);
    try {
      if (hold.release() === "lost") throw lostError(this.path);
    } catch (error) {
      throw error instanceof SystemError ? systemFailure("release", this.path, error) : error;
    } finally {
      this.#line.wake();
    }
  }

  /**
   * Acquires, calls, and releases when the function has returned or thrown, or its promise has settled.
   *
   * @param fn What to do while the lock is held.
   * @param options How long to wait, and what ends the wait.
   * @returns What the function returns.
   * @throws What the function throws, and what `acquire` and `release` throw.
   */
  async run<T>(fn: () => T | Promise<T>, options: AcquireOptions = {}): Promise<T> {
    await this.acquire(options);
    const hold = this.#hold;
    try {
      return await fn();
    } finally {
      if (this.#hold === hold) this.release(); // not if `fn` has done it, and somebody else holds by now
    }
  }

  /**
   * Acquires as `acquireSync` does, calls, and releases.
   *
   * @param fn What to do while the lock is held; not asynchronous.
   * @param options How long to wait.
   * @returns What the function returns.
   * @throws {TypeError} if the function returns a promise, whose work would go on without the lock.
   * @throws What the function throws, and what `acquireSync` and `release` throw.
   */
  runSync<T>(fn: () => T, options: Pick<AcquireOptions, "timeout"> = {}): T {
    this.acquireSync(options);
    const hold = this.#hold;
    try {
      const result = fn();
      // The cast: it may be anything, and is only asked for a property.
      if (typeof (result as { then?: unknown } | undefined)?.then === "function") {
        throw new TypeError(`Cannot run an asynchronous function under ${quote(this.path)} with runSync(): use run()`);
      }
      return result;
    } finally {
      if (this.#hold === hold) this.release();
    }
  }

  /**
   * Who holds this lock. Never takes it, not even for an instant, and changes nothing.
   *
   * @returns What is known.
   * @throws {LockError} if the lock's files cannot be read.
   */
  inspect(): LockStatus {
    return inspectPath(system(), this.path);
  }

  /**
   * Who holds the lock at a path. Never takes it, not even for an instant, and changes nothing.
   *
   * @param path The lock file, or its file URL.
   * @returns What is known.
   * @throws {LockError} if the lock's files cannot be read.
   * @throws {TypeError} as the constructor does.
   */
  static inspect(path: string | URL): LockStatus {
    return inspectPath(system(), settlePath(path, mayAskDirectory));
  }

  /** Releases if held; never throws because it is not. */
  [Symbol.dispose](): void {
    if (this.#hold) this.release();
  }

  /** Releases if held; never rejects because it is not. */
  [Symbol.asyncDispose](): Promise<void> {
    return new Promise((resolve) => {
      this[Symbol.dispose](); // now; what it throws rejects
      resolve();
    });
  }

  /** undefined: held now. */
  #try(): Refusal | undefined {
    if (this.#hold) return HELD_HERE;
    this.#choice ??= new Choice(system(), this.#settings.backend);
    const attempt = this.#choice.attempt({ ...this.#settings, path: this.path });
    if ("refusal" in attempt) return attempt.refusal;
    const { hold } = attempt;
    this.#hold = hold;
    remember(hold);
    try {
      if (hold.stale) reportStale(this.path, hold.stale, this.#settings.onStale);
    } catch (error) {
      this[Symbol.dispose](); // the caller gets an error, so it must not get the lock
      throw error;
    }
    return undefined;
  }
}

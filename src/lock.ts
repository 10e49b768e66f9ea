/** `Lock`: the public class, and what its user may rely on. The state machine behind it is `hold/state.ts`. */
import { acquire, acquireSync } from "./hold/acquire.ts";
import type { Refusal } from "./backend/contract.ts";
import { describe } from "./inspect/describe.ts";
import { namedPath } from "./record/directory.ts";
import { inspectPath, type LockStatus } from "./inspect/inspect.ts";
import { type AcquireOptions, type LockBackend, type LockOptions, validateOptions } from "./record/options.ts";
import { resolvePath } from "./record/path.ts";
import { type Held, mustBeFunction, run, runSync } from "./hold/run.ts";
import { State } from "./hold/state.ts";
import { mayAskDirectory, system } from "./sys/mod.ts";

/**
 * A lock at a path: one holder at a time on this machine, in whatever process,
 * runtime or language, as long as each asks for the lock.
 *
 * Guaranteed: while an exclusive lock is held, every other `Lock` on the same
 * file, and every flock(2) of another program, is refused. The kernel frees it
 * the moment its process ends, `kill -9` included.
 *
 * Not guaranteed: any effect on a program that does not ask for it (the lock is
 * advisory, flock(2)); anything across hosts beyond what their shared file
 * system's flock(2) does.
 *
 * The trap: the lock file stays when the lock is free. Never delete it: two
 * processes could then hold the lock. Data in it stays as it is, but a file that
 * holds nothing but a number counts as a PID file and is overwritten. A held `Lock`
 * that is garbage collected stays held. One object is held by one task at a
 * time, in shared mode too.
 *
 * @example
 * ```ts
 * import { Lock } from "@holdfast/lock";
 *
 * const path = `${await Deno.makeTempDir()}/nightly.lock`;
 * await new Lock(path).run(async () => {
 *   // no other process is in here
 * });
 * ```
 */
export class Lock implements Disposable, AsyncDisposable {
  /** The lock file: absolute, unless the runtime hides the current directory. */
  readonly path: string;
  readonly #state: State;

  /**
   * Names a lock. Touches nothing on disk.
   *
   * @param path The lock file, or its file URL. Its directory must exist when the lock is acquired. A relative path is made absolute now.
   * @param options Mode, back end, label, and so on.
   * @throws {TypeError} If the path is empty, holds a NUL, is not UTF-8 (U+FFFD, a lone surrogate), or is no file URL, or an option is of the wrong type.
   * @throws {RangeError} If an option is out of its range.
   */
  constructor(path: string | URL, options: LockOptions = {}) {
    this.path = resolvePath(path, mayAskDirectory);
    const describer = (refusal: Refusal) => describe(system(), this.path, refusal);
    this.#state = new State(this.path, validateOptions(options, this.path, mayAskDirectory), describer);
  }

  /**
   * Names a lock in the user's one lock directory, {@linkcode lockDirectory}, which
   * is made when the lock is first acquired. Touches nothing on disk now.
   *
   * @param name 1 to 200 of `A-Z a-z 0-9 . _ -`.
   * @param options As the constructor's.
   * @returns The lock.
   * @throws {TypeError} If the name has other characters, or an option is of the wrong type.
   * @throws {RangeError} If an option is out of its range.
   * @throws {LockError} If the directory is not known, as `lockDirectory` does.
   */
  static named(name: string, options: LockOptions = {}): Lock {
    const lock = new Lock(namedPath(name), options);
    lock.#state.choice.makesDirectory = true;
    return lock;
  }

  /** Whether this object holds the lock. */
  get held(): boolean {
    return this.#state.hold !== undefined;
  }

  /** `"flock"` or `"pidfile"`; undefined before the first try. */
  get backend(): LockBackend | undefined {
    return this.#state.choice.taken;
  }

  /**
   * Aborts with LockLostError when the lock is lost while it is held: its file was deleted or replaced, or its
   * descriptor closed by other code of this process, and another may hold it. Never on release. One signal serves
   * until it has aborted; the next acquisition has another.
   *
   * Guaranteed: a loss is noticed within 5 s, mostly in milliseconds, if this
   * thread's event loop turns. A file that was merely deleted is made again and
   * locked, if no other process is faster: that is no loss. Not guaranteed: that
   * no other process entered before that.
   */
  get signal(): AbortSignal {
    return this.#state.signal;
  }

  /**
   * The descriptor of the lock file while the lock is held, for a child process:
   * `spawn(command, args, { stdio: ["ignore", "inherit", "inherit", lock.fd] })`
   * of `node:child_process`. The lock then lasts until the last process that has
   * the descriptor has closed it or ended, also after `release()` and after this
   * process has died. undefined for a PID file, on Windows, and in Deno without FFI.
   *
   * The trap: it is for children only. Do not read, write, lock or close it: closed, the lock is lost.
   */
  get fd(): number | undefined {
    return this.#state.hold?.fd;
  }

  /**
   * Checks now what {@linkcode signal} tells later: makes a deleted file again, and aborts the signal on a loss.
   *
   * @returns Whether this object still holds the lock.
   */
  verify(): boolean {
    return this.#state.verify();
  }

  /** The reason for that back end, in words for people. */
  get backendReason(): string {
    return this.#state.choice.reason;
  }

  /**
   * Tries once to take the lock. Synchronous; never waits.
   *
   * @returns `true` if this call took the lock. `false` if it is held, by another or by this very object: then nothing on disk was changed. Never `false` for an error.
   * @throws {LockUnsupportedError} If there is no lock of the wanted kind in this runtime or on this file system.
   * @throws {LockError} If the system refuses, such as `ENOENT` for a missing directory, `EACCES`, `EROFS`, `ELOOP` for a symlink, `EMFILE`.
   */
  tryAcquire(): boolean {
    const state = this.#state;
    if (state.hold) return state.enterAgain();
    return !state.take(state.choice.attempt(state.request), false) && this.held; // `onStale` may have released it
  }

  /**
   * Waits for the lock without blocking the event loop. Calls on one object are served in their order.
   *
   * @param options How long to wait, and what ends the wait.
   * @returns This object, holding the lock.
   * @throws {LockTimeoutError} If it was still held when the time was up.
   * @throws {LockHeldError} If `signalHolder` is given and the holder cannot be verified, or is another user's.
   * @throws {LockDeadlockError} At once, if only a `run` around this very call could release it.
   * @throws The signal's reason, if it aborts before the lock is granted.
   * @throws {LockError} As `tryAcquire` does.
   * @throws {TypeError} If `timeout` is not a number.
   * @throws {RangeError} If `timeout` is negative or NaN.
   */
  async acquire(options: AcquireOptions = {}): Promise<this> {
    await acquire(this.#state, options, false);
    return this;
  }

  /**
   * Waits for the lock and blocks this thread: no timer, no promise, no JavaScript signal handler runs meanwhile.
   *
   * @param options How long to wait.
   * @returns This object, holding the lock.
   * @throws {LockTimeoutError} If it was still held when the time was up.
   * @throws {LockDeadlockError} At once, if this thread holds it, through this or another object.
   * @throws {LockError} As `tryAcquire` does.
   * @throws {TypeError} If `timeout` is not a number, or a `signal` is given, which could not abort a wait that blocks.
   * @throws {RangeError} If `timeout` is negative or NaN.
   */
  acquireSync(options: Pick<AcquireOptions, "timeout"> = {}): this {
    acquireSync(this.#state, options, false);
    return this;
  }

  /**
   * Releases the lock. The lock file stays, empty. A child that inherited the descriptor holds the lock from now on.
   *
   * @throws {LockNotHeldError} If this object does not hold it; another holder keeps it.
   * @throws {LockLostError} If it was lost while it was held, so that another may have held it too; once, if that was noticed before.
   */
  release(): void {
    this.#state.release();
  }

  /**
   * Acquires, calls, and releases when the function has returned or thrown, or its promise has settled.
   *
   * The function is given `{ signal }`, which aborts if the lock is lost.
   *
   * Within it, the same task may acquire this object again if it is `reentrant`;
   * otherwise that is a LockDeadlockError. A task that was started within it
   * counts as the same while the function runs.
   *
   * @param fn What to do while the lock is held.
   * @param options How long to wait, and what ends the wait.
   * @returns What the function returns.
   * @throws {LockLostError} If the lock was lost meanwhile; what the function threw is its `cause`.
   * @throws What the function throws, and what `acquire` and `release` throw.
   */
  async run<T>(fn: (held: Held) => T | Promise<T>, options: AcquireOptions = {}): Promise<T> {
    mustBeFunction("run", fn);
    return run(this.#state, fn, await acquire(this.#state, options, true));
  }

  /**
   * Acquires as `acquireSync` does, calls, and releases.
   *
   * @param fn What to do while the lock is held; not asynchronous.
   * @param options How long to wait.
   * @returns What the function returns.
   * @throws {TypeError} If the function returns a promise, whose work would go on without the lock.
   * @throws What the function throws, and what `acquireSync` and `release` throw.
   */
  runSync<T>(fn: () => T, options: Pick<AcquireOptions, "timeout"> = {}): T {
    mustBeFunction("runSync", fn);
    return runSync(this.#state, fn, acquireSync(this.#state, options, true));
  }

  /**
   * Finds the holders of this lock. Never takes it, not even for an instant, and changes nothing.
   *
   * @returns What is known; `complete` is false if a holder may be out of sight.
   * @throws {LockError} If the lock's files cannot be read.
   */
  inspect(): LockStatus {
    return inspectPath(system(), this.path);
  }

  /**
   * Finds the holders of the lock at a path. Never takes it, not even for an instant, and changes nothing.
   *
   * @param path The lock file, or its file URL.
   * @returns What is known; `complete` is false if a holder may be out of sight.
   * @throws {LockError} If the lock's files cannot be read.
   * @throws {TypeError} As the constructor does.
   */
  static inspect(path: string | URL): LockStatus {
    return inspectPath(system(), resolvePath(path, mayAskDirectory, "inspect a lock"));
  }

  /** Releases if held; never throws because it is not, but LockLostError if it was lost and `release` did not say so yet. */
  [Symbol.dispose](): void {
    if (this.held || this.#state.lost) this.release();
  }

  /** The same; it rejects instead. */
  [Symbol.asyncDispose](): Promise<void> {
    return new Promise((resolve) => resolve(this[Symbol.dispose]())); // now; what it throws rejects
  }
}

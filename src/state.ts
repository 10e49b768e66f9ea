/** The state machine behind a Lock: idle, waiting, held; how often; and by which task. */
import { isMainThread } from "node:worker_threads";
import { Choice, type Hold, type Refusal } from "./backend.ts";
import { pidPath } from "./backend/entry.ts";
import { Session } from "./backend/session.ts";
import { begin, end, isUnder, under } from "./context.ts";
import { quote, systemFailure } from "./errors.ts";
import { HELD_HERE, waitInLine, waitSync, wakeLine } from "./line.ts";
import { deadlockError, lostError, notHeldError, reportStale, timeoutError } from "./messages.ts";
import { type AcquireOptions, type Settings, settleWait } from "./options.ts";
import { forget, holdsHere, type Registered, remember } from "./registry.ts";
import { system } from "./sys/mod.ts";
import { SystemError } from "./sys/sys.ts";
import { Wait } from "./wait.ts";

const now = () => performance.now();

/** The shortest pause between two tries where each is a process of its own, in milliseconds. */
const COMMAND_PAUSE = 50;

/** One lock's. */
export class State {
  readonly #path: string;
  readonly #settings: Settings;
  choice: Choice | undefined;
  hold: Hold | undefined;
  #registered: Registered | undefined;
  /** How often the hold was acquired: more than once only if reentrant. */
  #depth = 0;
  /** Whether `run` acquired it: then its task is the owner, else the object is. */
  #scoped = false;
  /** How many calls of `run` are under way on this hold. */
  #runs = 0;

  /** For a path and settings; touches nothing. */
  constructor(path: string, settings: Settings) {
    this.#path = path;
    this.#settings = settings;
  }

  /** One try; undefined when held now. */
  attempt(scoped: boolean, session?: Session): Refusal | undefined {
    if (this.hold) return this.#enterAgain() ? undefined : HELD_HERE;
    this.choice ??= new Choice(system(), this.#settings.backend);
    const attempt = this.choice.attempt({ ...this.#settings, path: this.#path }, session);
    if ("refusal" in attempt) return attempt.refusal;
    const { stale } = attempt.hold;
    this.#scoped = scoped;
    this.#take(attempt.hold);
    try {
      if (stale) reportStale(this.#path, stale, this.#settings.onStale);
    } catch (error) {
      this.release(); // the caller gets an error, so it must not get the lock
      throw error;
    }
    return undefined;
  }

  #take(hold: Hold): void {
    this.hold = hold;
    this.#depth = 1;
    this.#runs = 0;
    begin(hold);
    this.#registered = {
      token: hold.token,
      leave: () => {
        // A Worker's process goes on, and so would the lock.
        if (!isMainThread) this.release();
        // Exit handlers that run after ours may rely on what `held` says.
        else if (hold.leave() === "released") this.hold = undefined;
      },
    };
    remember(this.#registered);
  }

  /** Counts one more, if the caller is the owner and may. */
  #enterAgain(): boolean {
    const { hold } = this;
    if (!hold || !this.#settings.reentrant || (this.#scoped && !isUnder((each) => each === hold))) return false;
    this.#depth++;
    return true;
  }

  /** Waits in line; rejects as `Lock.acquire` does. */
  async acquire(options: AcquireOptions, scoped: boolean): Promise<Hold> {
    const { timeout, signal } = settleWait(options);
    signal?.throwIfAborted(); // before the disk is touched
    if (this.#enterAgain()) return this.#granted();
    // Its own `run` around it would have to end first, and cannot.
    if (this.hold && isUnder((hold) => hold === this.hold)) throw deadlockError(this.#path);
    // It must not queue behind those who wait for its own task: one try now, which finds out whether it may share.
    if (isUnder((_, path) => path === this.#path)) {
      if (!this.#butNotForItself(this.attempt(scoped))) return this.#granted();
    }
    const session = new Session();
    let granted: Hold | undefined;
    try {
      await waitInLine(this.#path, {
        wait: new Wait(timeout, now, this.#shortestPause()),
        signal,
        attempt: () => {
          const refusal = this.#butNotForItself(this.attempt(scoped, session));
          if (!refusal) granted = this.hold;
          return refusal;
        },
        late: (refusal) => timeoutError(this.#path, timeout, refusal),
        watched: () => this.choice?.taken === "pidfile" ? pidPath(this.#path) : this.#path,
      });
    } finally {
      session.close();
    }
    return granted!; // `!`: the line ends without an error only where it was granted
  }

  #butNotForItself(refusal: Refusal | undefined): Refusal | undefined {
    const { token } = refusal ?? {};
    if (token !== undefined && isUnder((hold) => hold.token === token)) throw deadlockError(this.#path);
    return refusal;
  }

  /** Waits and blocks; throws as `Lock.acquireSync` does. */
  acquireSync(options: Pick<AcquireOptions, "timeout">, scoped: boolean): Hold {
    const { timeout } = settleWait(options);
    const session = new Session(true);
    try {
      waitSync(this.#path, {
        wait: new Wait(timeout, now, this.#shortestPause()),
        attempt: () => {
          const refusal = this.attempt(scoped, session);
          if (refusal === HELD_HERE) throw deadlockError(this.#path);
          if (refusal?.token !== undefined && holdsHere(refusal.token)) throw deadlockError(this.#path);
          return refusal;
        },
        late: (refusal) => timeoutError(this.#path, timeout, refusal),
      });
    } finally {
      session.close();
    }
    return this.#granted();
  }

  #granted(): Hold {
    return this.hold!; // `!`: called right where it was granted
  }

  #shortestPause(): number | undefined {
    return system().way === "flock(1)" && this.#settings.backend !== "pidfile" ? COMMAND_PAUSE : undefined;
  }

  /** Gives it up, or counts one less. */
  release(): void {
    const { hold } = this;
    if (!hold) throw notHeldError(this.#path);
    if (this.#depth > 1) {
      this.#depth--;
      return;
    }
    this.hold = undefined; // forgotten before it is closed
    end(hold);
    if (this.#registered) forget(this.#registered);
    try {
      if (hold.release() === "lost") throw lostError(this.#path);
    } catch (error) {
      if (!(error instanceof SystemError)) throw error;
      this.#take(hold); // it is still held, and the caller may try again
      throw systemFailure("release", this.#path, error);
    } finally {
      wakeLine(this.#path);
    }
  }

  /** Calls `fn` under what was granted, and gives that back. */
  async run<T>(fn: () => T | Promise<T>, granted: Hold): Promise<T> {
    // Between the grant and this, others have run; one may have released it.
    if (this.hold !== granted) throw notHeldError(this.#path);
    this.#runs++;
    let result: T;
    try {
      result = await under(granted, this.#path, fn);
    } catch (error) {
      throw this.#leave(granted, error);
    }
    this.#leave(granted);
    return result;
  }

  /** The same for a function that is not asynchronous. */
  runSync<T>(fn: () => T, granted: Hold): T {
    this.#runs++;
    let result: T;
    try {
      result = under(granted, this.#path, fn);
      // The cast: it may be anything, and is only asked for a property.
      if (typeof (result as { then?: unknown } | undefined)?.then === "function") {
        throw new TypeError(`Cannot run an asynchronous function under ${quote(this.#path)} with runSync(): use run()`);
      }
    } catch (error) {
      throw this.#leave(granted, error);
    }
    this.#leave(granted);
    return result;
  }

  /** Gives back what was granted. A failure on top of the function's own has that one as its cause: neither is lost. */
  #leave(granted: Hold, failure?: unknown): unknown {
    try {
      // Not if somebody else holds by now, nor what `fn` has released itself. Runs may end in any order.
      if (this.hold === granted && this.#depth > --this.#runs) this.release();
    } catch (error) {
      if (failure !== undefined && error instanceof Error) error.cause ??= failure;
      throw error;
    }
    return failure;
  }
}

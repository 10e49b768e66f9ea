/** The state machine behind a Lock: idle, held, lost; how often; and by which task. */
import { Choice } from "../backend/choice.ts";
import type { Attempt, Describe, Hold, Refusal, Request } from "../backend/contract.ts";
import { isUnder } from "./context.ts";
import { type LockLostError, systemFailure } from "../record/errors.ts";
import type { LockEventName } from "../events/event.ts";
import { type Detail, emit } from "../events/events.ts";
import { lossWatcher } from "./loss_watcher.ts";
import { forget, remember } from "../backend/registry.ts";
import { lineMoved, wakeLine } from "../wait/line.ts";
import { lostError, notHeldError, reportStale, warnOfNumber } from "../record/messages.ts";
import type { Settings } from "../record/options.ts";
import { warnOfPlace } from "../record/place.ts";
import { isMainThread, system } from "../sys/mod.ts";
import { SystemError } from "../sys/contract.ts";

/** Monotonic time, in milliseconds. */
export const now = (): number => performance.now();

/** How holds were lost that a `run` is still under way on. */
const losses = new WeakMap<Hold, LockLostError>();

/** One lock's. */
export class State {
  readonly path: string;
  readonly settings: Settings;
  /** Finds the holder that is in the way. */
  readonly describe: Describe;
  /** What a back end is asked at each try. */
  readonly request: Request;
  readonly choice: Choice;
  #hold: Hold | undefined;
  /** Since when it is held, by the monotonic clock, in milliseconds. */
  #since = 0;
  #unwatch = (): void => {};
  /** Emits that it is released, once. */
  #part = (): void => {};
  /** How it was lost, until the caller is told or it is acquired again. */
  lost: LockLostError | undefined;
  #controller: AbortController | undefined;
  /** How often the hold was acquired: more than once only if reentrant. */
  #depth = 0;
  /** Whether `run` acquired it: then its task is the owner, else the object is. */
  #scoped = false;
  /** How many calls of `run` are under way on this hold. */
  #runs = 0;
  /** The file of which the place was looked at last: one that is taken again and again is the same. */
  #placed: string | undefined;

  /** For a path and settings; touches nothing. */
  constructor(path: string, settings: Settings, describe: Describe) {
    this.path = path;
    this.settings = settings;
    this.describe = describe;
    this.request = { ...settings, path };
    this.choice = new Choice(system, settings);
  }

  /** What is held. */
  get hold(): Hold | undefined {
    return this.#hold;
  }

  /** Aborts when the hold is lost. One serves until it has aborted; the hold after that has another. */
  get signal(): AbortSignal {
    return (this.#controller ??= new AbortController()).signal;
  }

  /** Whether it is held, asked now. One that is not is given up, and its loss is told. */
  verify(): boolean {
    const hold = this.#hold, since = this.#since;
    if (!hold) return false;
    const reason = hold.verify();
    if (reason === undefined) return true;
    this.#forget(hold);
    this.#lose(hold, since, reason);
    wakeLine(this.path);
    return false;
  }

  /**
   * Takes what a try has come to: undefined when it is held now. `scoped`: by a `run`. `began`: when the caller began
   * to wait, if it did.
   */
  take(attempt: Attempt, scoped: boolean, began?: number): Refusal | undefined {
    if ("refusal" in attempt) return attempt.refusal;
    const { hold } = attempt;
    const { stale, named } = hold;
    this.#scoped = scoped;
    this.#begin(hold, now());
    if (stale) this.emit("stale", { holder: () => stale });
    this.emit("acquired", { waited: began === undefined ? 0 : now() - began });
    try {
      if (this.settings.fileSystem === "warn" && this.choice.taken === "flock" && this.#placed !== hold.token) {
        this.#placed = hold.token;
        warnOfPlace(system(), this.path, hold.token);
      }
      if (stale) reportStale(this.path, stale, this.settings.onStale);
      else if (named && !this.settings.onStale) warnOfNumber(this.path, named);
    } catch (error) {
      if (this.#hold === hold) this.release(); // the caller gets an error, so it must not get the lock
      throw error;
    }
    return undefined;
  }

  /** It is held from now on, or again. */
  #begin(hold: Hold, since: number): void {
    this.#hold = hold;
    this.#since = since;
    this.#depth = 1;
    this.#runs = 0;
    this.lost = undefined;
    if (this.#controller?.signal.aborted) this.#controller = undefined;
    let parted = false;
    const part = this.#part = () => {
      if (!parted) this.emit("released", { held: now() - since });
      parted = true; // left at an exit, and released by a handler of it after that
    };
    remember(hold, () => {
      if (!isMainThread()) { // a Worker: its process goes on, and so would the lock, however often it was acquired
        this.#depth = 1;
        return this.release();
      }
      part();
      if (hold.onExit() === "released") this.#forget(hold); // exit handlers that run after ours may rely on `held`
    });
    this.#unwatch = lossWatcher.watch(hold, () => void this.verify());
    lineMoved(this.path);
  }

  /** It is no longer held: forgotten before it is closed. */
  #forget(hold: Hold): void {
    this.#hold = undefined;
    forget(hold);
    this.#unwatch();
  }

  /** It is no longer held, without a release. A listener that is told may acquire it again at once. */
  #lose(hold: Hold, since: number, reason: string): LockLostError {
    const error = lostError(this.path, reason);
    losses.set(hold, error);
    this.lost = error; // for a listener that releases too
    const controller = this.#controller ??= new AbortController();
    controller.abort(error);
    this.emit("lost", { held: now() - since, reason });
    return error;
  }

  /** Emits an event of this lock. */
  emit(event: LockEventName, detail: Detail): void {
    const { label, mode } = this.settings;
    emit(event, { path: this.path, label, mode, backend: this.choice.taken }, detail, this.settings);
  }

  /** Whether it is held, and any call may acquire it once more: it is reentrant, and no `run` owns it. */
  get mayEnter(): boolean {
    return this.hold !== undefined && this.settings.reentrant && !this.#scoped;
  }

  /** Counts one more, if the caller is the owner and may. */
  enterAgain(): boolean {
    const { hold } = this;
    if (!hold || !this.settings.reentrant || (this.#scoped && !isUnder((each) => each === hold))) return false;
    this.#depth++;
    return true;
  }

  /** Gives it up, or counts one less. */
  release(): void {
    const hold = this.#hold, since = this.#since;
    if (!hold) throw this.#notHeld();
    if (this.#depth > 1) {
      this.#depth--;
      return;
    }
    this.#forget(hold);
    let reason: string | undefined;
    try {
      reason = hold.release(this.#part);
    } catch (error) {
      if (!(error instanceof SystemError)) throw error;
      this.#begin(hold, since); // it is still held, and the caller may try again
      throw systemFailure("release", this.path, error);
    } finally {
      wakeLine(this.path);
    }
    if (reason === undefined) return;
    const error = this.#lose(hold, since, reason);
    if (this.lost === error) this.lost = undefined; // told now
    throw error;
  }

  /** The error for a release of what is not held: if it was lost, that is reported, once. */
  #notHeld(): Error {
    const error = this.lost ?? notHeldError(this.path);
    this.lost = undefined;
    return error;
  }

  /** A `run` begins on what was granted. */
  enter(granted: Hold): void {
    // Between the grant and this, others have run; one may have released it.
    if (this.hold !== granted) throw losses.get(granted) ?? notHeldError(this.path);
    this.#runs++;
  }

  /** Gives back what was granted. A second failure has the function's own as its cause: neither is lost. */
  leave(granted: Hold, failure?: unknown): unknown {
    try {
      // Not if another task holds it by now, nor what `fn` has released itself. Runs may end in any order.
      if (this.hold === granted && this.#depth > --this.#runs) this.release();
      const lost = losses.get(granted);
      if (lost && this.lost === lost) this.lost = undefined; // told now
      if (!lost || failure === lost) return failure;
      throw lost;
    } catch (error) {
      // Not where it is the failure's own cause: the two would form a circle.
      const isCause = error === failure || (failure instanceof Error && failure.cause === error);
      if (failure !== undefined && error instanceof Error && !isCause) error.cause ??= failure;
      throw error;
    }
  }
}

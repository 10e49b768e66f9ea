/**
 * How long a waiter waits: deadline, back-off, abort. Pure; its clock is handed
 * in, and so is what wakes it.
 *
 * A release clears the record, and the kernel reports that to each watcher of the
 * file, in 1 to 5 ms. A poll that is a part of the time waited so far is as prompt as
 * that for the first second, and costs little: 1 ms apart at first, 30 ms in the
 * end, which is for holders that died, of which no file system tells.
 */

/** Monotonic time in milliseconds, such as `performance.now`. */
export type Clock = () => number;

/** The longest that `setTimeout` takes; beyond it fires at once. */
const TIMER_LIMIT = 2 ** 31 - 1;

/** The shortest and the longest pause between two tries, in milliseconds. */
const SHORTEST = 1, LONGEST = 30;

/** A pause is this part of the time waited so far: no try comes late by more. */
const PART = 1 / 150;

/** How long after a wake-up the lock is about to be free or is fought for, in milliseconds. */
const LIVELY = 10;

/** One wait. */
export class Wait {
  readonly #clock: Clock;
  readonly #began: number;
  readonly #deadline: number;
  readonly #shortest: number;
  #woken = -Infinity;

  /**
   * Begins now. `timeout` in milliseconds, `Infinity` for ever. `shortest`: the
   * shortest pause, where a try costs much (flock(1) is a process).
   */
  constructor(timeout: number, clock: Clock, shortest: number = SHORTEST) {
    this.#clock = clock;
    this.#began = clock();
    this.#deadline = this.#began + timeout;
    this.#shortest = shortest;
  }

  /** Whether the time is up: after a try that failed, the wait is over. */
  get over(): boolean {
    return this.#clock() >= this.#deadline;
  }

  /** Milliseconds that are left; never more than a timer takes. */
  get left(): number {
    return Math.min(Math.max(this.#deadline - this.#clock(), 0), TIMER_LIMIT);
  }

  /** Something happened to the lock: the next tries come quickly. */
  wake(): void {
    this.#woken = this.#clock();
  }

  /** Milliseconds until the next try, and never past the deadline. */
  next(): number {
    const now = this.#clock();
    const quiet = now - this.#woken > LIVELY;
    const pause = quiet ? Math.min((now - this.#began) * PART, LONGEST) : 0;
    return Math.min(Math.max(pause, this.#shortest), this.left);
  }
}

/** What to call when a signal aborts. One listener a signal: a program may wait in many places with one. */
const aborts = new WeakMap<AbortSignal, { readonly calls: Set<() => void>; readonly listener: () => void }>();

function onAbort(signal: AbortSignal, call: () => void): () => void {
  let entry = aborts.get(signal);
  if (!entry) {
    const calls = new Set<() => void>();
    entry = { calls, listener: () => [...calls].forEach((each) => each()) };
    aborts.set(signal, entry);
    signal.addEventListener("abort", entry.listener);
  }
  const { calls, listener } = entry;
  calls.add(call);
  return () => {
    calls.delete(call);
    if (calls.size > 0) return;
    signal.removeEventListener("abort", listener);
    aborts.delete(signal);
  };
}

/** A pause that a wake-up or an abort ends. `wake` works as soon as the promise is there. */
export function pause(milliseconds: number, signal?: AbortSignal): { done: Promise<void>; wake: () => void } {
  let wake = () => {};
  const done = new Promise<void>((resolve) => {
    const timer = setTimeout(end, Math.min(milliseconds, TIMER_LIMIT));
    const off = signal && onAbort(signal, end);
    function end() {
      clearTimeout(timer);
      off?.();
      resolve();
    }
    wake = end;
  });
  return { done, wake };
}

/** How long a waiter waits: deadline and back-off. Pure; its clock is handed in. */

/** Monotonic time in milliseconds, such as `performance.now`. */
export type Clock = () => number;

/** The longest that `setTimeout` takes; beyond it fires at once. */
const TIMER_LIMIT = 2 ** 31 - 1;

/** The longest pause between two tries, in milliseconds. */
const LONGEST_PAUSE = 25;

/** One wait. */
export class Wait {
  readonly #clock: Clock;
  readonly #deadline: number;
  #pause = 0.5;

  /** Begins now; `timeout` in milliseconds, `Infinity` for ever. */
  constructor(timeout: number, clock: Clock) {
    this.#clock = clock;
    this.#deadline = clock() + timeout;
  }

  /** Whether the time is up: after a try that failed, the wait is over. */
  get over(): boolean {
    return this.#clock() >= this.#deadline;
  }

  /** Milliseconds that are left; never more than a timer takes. */
  get left(): number {
    return Math.min(Math.max(this.#deadline - this.#clock(), 0), TIMER_LIMIT);
  }

  /** Milliseconds until the next try: twice the last, and never past the deadline. */
  next(): number {
    this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE);
    return Math.min(this.#pause, this.left);
  }
}

/** Blocks this thread. Not a spin: the kernel wakes it. */
export function block(milliseconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
}

/** A pause that a wake-up or an abort ends; `wake` is there as soon as the promise is. */
export function pause(milliseconds: number, signal?: AbortSignal): { done: Promise<void>; wake: () => void } {
  let wake = () => {};
  const done = new Promise<void>((resolve) => {
    const timer = setTimeout(end, Math.min(milliseconds, TIMER_LIMIT));
    function end() {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    }
    signal?.addEventListener("abort", end);
    wake = end;
  });
  return { done, wake };
}

/** The waiters of one Lock object: first come, first served. */
import type { Refusal } from "./backend.ts";
import { holdsHere } from "./registry.ts";
import { block, pause, type Wait } from "./wait.ts";

/** Refused by this object itself, or by the order of its waiters: no disk was asked. */
export const HELD_HERE: Refusal = {
  token: undefined,
  reason: "this very Lock object holds it, or serves an earlier acquire() first",
  holder: () => undefined,
};

/** A line of waiters. */
export class Line {
  readonly #places: { wake: () => void }[] = [];

  /**
   * Tries until granted, and then returns. `attempt` is called for the first in
   * line only; `late` makes the error for when the time is up.
   */
  async wait(
    wait: Wait,
    signal: AbortSignal | undefined,
    attempt: () => Refusal | undefined,
    late: (refusal: Refusal) => Error,
  ): Promise<void> {
    const place = { wake: () => {} };
    this.#places.push(place);
    try {
      for (;;) {
        const refusal = this.#places[0] === place ? attempt() : HELD_HERE;
        if (!refusal) return;
        if (wait.over) throw late(refusal);
        // Behind another waiter, or behind this object's own hold, only a wake-up helps.
        const { done, wake } = pause(refusal === HELD_HERE ? wait.left : wait.next(), signal);
        place.wake = wake;
        await done;
        signal?.throwIfAborted();
      }
    } finally {
      this.#places.splice(this.#places.indexOf(place), 1);
      this.wake();
    }
  }

  /** The first in line tries now. */
  wake(): void {
    this.#places[0]?.wake();
  }
}

/**
 * The same for a caller that blocks its thread. `deadlock`: the wait could never
 * end, because this thread itself holds the lock.
 */
export function waitSync(
  wait: Wait,
  attempt: () => Refusal | undefined,
  fail: (refusal: Refusal, deadlock: boolean) => Error,
): void {
  for (;;) {
    const refusal = attempt();
    if (!refusal) return;
    const { token } = refusal;
    if (refusal === HELD_HERE || (token !== undefined && holdsHere(token))) throw fail(refusal, true);
    if (wait.over) throw fail(refusal, false);
    block(wait.next());
  }
}

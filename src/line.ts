/** The waiters of one thread for one path: first come, first served, and only the first asks the disk. */
import type { Refusal } from "./backend.ts";
import { block, pause, type Wait } from "./wait.ts";
import { watchFile } from "./watch.ts";

/** Refused by this object itself, or by the order of the waiters: no disk was asked. */
export const HELD_HERE: Refusal = {
  token: undefined,
  reason: "this very Lock object holds it, or serves an earlier acquire() first",
  holder: () => undefined,
};

/** One who waits. */
export interface Waiter {
  readonly wait: Wait;
  readonly signal: AbortSignal | undefined;
  /** One try; undefined when granted. */
  attempt(): Refusal | undefined;
  /** The error for when the time is up. */
  late(refusal: Refusal): Error;
  /** The file whose change may mean that it is free. */
  watched(): string;
}

/** After so many milliseconds a wait is worth a watcher. */
const WATCH_AFTER = 5;

const lines = new Map<string, Line>();

/** A line of waiters. */
class Line {
  readonly #places: { wake: () => void; wait: Wait }[] = [];

  get empty(): boolean {
    return this.#places.length === 0;
  }

  async wait({ wait, signal, attempt, late, watched }: Waiter): Promise<void> {
    const place = { wake: () => {}, wait };
    this.#places.push(place);
    let watcher: ReturnType<typeof watchFile>;
    try {
      for (let tries = 0;; tries++) {
        const first = this.#places[0] === place;
        const refusal = first ? attempt() : HELD_HERE;
        if (!refusal) return;
        if (wait.over) throw late(refusal);
        // Behind another waiter, or behind this object's own hold, only a wake-up helps.
        const asleep = refusal === HELD_HERE;
        if (!asleep && tries === WATCH_AFTER) watcher = watchFile(watched(), () => this.wake());
        const { done, wake } = pause(asleep ? wait.left : wait.next(), signal);
        place.wake = wake;
        await done;
        signal?.throwIfAborted();
      }
    } finally {
      watcher?.close();
      this.#places.splice(this.#places.indexOf(place), 1);
      this.wake();
    }
  }

  /** The first in line tries now. */
  wake(): void {
    this.#places[0]?.wait.wake();
    this.#places[0]?.wake();
  }
}

/** Waits in the line for a path until granted. */
export async function waitInLine(path: string, waiter: Waiter): Promise<void> {
  const line = lines.get(path) ?? new Line();
  lines.set(path, line);
  try {
    await line.wait(waiter);
  } finally {
    if (line.empty) lines.delete(path);
  }
}

/** Something was released: whoever is first in line for the path tries now. */
export function wakeLine(path: string): void {
  lines.get(path)?.wake();
}

/** The same for a caller that blocks its thread. */
export function waitSync({ wait, attempt, late }: Pick<Waiter, "wait" | "attempt" | "late">): void {
  for (;;) {
    const refusal = attempt();
    if (!refusal) return;
    if (wait.over) throw late(refusal);
    block(wait.next());
  }
}

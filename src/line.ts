/** The waiters of one thread for one path: first come, first served, and only the first asks the disk. */
import type { Refusal } from "./backend.ts";
import { block, pause, type Wait } from "./wait.ts";
import { watchFile } from "./watch.ts";

/** Refused by this object itself, or by the order of the waiters: no disk was asked. */
export const HELD_HERE: Refusal = {
  token: undefined,
  who: () => ({ here: true }),
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

/**
 * Whoever has just released a lock that others wait for is a hundred times
 * quicker to take it again than they are to notice. So it lets them go first: no
 * acquisition for so many milliseconds, which is two of their polls.
 */
const COURTESY = 2;

const lines = new Map<string, Line>();

/** The paths that this thread last got after a wait, and when it gave them up. */
const fought = new Map<string, number>();

/** How long to let others go first, in milliseconds. */
function courtesy(path: string): number {
  const released = fought.get(path);
  return released === undefined ? 0 : Math.max(released + COURTESY - performance.now(), 0);
}

/** Remembers whether there was a fight for a path, if not for ever. */
function remember(path: string, contended: boolean): void {
  if (fought.size > 1000) fought.clear();
  if (contended) fought.set(path, -Infinity);
  else fought.delete(path);
}

/** A line of waiters. */
class Line {
  readonly #places: { wake: () => void; wait: Wait }[] = [];
  /** What the first in line was refused by last. */
  #last = HELD_HERE;

  get empty(): boolean {
    return this.#places.length === 0;
  }

  /** Returns whether another process was in the way. */
  async wait({ wait, signal, attempt, late, watched }: Waiter, polite: number): Promise<boolean> {
    const place = { wake: () => {}, wait };
    this.#places.push(place);
    let watcher: ReturnType<typeof watchFile>;
    try {
      if (polite > 0) await pause(Math.min(polite, wait.left), signal).done;
      signal?.throwIfAborted();
      for (let tries = 0;; tries++) {
        const first = this.#places[0] === place;
        const refusal = first ? attempt() : HELD_HERE;
        if (!refusal) return tries > 0;
        if (first) this.#last = refusal;
        if (wait.over) throw late(this.#last);
        // Behind another waiter, or behind this object's own hold, only a wake-up helps.
        const asleep = refusal === HELD_HERE;
        if (!asleep && !watcher && tries >= WATCH_AFTER) watcher = watchFile(watched(), () => this.wake());
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
    remember(path, await line.wait(waiter, courtesy(path)));
  } finally {
    if (line.empty && lines.get(path) === line) lines.delete(path);
  }
}

/** Released: whoever is first in line for the path tries now. */
export function wakeLine(path: string): void {
  if (fought.has(path)) fought.set(path, performance.now());
  lines.get(path)?.wake();
}

/** The same for a caller that blocks its thread. */
export function waitSync(path: string, { wait, attempt, late }: Pick<Waiter, "wait" | "attempt" | "late">): void {
  const polite = Math.min(courtesy(path), wait.left);
  if (polite > 0) block(polite);
  for (let tries = 0;; tries++) {
    const refusal = attempt();
    if (!refusal) return remember(path, tries > 0);
    if (wait.over) throw late(refusal);
    block(wait.next());
  }
}

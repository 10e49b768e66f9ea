/**
 * The waiters of one thread for one path: first come, first served, and only the
 * first one asks the disk.
 *
 * Only a holder may keep a waiter out. So a waiter whose own object holds the
 * lock stands aside, and a reader does not wait for a writer that waits: a task
 * that holds the lock shared and takes it shared once more would wait for that
 * writer, and the writer for the task. Readers that overlap for ever starve a
 * writer, as with flock(2).
 */
import type { Refusal } from "../backend/contract.ts";
import type { LockMode } from "../record/options.ts";
import { block } from "../sys/block.ts";
import { perThread } from "../sys/thread.ts";
import { pause, type Wait } from "./wait.ts";
import { watchFile } from "./watch.ts";

/** Refused by the very object that asks: it holds the lock, and no disk was asked. */
export const HELD_HERE: Refusal = {
  token: undefined,
  here: true,
};

/** One waiter. */
export interface Waiter {
  readonly mode: LockMode;
  readonly wait: Wait;
  readonly signal: AbortSignal | undefined;
  /** Whether its own object holds the lock, so that only a release helps. */
  heldByItself(): boolean;
  /** Whether its object holds the lock, and may be acquired once more from outside: it is reentrant. */
  mayEnter(): boolean;
  /** Whether each of its tries asks the holder to end, and is told if that cannot be: it tries wherever it stands. */
  readonly asks: boolean;
  /** One try; undefined when granted. `waited`: not at once. */
  attempt(waited: boolean): Refusal | undefined;
  /** The error for when the time is up. */
  late(refusal: Refusal): Error;
  /** The file whose change may mean that it is free. */
  watched(): string;
}

/** A waiter watches the file after this many tries. */
const WATCH_AFTER = 5;

/**
 * How long a waiter that has just released a lock lets others go first, in
 * milliseconds: two of their polls. It is a hundred times quicker to take the
 * lock again than they are to notice.
 */
const YIELD = 2;

/** The paths that this thread last got after a wait, and when it released them. */
const contended = () => perThread("contended", () => new Map<string, number>());

/** The lines of this thread, by path: waiters of two copies of the library stand in one line. */
const lines = () => perThread("lines", () => new Map<string, Line>());

/** How long to let others go first, in milliseconds. */
function yieldAfterContention(path: string): number {
  const released = contended().get(path);
  return released === undefined ? 0 : Math.max(released + YIELD - performance.now(), 0);
}

/** Remembers whether other processes wanted a path too, for a while. */
function remember(path: string, wasContended: boolean): void {
  const paths = contended();
  if (paths.size > 1000) paths.clear();
  if (wasContended) paths.set(path, -Infinity);
  else paths.delete(path);
}

interface Place {
  readonly waiter: Waiter;
  wake(): void;
}

/** A line of waiters. */
class Line {
  readonly #places: Place[] = [];

  get empty(): boolean {
    return this.#places.length === 0;
  }

  /** The waiters whose try can be granted: the first one, the first reader, and each whose reentrant object holds the lock. */
  #front(): Place[] {
    const front: Place[] = [];
    let first = false, reader = false;
    for (const place of this.#places) {
      const { waiter } = place;
      if (waiter.heldByItself()) continue;
      const isReader = waiter.mode === "shared";
      if (!first || (isReader && !reader) || waiter.mayEnter()) front.push(place);
      first = true;
      reader ||= isReader;
    }
    return front;
  }

  /** Returns whether another holder was in the way. */
  async wait(waiter: Waiter, yields: number): Promise<boolean> {
    const { wait, signal } = waiter;
    const place: Place = { waiter, wake() {} };
    this.#places.push(place);
    let watcher: ReturnType<typeof watchFile>;
    try {
      if (yields > 0) await pause(Math.min(yields, wait.left), signal).done;
      signal?.throwIfAborted();
      for (let tries = 0;; tries++) {
        const isLast = wait.over;
        const isFront = () => waiter.asks || this.#front().includes(place);
        // The last try is a real one: with a time-out of 0 it is the only one. Of its own object it is told at once.
        if (isLast || isFront() || (tries === 0 && waiter.heldByItself())) {
          const refusal = waiter.attempt(tries > 0);
          if (!refusal) return tries > 0;
          if (isLast) throw waiter.late(refusal);
        }
        const polls = isFront(); // now: a listener of the try may have released its object
        if (polls && !watcher && tries >= WATCH_AFTER) watcher = watchFile(waiter.watched(), () => this.wake());
        // One that does not poll is woken when it gets to the front.
        const { done, wake } = pause(polls ? wait.next() : wait.left, signal);
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

  /** The waiters at the front try now. */
  wake(): void {
    for (const { waiter, wake } of this.#front()) {
      waiter.wait.wake();
      wake();
    }
  }
}

/** Waits in the line for a path until granted. */
export async function waitInLine(path: string, waiter: Waiter): Promise<void> {
  const line = lines().get(path) ?? new Line();
  lines().set(path, line);
  try {
    remember(path, await line.wait(waiter, yieldAfterContention(path)));
  } finally {
    if (line.empty && lines().get(path) === line) lines().delete(path);
  }
}

/** One of this thread's objects has got the lock of a path: another waiter may stand at the front now. */
export function lineMoved(path: string): void {
  lines().get(path)?.wake();
}

/** One of this thread's objects has released the lock of a path. */
export function wakeLine(path: string): void {
  if (contended().has(path)) contended().set(path, performance.now());
  lineMoved(path);
}

/** The same for a caller that blocks its thread. */
export function waitSync(path: string, { wait, attempt, late }: Pick<Waiter, "wait" | "attempt" | "late">): void {
  const yields = Math.min(yieldAfterContention(path), wait.left);
  if (yields > 0) block(yields);
  for (let tries = 0;; tries++) {
    const refusal = attempt(tries > 0);
    if (!refusal) return remember(path, tries > 0);
    if (wait.over) throw late(refusal);
    block(wait.next());
  }
}

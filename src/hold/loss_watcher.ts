/**
 * Notices that a held lock was lost: its file is watched, and checked every
 * five seconds, for where no event tells (a directory that was renamed, a network file
 * system). One timer for all; it keeps no process alive.
 */
import { timers } from "../sys/builtin.ts"; // older Deno's own cannot be unref'd
import { watchFile } from "../wait/watch.ts";

/** Time between two checks of a hold, in milliseconds. */
const PERIOD = 5_000;

/** Age from which a hold is watched, in milliseconds: a shorter one is not worth a watcher. */
const YOUNG = 100;

/**
 * Maximum number of events without a loss. After that the watcher rests until
 * the next round: some runtimes report every process that opens and closes the file.
 */
const NOISE = 20;

/** Maximum number of watchers: a system has a few hundred for all programs (inotify(7)). Other holds are checked by the timer. */
const WATCHERS = 64;

/** Asks about a hold and does what has to be done; whether its file was made again. */
type Check = () => boolean;

interface Guarded {
  readonly path: string;
  readonly since: number;
  readonly check: Check;
  watcher?: { close(): void } | undefined;
  noise: number;
}

/** All holds of this thread that are guarded: one timer checks them all. */
const guarded = new Set<Guarded>();
/** Number of open watchers: their limit is one for the thread, not one for each hold. */
let watchers = 0;
/** The thread's one timer, while it is set. */
let timer: NodeJS.Timeout | undefined;
/** When the timer fires, by the monotonic clock, in milliseconds. */
let due = Infinity;

/** Guards a hold until the returned function is called. `path` is the file that must stay. */
export function guard(path: string, check: Check): () => void {
  const entry: Guarded = { path, since: performance.now(), check, noise: 0 };
  guarded.add(entry);
  arm(YOUNG);
  return () => {
    guarded.delete(entry);
    unwatch(entry);
    // One that is about to fire anyway costs less than to be set and cleared at every acquisition.
    if (guarded.size === 0 && due > performance.now() + YOUNG) disarm();
  };
}

function arm(milliseconds: number): void {
  const now = performance.now();
  if (timer && due <= now + milliseconds) return;
  disarm();
  due = now + milliseconds;
  timer = timers().setTimeout(round, milliseconds);
  timer.unref();
}

function disarm(): void {
  timers().clearTimeout(timer);
  timer = undefined;
  due = Infinity;
}

function round(): void {
  timer = undefined;
  const now = performance.now();
  let young = false;
  for (const entry of [...guarded]) {
    // A listener of one that was lost may have released another.
    if (!guarded.has(entry)) continue;
    if (now - entry.since < YOUNG) {
      young = true;
      continue;
    }
    if (entry.check()) unwatch(entry);
    entry.noise = 0;
    if (guarded.has(entry) && !entry.watcher) observe(entry);
  }
  if (guarded.size > 0) arm(young ? YOUNG : PERIOD);
}

function observe(entry: Guarded): void {
  if (watchers >= WATCHERS) return;
  entry.watcher = watchFile(entry.path, () => {
    if (!guarded.has(entry)) return;
    const madeAgain = entry.check();
    if (!madeAgain && ++entry.noise < NOISE) return;
    unwatch(entry);
    if (madeAgain && guarded.has(entry)) observe(entry); // the one that was watched is gone
  });
  if (!entry.watcher) return;
  watchers++;
  // It may have been deleted between the last check and the watch.
  if (entry.check()) unwatch(entry); // the next round watches the one that was made again
}

function unwatch(entry: Guarded): void {
  if (!entry.watcher) return;
  watchers--;
  entry.watcher.close();
  entry.watcher = undefined;
}

/**
 * Notices that a held lock was lost: its file is watched, and checked every
 * five seconds, for where no event tells (a directory that was renamed, a network file
 * system). One timer for all; it keeps no process alive.
 */
import type { Hold } from "../backend/contract.ts";
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

/** Asks whether a hold is still held and does what has to be done. */
type Check = () => void;

interface Watched {
  readonly hold: Hold;
  readonly since: number;
  readonly check: Check;
  watcher?: { close(): void } | undefined;
  noise: number;
}

/** Checks, and returns whether the file was made again: what was watched is gone then. */
function wasMadeAgain({ hold, check }: Watched): boolean {
  const before = hold.token;
  check();
  return hold.token !== before;
}

class LossWatcher {
  readonly #all = new Set<Watched>();
  #watchers = 0;
  #timer: NodeJS.Timeout | undefined;
  #due = Infinity;

  /** Watches over a hold until the returned function is called. */
  watch(hold: Hold, check: Check): () => void {
    const entry: Watched = { hold, since: performance.now(), check, noise: 0 };
    this.#all.add(entry);
    this.#arm(YOUNG);
    return () => {
      this.#all.delete(entry);
      this.#unwatch(entry);
      // A timer that is about to fire anyway costs less than to be set and cleared at every acquisition.
      if (this.#all.size === 0 && this.#due > performance.now() + YOUNG) this.#disarm();
    };
  }

  /** Whether it watches over a hold that goes by that token. */
  watches(token: string): boolean {
    return [...this.#all].some(({ hold }) => hold.token === token);
  }

  #arm(milliseconds: number): void {
    const now = performance.now();
    if (this.#timer && this.#due <= now + milliseconds) return;
    this.#disarm();
    this.#due = now + milliseconds;
    this.#timer = timers().setTimeout(() => this.#round(), milliseconds);
    this.#timer.unref();
  }

  #disarm(): void {
    timers().clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#due = Infinity;
  }

  #round(): void {
    this.#timer = undefined;
    const now = performance.now();
    let young = false;
    for (const entry of [...this.#all]) {
      // A listener of one that was lost may have released another.
      if (!this.#all.has(entry)) continue;
      if (now - entry.since < YOUNG) {
        young = true;
        continue;
      }
      if (wasMadeAgain(entry)) this.#unwatch(entry);
      entry.noise = 0;
      if (this.#all.has(entry) && !entry.watcher) this.#observe(entry);
    }
    if (this.#all.size > 0) this.#arm(young ? YOUNG : PERIOD);
  }

  #observe(entry: Watched): void {
    if (this.#watchers >= WATCHERS) return;
    entry.watcher = watchFile(entry.hold.watched, () => {
      if (!this.#all.has(entry)) return;
      const madeAgain = wasMadeAgain(entry);
      if (!madeAgain && ++entry.noise < NOISE) return;
      this.#unwatch(entry);
      if (madeAgain && this.#all.has(entry)) this.#observe(entry); // the one that was watched is gone
    });
    if (!entry.watcher) return;
    this.#watchers++;
    // It may have been deleted between the last check and the watch.
    if (wasMadeAgain(entry)) this.#unwatch(entry); // the next round watches the one that was made again
  }

  #unwatch(entry: Watched): void {
    if (!entry.watcher) return;
    this.#watchers--;
    entry.watcher.close();
    entry.watcher = undefined;
  }
}

/** What this copy of the library holds: under `bun --hot` an earlier load of the program has another. One timer for all. */
export const lossWatcher = new LossWatcher();

/** Whether this copy holds what goes by that token. */
export const isHeldByThisCopy = (token: string): boolean => lossWatcher.watches(token);

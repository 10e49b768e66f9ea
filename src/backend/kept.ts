/**
 * The lock file that a waiter keeps open between two tries: a try is then one
 * system call, and makes no event that would wake other waiters.
 */
import { isOurs } from "./descriptor.ts";
import type { Opened } from "./open.ts";

/** How often a waiter looks whether another file stands at the path, in milliseconds. */
const LOOK_PAUSE = 50;

/** One waiter's. */
export class KeptFile {
  #opened: Opened | undefined;
  #looked = -Infinity;
  #sawAnother = false;

  /** The file that the last try kept, unless other code has closed its descriptor since; it is the caller's now. */
  take(): Opened | undefined {
    const opened = this.#opened && isOurs(this.#opened) ? this.#opened : undefined;
    this.#opened = undefined;
    return opened;
  }

  /** Keeps it for the next try. */
  keep(opened: Opened): void {
    this.#opened = opened;
  }

  /**
   * Whether the waiter has to go to another file, which stands at the path by
   * now: `there()` names it. A file that is merely gone is still held, and
   * its holder is about to make it again. Nor at the first look at another,
   * which the holder may have made and not locked yet.
   */
  isReplaced({ token }: Opened, there: () => string | undefined): boolean {
    const now = performance.now();
    if (now - this.#looked < LOOK_PAUSE) return false;
    this.#looked = now;
    const another = (there() ?? token) !== token;
    const isReplaced = another && this.#sawAnother;
    this.#sawAnother = another && !isReplaced; // of the next one it is the first look again
    return isReplaced;
  }

  /** The wait is over. */
  close(): void {
    this.take()?.file.close();
  }
}

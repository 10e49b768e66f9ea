/**
 * What a waiter, or a Lock that tries again, keeps between two tries: the open file, so that a try is one
 * system call and makes no event that would wake other waiters; and a writer's
 * turn.
 *
 * flock(2) lets readers overlap for ever, and a writer starve. So a writer that
 * waits holds `P.turn`, and a reader that finds it held is refused for now.
 * `P.turn` is made by the first reader: a lock that is never shared has none.
 * It is fairness and no safety: whoever cannot open it goes without.
 */
import { timers } from "../builtin.ts";
import { isThere } from "../explain.ts";
import { isMainThread } from "../sys/mod.ts";
import { holdsHere } from "../registry.ts";
import type { Refusal } from "../backend.ts";
import { type Access, type OpenFile, type System, SystemError } from "../sys/sys.ts";
import { isOurs } from "./descriptor.ts";
import { takeLock } from "./open.ts";

/** A lock file, open. */
export interface Opened {
  readonly file: OpenFile;
  readonly writable: boolean;
  /** Which file it is. */
  readonly token: string;
}

/** Which turns are held in this thread. */
const turnsHere = new Set<string>();

/** So long, in milliseconds, a reader of a thread that holds it shared waits for a writer: that one may wait for it. */
const PATIENCE = 1_000;

const turnPath = (path: string) => `${path}.turn`;

/** A waiter looks so often, in milliseconds, whether its file was replaced, or there are readers to be kept out. */
const LOOK_PAUSE = 50;

/** A refused try keeps the file for one that follows within so many milliseconds. */
const SPARE = 1_000;

/** So many such files a thread keeps at most: each is a descriptor. */
const SPARES = 16;

/** Sessions of tries whose files are kept. */
const spares = new Set<Session>();
/** When they are closed next, by `performance.now`; past: not at all, until one is kept. */
let sweepAt = -Infinity;

function closeSpares(): void {
  sweepAt = -Infinity;
  for (const each of spares) each.close();
  spares.clear();
}

/** One waiter's; or one lock's, for its tries that do not wait. */
export class Session {
  readonly #for: "waiter" | "blocking waiter" | "tries";
  #since: number | undefined;
  #opened: Opened | undefined;
  #turn: { readonly file: OpenFile; readonly path: string } | undefined;
  #looked = -Infinity;
  #reuses = false;
  #sawAnother = false;

  constructor(who: "waiter" | "blocking waiter" | "tries") {
    this.#for = who;
  }

  /** The file that the last try kept, unless other code has closed its descriptor since; it is the caller's now. */
  take(): Opened | undefined {
    const opened = this.#opened && isOurs(this.#opened) ? this.#opened : undefined;
    this.#opened = undefined;
    this.#reuses = opened !== undefined;
    return opened;
  }

  /** Whether the try under way is on a file that an earlier one kept. */
  get reuses(): boolean {
    return this.#reuses;
  }

  /** Keeps it for the next try, if that is worth it. */
  keep(opened: Opened): boolean {
    // One that the runtime counts as its own would be a leak to Deno's test sanitizers. A Worker's would be one
    // until the process ends: its timers end with it, and no runtime closes what libc opened.
    if (this.#for === "tries" && (opened.file.fd === undefined || !isMainThread())) return false;
    this.#opened = opened;
    if (this.#for === "tries") this.#keepForAWhile();
    return true;
  }

  /** Nobody says when the last of them was. */
  #keepForAWhile(): void {
    spares.delete(this);
    spares.add(this);
    if (spares.size > SPARES) {
      const [oldest] = spares;
      spares.delete(oldest);
      oldest.close();
    }
    const now = performance.now();
    if (now < sweepAt) return;
    sweepAt = now + SPARE; // by a clock: a test's mocked timers may never fire
    timers().setTimeout(closeSpares, SPARE).unref();
  }

  /** Whether a reader need not mind a writer that waits: one that could not go on before the reader does. */
  passes(token: string, path: string): boolean {
    if (this.#for === "tries") return false;
    const blocking = this.#for === "blocking waiter";
    if (!holdsHere(token)) return blocking && turnsHere.has(path);
    const now = performance.now();
    return blocking || now - (this.#since ??= now) > PATIENCE;
  }

  /** Whether it is time to look around again: a waiter's try is cheap only while it is one system call. */
  isDue(): boolean {
    if (this.#for === "tries") return this.#reuses; // its answer is of now, and the file may be of a second ago
    const now = performance.now();
    const due = now - this.#looked >= LOOK_PAUSE;
    if (due) this.#looked = now;
    return due;
  }

  /**
   * Whether to go to the file that stands at the path, where it is `another`: not at the first look, because the
   * holder of the deleted one may have just made that, and not locked it yet.
   */
  leaves(another: boolean): boolean {
    const before = this.#sawAnother;
    this.#sawAnother = another;
    return another && (before || this.#for === "tries");
  }

  /** Asks new readers to wait. */
  takeTurn(sys: System, path: string): void {
    if (this.#turn || this.#for === "tries") return;
    if (!isThere(sys, turnPath(path))) return; // never shared
    const file = lockTurn(sys, path, ["write"], "exclusive");
    if (!file || file === "held") return; // another writer has it: that serves this one as well
    this.#turn = { file, path };
    turnsHere.add(path);
  }

  /** The wait is over, or nobody has tried again. */
  close(): void {
    this.take()?.file.close();
    if (!this.#turn) return;
    const { file, path } = this.#turn;
    this.#turn = undefined;
    turnsHere.delete(path);
    file.close();
  }
}

/** Whether a writer waits. */
export function writerWaits(sys: System, path: string): boolean {
  const turn = lockTurn(sys, path, ["create", "read"], "shared");
  if (turn === "held") return true;
  turn?.close();
  return false;
}

/** The turn's file, locked; undefined where it cannot be had. */
function lockTurn(sys: System, path: string, accesses: Access[], mode: "exclusive" | "shared") {
  const turn = turnPath(path);
  for (const access of accesses) {
    let file: OpenFile | undefined;
    try {
      file = sys.openLock(turn, access, 0o644);
      if (takeLock(sys, turn, file, mode) === "locked") return file;
      file.close();
      return "held";
    } catch (error) {
      if (!(error instanceof SystemError)) throw error;
      file?.close();
    }
  }
  return undefined;
}

/** Refused by a writer that waits. */
export const writerFirst = (token: string): Refusal => ({
  token,
  who: () => ({ doubt: "a writer waits for it, and goes before new readers" }),
});

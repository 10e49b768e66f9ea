/**
 * What a waiter keeps between two tries: the open file, so that a try is one
 * system call and makes no event that would wake other waiters; and a writer's
 * turn.
 *
 * flock(2) lets readers overlap for ever, and a writer starve. So a writer that
 * waits holds `P.turn`, and a reader that finds it held is refused for now.
 * `P.turn` is made by the first reader: a lock that is never shared has none.
 * It is fairness and no safety: whoever cannot open it goes without.
 */
import { holdsHere } from "../registry.ts";
import type { Refusal } from "../backend.ts";
import { type Access, type OpenFile, type System, SystemError } from "../sys/sys.ts";

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

/** One waiter's. */
export class Session {
  readonly #blocking: boolean;
  #since: number | undefined;
  #opened: Opened | undefined;
  #turn: { readonly file: OpenFile; readonly path: string } | undefined;
  #looked = -Infinity;

  /** `blocking`: the waiter blocks its thread. */
  constructor(blocking = false) {
    this.#blocking = blocking;
  }

  /** Whether the last try kept the file. */
  get isOpen(): boolean {
    return this.#opened !== undefined;
  }

  /** The file that the last try kept; it is the caller's now. */
  take(): Opened | undefined {
    const opened = this.#opened;
    this.#opened = undefined;
    return opened;
  }

  /** Keeps it for the next try. */
  keep(opened: Opened): true {
    this.#opened = opened;
    return true;
  }

  /** Whether a reader need not mind a writer that waits: one that could not go on before the reader does. */
  passes(token: string, path: string): boolean {
    if (!holdsHere(token)) return this.#blocking && turnsHere.has(path);
    const now = performance.now();
    return this.#blocking || now - (this.#since ??= now) > PATIENCE;
  }

  /** Whether it is time to look around again: a try is cheap only while it is one system call. */
  isDue(): boolean {
    const now = performance.now();
    const due = now - this.#looked >= LOOK_PAUSE;
    if (due) this.#looked = now;
    return due;
  }

  /** Asks new readers to wait. */
  takeTurn(sys: System, path: string): void {
    if (this.#turn) return;
    if (!isThere(sys, turnPath(path))) return; // never shared
    const file = lockTurn(sys, path, ["write"], "exclusive");
    if (!file || file === "held") return; // another writer has it: that serves this one as well
    this.#turn = { file, path };
    turnsHere.add(path);
  }

  /** The wait is over. */
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

/** Whether something stands there, as far as that can be seen. */
export function isThere(sys: System, path: string): boolean {
  try {
    return sys.stat(path) !== undefined;
  } catch (error) {
    if (error instanceof SystemError) return false; // it may not be looked at
    throw error;
  }
}

/** The turn's file, locked; undefined where it cannot be had. */
function lockTurn(sys: System, path: string, accesses: Access[], mode: "exclusive" | "shared") {
  for (const access of accesses) {
    let file: OpenFile | undefined;
    try {
      file = sys.openLock(turnPath(path), access, 0o644);
      if (file.flock(mode) === "locked") return file;
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

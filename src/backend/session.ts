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
import type { Refusal } from "../backend.ts";
import { type Access, type OpenFile, type System, SystemError } from "../sys/sys.ts";

/** A lock file, open. */
export interface Opened {
  readonly file: OpenFile;
  readonly writable: boolean;
  /** Which file it is. */
  readonly token: string;
}

const turnPath = (path: string) => `${path}.turn`;

/** One waiter's. */
export class Session {
  #opened: Opened | undefined;
  #turn: OpenFile | undefined;

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

  /** Asks new readers to wait. */
  takeTurn(sys: System, path: string): void {
    if (this.#turn) return;
    const turn = lockTurn(sys, path, ["write"], "exclusive");
    if (turn !== "held") this.#turn = turn; // another writer has it: that serves this one as well
  }

  /** The wait is over. */
  close(): void {
    this.take()?.file.close();
    this.#turn?.close();
    this.#turn = undefined;
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

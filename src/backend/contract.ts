/** What a back end is asked, and what it answers. Types only. */
import type { InTheWay, Named } from "../record/in_the_way.ts";
import type { Settings } from "../record/options.ts";
import type { ProcessState } from "../record/owner.ts";
import type { LockHolder } from "../record/record.ts";

/** A lock that is held. */
export interface Hold {
  /** Identifies this hold, so that a thread knows when it waits for itself. */
  readonly token: string;
  /** The last holder, if it died without releasing. */
  stale: LockHolder | undefined;
  /** Another program's PID that stood in the lock file, if its process is alive. */
  readonly named?: Named;
  /** The descriptor that the lock belongs to, where the runtime shows one. */
  readonly fd: number | undefined;
  /** The file by whose change it may be lost. */
  readonly watched: string;
  /**
   * Whether it is still held; a deleted file is made again, if no other process was
   * faster. Else why not, in words: it is given up then, and what stands there was not touched.
   */
  verify(): string | undefined;
  /**
   * Verifies, and gives it up. `beforeRelease` is called in between, while it is still
   * held. Throws {@linkcode SystemError} where it could not be given up, and is still held.
   */
  release(beforeRelease?: () => void): string | undefined;
  /**
   * The process ends in order: removes what would report a crash to the next
   * holder. `"held"`: until the very end, when the kernel frees it.
   */
  onExit(): "released" | "held";
}

/** A lock that is held by another: what a try has seen of it. */
export interface Refusal {
  /** The token of the hold that is in the way, if it is known. */
  readonly token: string | undefined;
  /** The PID file that is in the way. Without it the kernel's lock is, or a lease. */
  readonly entry?: Entry;
  /** Why its owner counts as the holder, though it does not hold the lock yet. */
  readonly yet?: string;
  /** The very Lock object that asks has it. */
  readonly here?: boolean;
}

/**
 * Finds the holder that is in the way, for a message or a signal. It costs more than a try, and reads what both back ends and
 * the kernel say; so it is handed in by the facade, and no back end knows it.
 */
export type Describe = (refusal: Refusal) => InTheWay;

/** What one try comes to. */
export type Attempt =
  /** `dead`: a PID file of a dead owner stands beside it. */
  | { readonly hold: Hold; readonly dead?: boolean }
  /** `early`: the kernel was not even asked. */
  | { readonly refusal: Refusal; readonly early?: boolean };

/** One lock file and how it is to be held. */
export interface Request extends Pick<Settings, "mode" | "fileMode" | "label"> {
  readonly path: string;
  /** Nonces of PID files whose owners a person has declared dead. */
  readonly declaredDead?: ReadonlySet<string>;
}

/** A file of the PID-file back end, read and judged. */
export interface Entry {
  /** The record's nonce, or what stands for it where there is none. */
  readonly nonce: string;
  /** The owner; undefined where the file is damaged. */
  readonly holder: LockHolder | undefined;
  readonly owner: ProcessState;
  /** The owner, if its death is to be reported. Not an earlier load of this program: its process is alive. */
  readonly stale?: LockHolder;
  /** A record may stand there, and cannot be read now. */
  readonly unread?: true;
}

/** The holder of a lock that was refused, as far as it is known: what messages and signals go by. */
import type { LockHolder } from "./record.ts";

/** That a process has a lock: `true`, or why it is not proven, in words. */
export type Proof = true | string;

/** The holder that is in the way. */
export interface InTheWay {
  /** Where that is known. */
  readonly holder?: LockHolder;
  /** What the holder's record lies on, as `sys.fileSystem` says it: on a local disk a renamed host is the same one. */
  readonly fileSystem?: string;
  /** It may have left a record, which cannot be read. */
  readonly unread?: boolean;
  /** How many other processes hold it too. */
  readonly others?: number;
  /** The very Lock object that asks. */
  readonly here?: boolean;
  /** Why it counts as held, unless the holder is known to be alive, here. */
  readonly doubt?: string;
  /** It is a PID file whose owner cannot be judged from here: a person can, with `holdfast break`. */
  readonly breakable?: boolean;
  /** Whether the holder is proven to have it. A process that is not proven must not be signalled. */
  readonly proof?: Proof;
  /** Which part of this very process has it, in words. */
  readonly part?: string;
  /** There is a holder, because the kernel refuses the lock, and it cannot be seen from here. */
  readonly unseen?: boolean;
}

/** A process whose number alone stood in the lock file, and what is known of it, in words. */
export interface Named {
  readonly pid: number;
  readonly reason: string;
}

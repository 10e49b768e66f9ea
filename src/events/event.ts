/** What an event of a lock is. */
import type { LockBackend, LockMode } from "../record/options.ts";
import type { HolderFields } from "../record/record.ts";

/** The name of an event. */
export type LockEventName = "acquired" | "released" | "waiting" | "stale" | "lost";

/**
 * Something that happened to a lock. The journal has one a line. Once a program
 * imports `@holdfast/lock/diagnostics`, the channels of `node:diagnostics_channel`
 * have them too.
 */
export interface LockEvent {
  /** What happened. `"waiting"` is published only, once a wait; the journal leaves it out. */
  readonly event: LockEventName;
  /** When it happened, by the wall clock, ISO 8601, for people. */
  readonly at: string;
  /** The lock's path. */
  readonly path: string;
  /** The process that it happened to. */
  readonly pid: number;
  /** The host name of that process. */
  readonly host?: string;
  /** The command line of that process. */
  readonly command?: string;
  /** The runtime of that process, such as `deno/2.9.6`. */
  readonly runtime?: string;
  /** The text given as `label`. */
  readonly label?: string;
  /** How the lock is, was, or is to be held. */
  readonly mode: LockMode;
  /** Which kind of lock it is; unknown before the first try. */
  readonly backend?: LockBackend;
  /** How long the process waited, in milliseconds: of `"acquired"`. */
  readonly waited?: number;
  /** How long the process held the lock, in milliseconds: of `"released"` and `"lost"`. */
  readonly held?: number;
  /** The holder that died without releasing, of `"stale"`; the holder that is waited for, of `"waiting"`. */
  readonly holder?: HolderFields;
  /** Why the lock was lost, in words. */
  readonly reason?: string;
}

/**
 * What happens to a lock, told to whoever wants to know: subscribers of
 * `node:diagnostics_channel`, and the journal.
 */
import type { Channel } from "node:diagnostics_channel";
import { diagnosticsChannel } from "./builtin.ts";
import { appendEvent } from "./journal.ts";
import type { LockBackend, LockMode } from "./options.ts";
import type { HolderFields } from "./record.ts";
import { system } from "./sys/mod.ts";

/** The name of an event. */
export type LockEventName = "acquired" | "released" | "waiting" | "stale" | "lost";

/**
 * Something that happened to a lock. The journal has one a line, and the
 * channels `holdfast:acquired`, `holdfast:released`, `holdfast:waiting`,
 * `holdfast:stale` and `holdfast:lost` of `node:diagnostics_channel` publish it.
 */
export interface LockEvent {
  /** What happened. A wait is told to channels only, once. */
  readonly event: LockEventName;
  /** When, by the wall clock, ISO 8601, for people. */
  readonly at: string;
  /** The lock's path. */
  readonly path: string;
  /** The process that it happened to. */
  readonly pid: number;
  /** Its host's name. */
  readonly host?: string;
  /** Its command line. */
  readonly command?: string;
  /** Its runtime, such as `deno/2.9.6`. */
  readonly runtime?: string;
  /** The text given as `label`. */
  readonly label?: string;
  /** How the lock is, was, or is to be held. */
  readonly mode: LockMode;
  /** What holds it; unknown before the first try. */
  readonly backend?: LockBackend;
  /** How long it was waited for, in milliseconds: of `"acquired"`. */
  readonly waited?: number;
  /** How long it was held, in milliseconds: of `"released"` and `"lost"`. */
  readonly held?: number;
  /** Who died without releasing, of `"stale"`; who is in the way, of `"waiting"`. */
  readonly holder?: HolderFields;
  /** Why it was lost, in words. */
  readonly reason?: string;
}

/** The part of an event that is the same for all events of a lock. */
export type Subject = Pick<LockEvent, "path" | "label" | "mode" | "backend">;

/** The part that is its own; what costs something to find out is asked for only if it is told to somebody. */
export type Detail = Pick<LockEvent, "waited" | "held" | "reason"> & {
  readonly holder?: () => HolderFields | undefined;
};

/** As in a record. */
const COMMAND_LIMIT = 1000;

/** Whole microseconds. */
const rounded = (milliseconds: number | undefined) =>
  milliseconds === undefined ? undefined : Math.round(milliseconds * 1000) / 1000;

const shortened = (holder: HolderFields | undefined) =>
  holder && (holder.command?.length ?? 0) > COMMAND_LIMIT
    ? { ...holder, command: holder.command?.slice(0, COMMAND_LIMIT) }
    : holder;

const NAMES: readonly LockEventName[] = ["acquired", "released", "waiting", "stale", "lost"];

/** All are kept from the first event on: Bun 1.4 collects a channel that nobody keeps, and its subscribers with it. */
let channels: Map<LockEventName, Channel> | undefined;

/** Tells of an event. Never throws: the lock is as it is, whoever listens. */
export function tell(event: LockEventName, subject: Subject, detail: Detail, journal: string | undefined): void {
  channels ??= new Map(NAMES.map((name) => [name, diagnosticsChannel().channel(`holdfast:${name}`)]));
  const published = channels.get(event)!; // `!`: each has one
  const writes = journal !== undefined && event !== "waiting";
  if (!published.hasSubscribers && !writes) return;
  const sys = system();
  const { pid, host, command, runtime } = sys.self();
  const { waited, held, holder, reason } = detail;
  const whole: LockEvent = {
    event, // first: the journal is known by it
    at: sys.wallClock(),
    ...subject,
    pid,
    host,
    command: command?.slice(0, COMMAND_LIMIT),
    runtime,
    waited: rounded(waited),
    held: rounded(held),
    holder: shortened(holder?.()),
    reason,
  };
  if (writes) appendEvent(sys, journal, whole);
  published.publish(whole); // what a subscriber throws is an uncaught error of its own (node:diagnostics_channel)
}

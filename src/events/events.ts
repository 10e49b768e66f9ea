/**
 * Emits the events of a lock: to its journal, if it has one, and to the hooks of
 * this thread. Without a journal and without a hook no event is made.
 */
import type { LockEvent, LockEventName } from "./event.ts";
import { appendEvent } from "./journal_writer.ts";
import type { HolderFields } from "../record/record.ts";
import { system } from "../sys/mod.ts";
import { perThread } from "../sys/thread.ts";

/** A function that is called at each event. `make` makes the event: a hook that does not need it does not call it. */
export type Hook = (name: LockEventName, make: () => LockEvent) => void;

/** The hooks of this thread, by name. Two copies of the package that set one by the same name have one hook. */
export const hooks = (): Map<string, Hook> => perThread("hooks", () => new Map());

/** The part of an event that is the same for all events of a lock. */
export type Subject = Pick<LockEvent, "path" | "label" | "mode" | "backend">;

/** The part that each event has for itself. `holder` is called only if the event is made: it may have to search. */
export type Detail = Pick<LockEvent, "waited" | "held" | "reason"> & {
  readonly holder?: () => HolderFields | undefined;
};

/** Maximum length of a command line in an event, in characters, as in a record. */
const COMMAND_LIMIT = 1000;

/** Writes an event of a lock to its journal, which has the lock file's mode, and calls the hooks. */
export function emit(
  name: LockEventName,
  subject: Subject,
  detail: Detail,
  { journal, fileMode }: { readonly journal?: string; readonly fileMode: number },
): void {
  let event: LockEvent | undefined;
  const make = () => event ??= makeEvent(name, subject, detail);
  if (journal !== undefined && name !== "waiting") appendEvent(system(), journal, make(), fileMode);
  for (const hook of hooks().values()) hook(name, make);
}

function makeEvent(name: LockEventName, subject: Subject, { waited, held, holder, reason }: Detail): LockEvent {
  const sys = system();
  const { pid, host, command, runtime } = sys.self();
  return {
    event: name, // first: a journal is recognised by it
    at: sys.wallClock(),
    ...subject,
    pid,
    host,
    command: command?.slice(0, COMMAND_LIMIT),
    runtime,
    waited: toMicroseconds(waited),
    held: toMicroseconds(held),
    holder: shortened(holder?.()),
    reason,
  };
}

/** Milliseconds, rounded to whole microseconds. */
const toMicroseconds = (milliseconds: number | undefined) =>
  milliseconds === undefined ? undefined : Math.round(milliseconds * 1000) / 1000;

const shortened = (holder: HolderFields | undefined) =>
  holder && (holder.command?.length ?? 0) > COMMAND_LIMIT
    ? { ...holder, command: holder.command?.slice(0, COMMAND_LIMIT) }
    : holder;

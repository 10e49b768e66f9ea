/**
 * Reads the journal of a lock: what happened to it, and when.
 *
 * A lock writes one with the option `journal`; see {@linkcode history}.
 *
 * @module
 */
import { systemFailure } from "./record/errors.ts";
import type { LockEvent } from "./events/event.ts";
import { holderFields } from "./record/record.ts";
import { explainBeside } from "./record/explain.ts";
import { oldPath, readWhole } from "./events/journal_writer.ts";
import { journalPath, known } from "./record/options.ts";
import { resolvePath } from "./record/path.ts";
import { mayAskDirectory, system } from "./sys/mod.ts";
import { SystemError } from "./sys/contract.ts";

export type { LockEvent, LockEventName } from "./events/event.ts";

/**
 * Reads what happened to a lock from its journal (`journal: true`), the oldest event first.
 *
 * Guaranteed: at most about 1 MiB is kept, in the journal and the old one beside
 * it (`.1`). Lines that are not events are left out, such as a line that a power
 * cut tore.
 *
 * Not guaranteed: that there are no gaps, because a lock works without its journal
 * too; that events of two processes are in the order of their times.
 *
 * A holder that died has `"acquired"` and no `"released"`; the next holder has `"stale"`.
 *
 * @example
 * ```ts
 * import { Lock } from "@holdfast/lock";
 * import { history } from "@holdfast/lock/journal";
 *
 * const path = `${await Deno.makeTempDir()}/nightly.lock`;
 * new Lock(path, { journal: true }).runSync(() => {});
 * console.log(history(path).map(({ event }) => event)); // ["acquired", "released"]
 * ```
 *
 * @param path The lock file, or its file URL.
 * @param options `journal`: where the journal is, if not beside the lock file.
 * @returns The events; an empty array if there is no journal.
 * @throws {LockError} If the journal cannot be read, such as `EACCES`.
 * @throws {TypeError} If `path` or `journal` is not a path or file URL.
 */
export function history(path: string | URL, options: { readonly journal?: string | URL } = {}): LockEvent[] {
  known("read a journal", options, ["journal"]);
  const lock = resolvePath(path, mayAskDirectory, "read a journal");
  const given = options.journal;
  const journal = given === undefined ? journalPath(lock) : resolvePath(given, mayAskDirectory, "read a journal");
  const sys = system();
  try {
    // The newer one first: if it is rotated meanwhile, it is read twice and not left out.
    const [newer, older] = [journal, oldPath(journal)].map((file) => readWhole(sys, sys.resolveParents(file)));
    const lines = (older.startsWith(newer) ? older : `${older}\n${newer}`).split("\n");
    return lines.flatMap((line) => {
      const event = parseEvent(line);
      return event && (given === undefined || event.path === lock) ? [event] : [];
    });
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
    throw systemFailure("read the journal of", lock, explainBeside(sys, journal, error));
  }
}

const EVENTS: readonly unknown[] = ["acquired", "released", "stale", "lost"] satisfies LockEvent["event"][];

const TEXTS = ["at", "path", "host", "command", "runtime", "label", "reason"] as const;
const NUMBERS = ["waited", "held"] as const;

/** An event, if each of its fields is of the kind that we write: another user may have written the line. */
function parseEvent(line: string): LockEvent | undefined {
  try {
    const value: Record<string, unknown> | null = JSON.parse(line);
    if (typeof value !== "object" || value === null) return undefined;
    const { event, at, path, pid, mode, backend, holder } = value;
    const isOurs = EVENTS.includes(event) && at !== undefined && path !== undefined &&
      TEXTS.every((name) => value[name] === undefined || typeof value[name] === "string") &&
      NUMBERS.every((name) => value[name] === undefined || typeof value[name] === "number") &&
      (mode === "exclusive" || mode === "shared") && (backend === undefined || typeof backend === "string") &&
      Number.isInteger(pid) && (holder === undefined || isHolder(holder));
    // The cast: every field was checked.
    return isOurs ? value as unknown as LockEvent : undefined;
  } catch {
    return undefined; // torn, or another program's
  }
}

// The cast: any property of an object may be read.
const isHolder = (value: unknown): boolean =>
  typeof value === "object" && value !== null && holderFields(value as Record<string, unknown>) !== undefined;

/** The journal: one JSON line for whatever happened to a lock, in a file that does not grow for ever. */
import type { LockEvent } from "./events.ts";
import { systemFailure } from "./errors.ts";
import { explainBeside } from "./explain.ts";
import { warn } from "./messages.ts";
import { journalPath, known } from "./options.ts";
import { settlePath } from "./path.ts";
import { mayAskDirectory, system } from "./sys/mod.ts";
import { quote } from "./sys/printable.ts";
import { type OpenFile, type System, SystemError } from "./sys/sys.ts";

/** A journal of more bytes becomes the old one, and the one before that goes. */
const LIMIT = 512 * 1024;

const oldPath = (journal: string): string => `${journal}.1`;

/** How every line of ours begins, and so every journal: what begins otherwise is somebody's data. */
const HEAD = '{"event":"';

/** Its lines are readable to whoever may read the lock. */
const FILE_MODE = 0o644;

/** Of each journal the first failure is told, for a full disk fails at every line. */
const failed = new Set<string>();

/** Writes a line. A journal that cannot be written stops no lock, but is not silent. */
export function appendEvent(sys: System, journal: string, event: LockEvent): void {
  try {
    const path = sys.physical(journal);
    // One that could not be turned over does not grow for ever either.
    if ((sys.stat(path)?.size ?? 0) > 2 * LIMIT) {
      throw new SystemError("EFBIG", "it is full, and cannot be turned over");
    }
    if (sys.append(path, `${JSON.stringify(event)}\n`, HEAD, FILE_MODE) > LIMIT) turnOver(sys, path);
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
    if (failed.has(journal)) return;
    failed.add(journal);
    warn(`the journal ${quote(journal)} cannot be written, so it has gaps: ${error.message}`);
  }
}

/** Under a lock on the journal itself: two who find it full must not turn it over twice, or a new one is lost. */
function turnOver(sys: System, journal: string): void {
  let file: OpenFile | undefined;
  try {
    file = sys.openLock(journal, "write", FILE_MODE);
    if (sys.way && file.flock("exclusive") !== "locked") return;
    const { identity, size } = file.stat();
    if (size <= LIMIT || sys.stat(journal)?.identity !== identity) return;
    const old = readWhole(sys, oldPath(journal), HEAD.length);
    if (old !== "" && old !== HEAD) throw new SystemError("EINVAL", `${quote(oldPath(journal))} holds something else`);
    sys.rename(journal, oldPath(journal));
  } finally {
    file?.close();
  }
}

/**
 * What happened to a lock, from its journal (`journal: true`): the oldest first.
 *
 * Guaranteed: at most about 1 MiB is kept, in the journal and the one before it
 * (`.1`). Lines that are no events, or empty, such as one that a power cut tore, are left
 * out. Not guaranteed: that there are no gaps, for a journal that cannot be
 * written stops no lock; nor that events of two processes stand in the order of
 * their times.
 *
 * A holder that died has `"acquired"` and no `"released"`; whoever came next has `"stale"`.
 *
 * @example
 * ```ts
 * import { history, Lock } from "@holdfast/lock";
 *
 * const path = `${await Deno.makeTempDir()}/nightly.lock`;
 * new Lock(path, { journal: true }).runSync(() => {});
 * console.log(history(path).map(({ event }) => event)); // ["acquired", "released"]
 * ```
 *
 * @param path The lock file, or its file URL.
 * @param options `journal`: where the journal is, if not beside the lock file.
 * @returns The events; none if there is no journal.
 * @throws {LockError} if the journal cannot be read, such as `EACCES`.
 * @throws {TypeError} if a path is none.
 */
export function history(path: string | URL, options: { readonly journal?: string | URL } = {}): LockEvent[] {
  known("read a journal", options, ["journal"]);
  const lock = settlePath(path, mayAskDirectory, "read a journal");
  const given = options.journal;
  const journal = given === undefined ? journalPath(lock) : settlePath(given, mayAskDirectory, "read a journal");
  const sys = system();
  try {
    // The newer one first: if it is turned over meanwhile, it is read twice and not never.
    const [newer, older] = [journal, oldPath(journal)].map((file) => readWhole(sys, sys.physical(file)));
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

function readWhole(sys: System, path: string, limit = Infinity): string {
  const file = sys.openRead(path);
  if (!file) return "";
  try {
    const { kind, size } = file.stat();
    if (kind !== "file") throw new SystemError("EINVAL", `${quote(path)} is a ${kind}, not a file`);
    return new TextDecoder().decode(file.read(Math.min(size, limit)));
  } finally {
    file.close();
  }
}

const EVENTS: readonly unknown[] = ["acquired", "released", "stale", "lost"] satisfies LockEvent["event"][];

function parseEvent(line: string): LockEvent | undefined {
  try {
    const value: Record<string, unknown> | null = JSON.parse(line);
    const isEvent = typeof value === "object" && value !== null && EVENTS.includes(value.event) &&
      typeof value.at === "string" && typeof value.path === "string" && Number.isInteger(value.pid);
    // The cast: what tells the events apart was checked, and the rest is for people to read.
    return isEvent ? value as unknown as LockEvent : undefined;
  } catch {
    return undefined; // torn, or another program's
  }
}

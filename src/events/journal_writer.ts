/** Writes the journal: one JSON line for each event of a lock, in a file whose size is limited. */
import { quote } from "../sys/printable.ts";
import type { LockEvent } from "./event.ts";
import { warn } from "../record/messages.ts";
import { type OpenFile, type System, SystemError } from "../sys/contract.ts";

/** Maximum size of a journal, in bytes. A larger one becomes the old one, in place of the old one before it. */
const LIMIT = 512 * 1024;

/** The path of the old journal. */
export const oldPath = (journal: string): string => `${journal}.1`;

/** How each line begins, and so each journal. A file that begins otherwise is not ours, and is left alone. */
const HEAD = '{"event":"';

/** Each user who may read the lock may read the journal. */
const FILE_MODE = 0o644;

/** The journals of which a failure was reported. Only the first one is: a full disk fails at each line. */
const failed = new Set<string>();

/** Appends an event. A journal that cannot be written stops no lock: its first failure goes to standard error. */
export function appendEvent(sys: System, journal: string, event: LockEvent): void {
  try {
    const path = sys.resolveParents(journal);
    // A journal that cannot be rotated must not grow for ever either.
    if ((sys.stat(path)?.size ?? 0) > 2 * LIMIT) {
      throw new SystemError("EFBIG", "it is full, and cannot be rotated");
    }
    if (sys.append(path, `${JSON.stringify(event)}\n`, HEAD, FILE_MODE) > LIMIT) rotate(sys, path);
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
    if (failed.has(journal)) return;
    failed.add(journal);
    warn(`the journal ${quote(journal)} cannot be written, so it has gaps: ${error.message}`);
  }
}

/** Renames the journal to the old one, under a lock on it: if two processes did this, the second would lose a new journal. */
function rotate(sys: System, journal: string): void {
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

/** The text of a journal, or the beginning of it; empty if there is no file. */
export function readWhole(sys: System, path: string, limit = Infinity): string {
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

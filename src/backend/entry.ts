/**
 * The files of the PID-file back end as both back ends see them: their names,
 * and whether the owner that a file names is alive.
 */
import { nodePath } from "../sys/builtin.ts";
import type { Entry, Refusal, Request } from "./contract.ts";
import { explainBeside } from "../record/explain.ts";
import { judge, type ProcessState } from "../record/owner.ts";
import { type Content, encode, type LockHolder, parse, RECORD_LIMIT } from "../record/record.ts";
import { holdsHere } from "./registry.ts";
import { isLeftHere } from "./ours.ts";
import { quote, shown } from "../sys/printable.ts";
import { type FileStat, type FileSystem, type OpenFile, type System, SystemError } from "../sys/contract.ts";

const NO_HARD_LINKS = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EMLINK", "EXDEV"]);

/**
 * Whether it is what a file system answers that has no hard links, or not for us. Android's SELinux forbids them to
 * all apps, with EACCES; elsewhere that is a directory that may not be written.
 */
export const noHardLinks = (code: string): boolean =>
  NO_HARD_LINKS.has(code) || (code === "EACCES" && process.platform === "android");

/** A damaged file counts as held while it may be in the making: 2 s, and 1 s because the times are whole seconds. */
const DAMAGED_SECONDS = 3;

/** NAME_MAX of <limits.h>, in bytes. */
const NAME_LIMIT = 255;

/** The names of a lock's files. */
export const pidPath = (path: string): string => `${path}.pid`;
export const linkPath = (path: string, nonce: string): string => `${path}.pid.${nonce}`;
export const temporaryPath = (path: string, pid: number, nonce: string): string => `${path}.pid.tmp-${pid}-${nonce}`;

/** It could be opened, but not be read: an SMB server keeps others from what is locked, with EACCES, and Windows with EBUSY. */
export class Unread extends SystemError {}

/** What a read on Windows answers while another open file has the content locked, as a Deno without FFI locks all of it. */
export const isKept = (error: unknown): boolean => error instanceof Unread && error.code === "EBUSY";

/** What an open with O_NONBLOCK answers while another process has a lease on the file: open(2), fcntl(2). */
export const isLeased = (error: unknown): boolean =>
  error instanceof SystemError && !(error instanceof Unread) &&
  (error.code === "EWOULDBLOCK" || error.code === "EAGAIN");

/** What stands in a file, safely read; undefined where there is none. Throws for what is not a regular file. */
export function readContent(sys: FileSystem, path: string): { content: Content; stat: FileStat } | undefined {
  // A name that is too long for the file system is the name of no file.
  if (
    path.length > NAME_LIMIT / 3 && // no character takes more than 3 bytes for each of its UTF-16 units
    new TextEncoder().encode(nodePath().basename(path)).length > NAME_LIMIT
  ) return undefined;
  const file = sys.openRead(path);
  if (!file) return undefined;
  try {
    const stat = file.stat();
    if (stat.kind !== "file") throw new SystemError("EINVAL", `${quote(path)} is a ${stat.kind}, not a file`);
    return { content: parse(bytesOf(file)), stat };
  } finally {
    file.close();
  }
}

function bytesOf(file: OpenFile): Uint8Array {
  try {
    return file.read(RECORD_LIMIT + 1);
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
    throw new Unread(error.code, error.message, { cause: error });
  }
}

/**
 * Reads and judges `P.pid` or one of its links; undefined where there is none.
 * Finds the age of a damaged file by making another beside it, if `mayWrite`.
 */
export function readEntry(sys: System, path: string, entry: string, mayWrite = true): Entry | undefined {
  let read: ReturnType<typeof readContent>;
  try {
    read = readContent(sys, entry);
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
    const kept = isKept(error);
    if (!kept && !isLeased(error)) throw explainBeside(sys, entry, error);
    const reason = `${quote(entry)} cannot be read while another program has ${kept ? "it locked" : "a lease on it"}`;
    return { nonce: "unread", holder: undefined, owner: { state: "unknown", reason }, unread: true };
  }
  if (!read) return undefined;
  const { content, stat } = read;
  // Whole seconds because not every runtime has finer ones, and all must find the same name.
  const standIn = `ino-${stat.inode}-${stat.changed}`;
  if (content.kind === "record") {
    const { holder } = content;
    // A foreign PID file: its inode can come back within the second, its PID cannot.
    const nonce = holder.nonce ?? `${standIn}-${holder.pid}`;
    return isLeftHere(sys, entry, holder)
      ? { nonce, holder, owner: { state: "dead", reason: "an earlier load of this very program left it" } }
      : { nonce, holder, owner: judgeEntry(sys, entry, holder, nonce), stale: holder };
  }
  return {
    nonce: standIn,
    holder: undefined,
    owner: mayWrite ? judgeDamaged(sys, path, entry, stat) : { state: "unknown", reason: `${quote(entry)} is damaged` },
  };
}

function judgeEntry(sys: System, entry: string, holder: LockHolder, nonce: string): ProcessState {
  const owner = judge(holder, sys, sys.fileSystem(entry));
  // The one owner that this thread knows without any facts, as in Deno without FFI.
  return owner.state === "unknown" && holdsHere(nonce) ? { state: "alive", reason: "this process holds it" } : owner;
}

/**
 * A file with no owner to ask for. Where hard links work, holdfast shows no
 * unfinished file, so it is a power cut's or another program's. Where they do
 * not, its maker may be alive and about to write, and no age proves otherwise.
 */
function judgeDamaged(sys: System, path: string, entry: string, stat: FileStat): ProcessState {
  const self = sys.self();
  const temporary = temporaryPath(path, self.pid, sys.nonce());
  const twin = temporaryPath(path, self.pid, sys.nonce());
  let now: FileStat | undefined, links = true;
  try {
    sys.create(temporary, encode(self), 0o644);
    try {
      now = sys.stat(temporary);
      sys.link(temporary, twin);
      sys.unlink(twin);
    } catch (error) {
      if (!(error instanceof SystemError)) throw error;
      if (!noHardLinks(error.code)) throw error;
      links = false;
    } finally {
      sys.unlink(temporary);
    }
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
    return { state: "unknown", reason: `${quote(entry)} is damaged, and its age is not known: ${error.message}` };
  }
  if (!links || !now) {
    return {
      state: "unknown",
      reason:
        `${quote(entry)} is damaged, and on a file system without hard links its maker may be about to write it. ` +
        `"fuser -v ${shown(entry)}" shows whether any process has it open`,
    };
  }
  // One clock, the file system's, which touch(1) and this machine's clock cannot move.
  const age = now.changed - stat.changed;
  return age >= 0 && age < DAMAGED_SECONDS
    ? { state: "alive", reason: `${quote(entry)} is damaged, and so new that it may be in the making` }
    : { state: "dead", reason: `${quote(entry)} is damaged, and was not finished` };
}

/** The record of an acquisition. `fileSystem`: of a PID file. */
export function recordOf(sys: System, { mode, label }: Request, nonce: string, fileSystem?: string): Uint8Array {
  return encode({ ...sys.self(), fileSystem, mode, acquiredAt: sys.wallClock(), nonce, label });
}

/** The record of an acquisition by PID file, which says where that lies: its owner's boot ends with the machine's only on a local disk. */
export function pidRecordOf(sys: System, request: Request, nonce: string): Uint8Array {
  // Of the directory, because the file is not there yet. Not by node:path, which Deno takes 7 ms to load.
  const directory = request.path.replace(/[^/]*$/, ".");
  const { bootId } = sys.self();
  return recordOf(sys, request, nonce, bootId === undefined ? undefined : sys.fileSystem(directory) ?? "unknown");
}

/** A refusal by a PID file. `yet`: why its owner counts, though it does not hold the lock yet. */
export const refusalBy = (entry: Entry, yet?: string): Refusal => ({ token: entry.nonce, entry, yet });

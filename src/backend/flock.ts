/**
 * The kernel back end: `flock(2)` on the lock file. The kernel drops the lock
 * when the last descriptor of the open file is gone, however the process died.
 *
 * The file is made once and stays: a lock file that is unlinked is two locks,
 * one on the inode that the waiters have open and one on the next.
 * The numbers are the steps of the protocol.
 */
import { dirname } from "node:path";
import type { Attempt, Hold, Refusal, Request } from "../backend.ts";
import { whoHolds } from "../inspect.ts";
import { type LockHolder, parse, RECORD_LIMIT, sameBytes } from "../record.ts";
import { type Access, type FileStat, type OpenFile, type System, SystemError } from "../sys/sys.ts";
import { isUnder } from "../context.ts";
import { isThere, type Opened, type Session, writerFirst, writerWaits } from "./session.ts";
import { pidPath, readEntry, recordOf, refusalBy } from "./entry.ts";

/** What an open answers where the file may not be written but perhaps be read. */
const NOT_WRITABLE = new Set(["EACCES", "EPERM", "EROFS", "ETXTBSY"]);

/** Where a record finds no room the lock still holds: a full disk must not stop the job that cleans it. */
const NO_ROOM = new Set(["ENOSPC", "EDQUOT", "EFBIG"]);

/** NFSv4 answers EBADF for an exclusive lock on a read-only descriptor; gofrs/flock#22. */
const ONCE_MORE = new Set(["EIO", "EBADF"]);

/** Replaced under our hands so many times: somebody does it on purpose. */
const REPLACED_LIMIT = 1000;

/** One try, never waiting. Throws {@linkcode SystemError} for everything but contention. */
export function tryFlock(sys: System, request: Request, session?: Session): Attempt {
  // Looked at before anything is made or written, because a refused try must change nothing.
  if (!session?.isOpen) {
    const refusal = lookEarly(sys, request.path);
    if (refusal) return { refusal, early: true };
  }
  let failure: SystemError | undefined;
  for (let replaced = 0; replaced < REPLACED_LIMIT; replaced++) {
    const opened = session?.take() ?? (failure ? reopen(sys, request, failure) : open(sys, request));
    try {
      const attempt = tryOn(sys, opened, request, session);
      if (attempt) return attempt;
    } catch (error) {
      if (failure || !(error instanceof SystemError) || !ONCE_MORE.has(error.code)) throw error;
      failure = error;
    }
  }
  throw new SystemError("ESTALE", "the lock file is being replaced again and again");
}

/** 1. Made if missing, never truncated; read-only where it may not be written: the lock works on that too. */
function open(sys: System, { path, fileMode }: Request): Opened {
  let first: SystemError | undefined;
  for (const access of ["create", "write", "read"] satisfies Access[]) {
    try {
      return regular(sys.openLock(path, access, fileMode), access !== "read");
    } catch (error) {
      if (!(error instanceof SystemError)) throw error;
      first ??= error;
      if (!NOT_WRITABLE.has(error.code)) throw explain(sys, path, first);
    }
  }
  throw explain(sys, path, first!); // `!`: each of the three has failed
}

function regular(file: OpenFile, writable: boolean): Opened {
  try {
    const stat = file.stat();
    if (stat.kind !== "file") throw new SystemError("EINVAL", notRegular(stat));
    return { file, writable, token: stat.identity };
  } catch (error) {
    file.close();
    throw error;
  }
}

function reopen(sys: System, { path, fileMode }: Request, failure: SystemError): Opened {
  let file: OpenFile;
  try {
    file = sys.openLock(path, "write", fileMode);
  } catch {
    throw failure; // that it cannot be opened for writing either is not the user's problem
  }
  return regular(file, true);
}

/** Says in words what an open's errno means here. */
function explain(sys: System, path: string, { code, message, cause }: SystemError): SystemError {
  let there: FileStat | undefined;
  try {
    there = sys.stat(path);
  } catch {
    return new SystemError(code, message, { cause }); // the first error says more
  }
  const directory = JSON.stringify(dirname(path));
  const words = there && there.kind !== "file"
    ? notRegular(there)
    : code === "ENOENT" && !isThere(sys, dirname(path))
    ? `its directory ${directory} does not exist`
    : !there && NOT_WRITABLE.has(code)
    ? `it does not exist, and cannot be made in ${directory}: ${message}`
    : message;
  return new SystemError(code, words, { cause });
}

const notRegular = ({ kind }: FileStat) => `it is a ${kind}, and a lock file must be a regular file`;

/** Steps 2 to 7 on an open file, which is closed again unless it is held. undefined: it was replaced, try anew. */
function tryOn(sys: System, opened: Opened, request: Request, session: Session | undefined): Attempt | undefined {
  const { file, writable, token } = opened;
  const { path, mode } = request;
  let held = false;
  try {
    if (
      mode === "shared" && !isUnder((hold) => hold.token === token) && !session?.passes(token, path) &&
      writerWaits(sys, path)
    ) return { refusal: writerFirst(token) };
    if (file.flock(mode) === "held") { // 2
      const refusal = { token, who: () => whoHolds(sys, path) };
      if (!session) return { refusal };
      // A waiter keeps the file open, unless it has the one that nobody else will come to.
      if (session.isDue()) {
        if (sys.stat(path)?.identity !== token) return undefined;
        if (mode === "exclusive") session.takeTurn(sys, path);
      }
      held = session.keep(opened);
      return { refusal };
    }
    // 3. Locked, but perhaps a file that nobody can open any more (filelock#574).
    if (sys.stat(path)?.identity !== token) return undefined;
    const announcement = mode === "exclusive" ? announce(sys, file, writable, request) : NOTHING; // 4, 5
    try {
      const { refusal, dead } = lookAtPidFile(sys, path); // 6
      held = refusal === undefined;
      return refusal ? { refusal } : { hold: holdOf(sys, path, file, token, announcement), dead }; // 7
    } finally {
      if (!held) announcement.takeBack();
    }
  } finally {
    if (!held) file.close();
  }
}

/** The record of a hold, in the file. */
interface Announcement {
  /** The last holder, if it died without releasing. */
  readonly stale: LockHolder | undefined;
  /** Not held after all: puts back what stood there, so that a dead holder is still reported. */
  takeBack(): void;
  /** Clears our record, and nothing that anybody else wrote over it. */
  clear(): void;
}

const NOTHING: Announcement = { stale: undefined, takeBack() {}, clear() {} };

function announce(sys: System, file: OpenFile, writable: boolean, request: Request): Announcement {
  const before = file.read(RECORD_LIMIT + 1); // 4
  const content = parse(before);
  const stale = "holder" in content ? content.holder : undefined;
  // People lock their data files: what we did not write stays as it is (filelock#591).
  if (!writable || content.kind === "foreign") return { ...NOTHING, stale };
  const record = recordOf(sys, request, sys.nonce());
  const replace = (bytes: Uint8Array) => {
    file.empty(); // first, so that a reader sees nothing rather than half of each
    if (bytes.length > 0) file.write(bytes);
  };
  try {
    if (before.length > 0) file.empty();
    file.write(record); // 5
  } catch (error) {
    ignoringFailure(() => file.empty());
    if (error instanceof SystemError && NO_ROOM.has(error.code)) return { ...NOTHING, stale };
    throw error;
  }
  return {
    stale,
    takeBack: () => ignoringFailure(() => replace(before)),
    clear: () =>
      ignoringFailure(() => {
        // The user may have written data into the file that is locked: it is theirs now.
        if (sameBytes(file.read(RECORD_LIMIT + 1), record)) file.empty();
      }),
  };
}

/** For a record that could not be cleared: the lock is given up all the same, and the next holder is told of a stale one. */
function ignoringFailure(call: () => void): void {
  try {
    call();
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
  }
}

function lookEarly(sys: System, path: string): Refusal | undefined {
  try {
    return lookAtPidFile(sys, path).refusal;
  } catch (error) {
    if (error instanceof SystemError) return undefined; // step 6 says so, unless something else is wrong before
    throw error;
  }
}

/** 6. Somebody without a kernel lock may hold it by PID file. */
function lookAtPidFile(sys: System, path: string): { refusal?: Refusal; dead?: boolean } {
  const entry = readEntry(sys, path, pidPath(path));
  if (!entry) return {};
  if (entry.owner.state === "dead") return { dead: true };
  // A daemon may keep its own PID there, as daemons do, and lock `P` all the same.
  const own = entry.holder?.nonce === undefined && entry.holder?.pid === sys.self().pid;
  return own ? {} : { refusal: refusalBy(entry) };
}

function holdOf(sys: System, path: string, file: OpenFile, token: string, announcement: Announcement): Hold {
  const isOurs = () => {
    try {
      return sys.stat(path)?.identity === token;
    } catch (error) {
      if (error instanceof SystemError) return true; // it cannot be looked at; nothing says that it is lost
      throw error;
    }
  };
  return {
    token,
    stale: announcement.stale,
    release() {
      try {
        if (!isOurs()) return "lost";
        announcement.clear();
        return "released";
      } finally {
        file.close();
      }
    },
    leave() {
      announcement.clear();
      return "held";
    },
  };
}

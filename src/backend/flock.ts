/**
 * The kernel back end: `flock(2)` on the lock file. The kernel drops the lock
 * when the last descriptor of the open file is gone, however the process died.
 *
 * The file is made once and stays: a lock file that is unlinked is two locks,
 * one on the inode that the waiters have open and one on the next.
 * The numbers are the steps of the protocol.
 */
import type { Attempt, Refusal, Request } from "../backend.ts";
import { isUnder } from "../context.ts";
import { whoHolds } from "../inspect.ts";
import { type System, SystemError } from "../sys/sys.ts";
import { announce, NOTHING } from "./announce.ts";
import { pidPath, readEntry, refusalBy } from "./entry.ts";
import { KernelHold, type Taken } from "./held.ts";
import { open, reopen, takeLock } from "./open.ts";
import { abandoned } from "./ours.ts";
import { type Opened, type Session, writerFirst, writerWaits } from "./session.ts";

/** NFSv4 answers EBADF for an exclusive lock on a read-only descriptor; gofrs/flock#22. */
const ONCE_MORE = new Set(["EIO", "EBADF"]);

/** Replaced under our hands so many times: somebody does it on purpose. */
const REPLACED_LIMIT = 1000;

/** One try, never waiting. Throws {@linkcode SystemError} for everything but contention. */
export function tryFlock(sys: System, request: Request, session?: Session): Attempt {
  let failure: SystemError | undefined;
  for (let replaced = 0; replaced < REPLACED_LIMIT; replaced++) {
    let opened = session?.take();
    if (!opened) {
      // Before anything is made, because a refused try must change nothing; and before the kernel lock is taken even
      // for a moment, which would refuse others, name the wrong holder, and wake whoever watches the file.
      const refusal = lookEarly(sys, request.path);
      if (refusal) return { refusal, early: true };
      const found = failure ? reopen(sys, request, failure) : open(sys, request);
      if (found === "leased") {
        return { refusal: { token: undefined, who: () => whoHolds(sys, request.path) }, early: true };
      }
      opened = found;
    }
    try {
      const attempt = tryOn(sys, opened, request, session);
      if (!attempt) continue;
      if ("refusal" in attempt) return attempt;
      // Not behind a writer that waits: who made its deleted file again held it all the time.
      const again = (made: Opened) => takeOn(sys, made, request, undefined);
      return { hold: new KernelHold(sys, request, attempt, again), dead: attempt.dead };
    } catch (error) {
      if (failure || !(error instanceof SystemError) || !ONCE_MORE.has(error.code)) throw error;
      failure = error;
    }
  }
  throw new SystemError("ESTALE", "the lock file is being replaced again and again");
}

/** What a try on an open file comes to. undefined: it was replaced, try anew. */
type Outcome = (Taken & { readonly dead?: boolean }) | { readonly refusal: Refusal } | undefined;

/** A reader lets a writer that waits go first; else as {@linkcode takeOn}. */
function tryOn(sys: System, opened: Opened, request: Request, session: Session | undefined): Outcome {
  const { file, token } = opened;
  const { path, mode } = request;
  let waits = true;
  try {
    waits = mode === "shared" && !isUnder((hold) => hold.token === token) && !session?.passes(token, path) &&
      writerWaits(sys, path);
  } finally {
    if (waits) file.close();
  }
  return waits ? { refusal: writerFirst(token) } : takeOn(sys, opened, request, session);
}

/** Steps 2 to 7 on an open file, which is closed again unless it is held. */
function takeOn(sys: System, opened: Opened, request: Request, session: Session | undefined): Outcome {
  const { file, writable, token } = opened;
  const { path, mode } = request;
  let held = false;
  try {
    if (takeLock(sys, path, file, mode) === "held") { // 2
      const refusal = { token, who: () => whoHolds(sys, path) };
      if (!session) return { refusal };
      // Whoever tries again keeps the file open, unless another stands there by now. One that
      // is merely gone is held all the same, and its holder is about to make it again.
      if (session.isDue()) {
        if (session.leaves((sys.stat(path)?.identity ?? token) !== token)) return undefined;
        if (mode === "exclusive") session.takeTurn(sys, path);
      }
      held = session.keep(opened);
      return { refusal };
    }
    // 3. Locked, but perhaps a file that nobody can open any more (filelock#574).
    if (sys.stat(path)?.identity !== token) return undefined;
    // A try that is refused writes nothing, if that can be seen so early. Of a file that was just opened it was seen.
    const early = mode === "exclusive" && session?.reuses ? lookEarly(sys, path) : undefined;
    if (early) return { refusal: early };
    const announcement = mode === "exclusive" ? announce(sys, file, writable, request) : NOTHING; // 4, 5
    try {
      const { refusal, dead } = lookAtPidFile(sys, path); // 6
      held = refusal === undefined;
      return refusal ? { refusal } : { file, token, announcement, dead }; // 7
    } finally {
      if (!held) announcement.takeBack();
    }
  } finally {
    if (!held) file.close();
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
  // Of ours, and nobody's: it could not be removed when it was in our way, and would refuse everybody until we end.
  if (entry.owner.state === "dead" || abandoned.has(entry.nonce)) return { dead: true };
  // A daemon may keep its own PID there, as daemons do, and lock `P` all the same. The bare PID: one with a PID
  // namespace beside it may be another's, in a container of its own.
  const own = entry.holder?.pid === sys.self().pid && Object.keys(entry.holder).length === 1;
  return own ? {} : { refusal: refusalBy(entry) };
}

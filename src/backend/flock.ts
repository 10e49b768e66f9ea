/**
 * The kernel back end: `flock(2)` on the lock file. The kernel drops the lock
 * when the last descriptor of the open file is gone, however the process died.
 *
 * The file is made once and stays: a lock file that is unlinked is two locks,
 * one on the inode that the waiters have open and one on the next.
 * The numbers are the steps of docs/protocol.md.
 */
import type { Attempt, Refusal, Request } from "./contract.ts";
import { type System, SystemError } from "../sys/contract.ts";
import { announce, NOTHING } from "./announce.ts";
import { pidPath, readEntry, refusalBy } from "./entry.ts";
import { KernelHold, type Taken } from "./held.ts";
import type { KeptFile } from "./kept.ts";
import { isHeld, open, type Opened, reopen } from "./open.ts";
import { isAbandoned } from "./ours.ts";

/** NFSv4 answers EBADF for an exclusive lock on a read-only descriptor; gofrs/flock#22. */
const ONCE_MORE = new Set(["EIO", "EBADF"]);

/** Tries on a file that is replaced each time: more than accidents make. */
const REPLACED_LIMIT = 1000;

/** One try, never waiting; `kept`: a waiter's file. Throws {@linkcode SystemError} for everything but contention. */
export function tryFlock(sys: System, request: Request, kept?: KeptFile): Attempt {
  let failure: SystemError | undefined;
  for (let replaced = 0; replaced < REPLACED_LIMIT; replaced++) {
    let opened = kept?.take();
    const isReused = opened !== undefined;
    if (!opened) {
      // Before anything is made, because a refused try must change nothing; and before the kernel lock is taken even
      // for a moment, which would refuse others, name the wrong holder, and wake those that watch the file.
      const refusal = lookEarly(sys, request.path);
      if (refusal) return { refusal, early: true };
      const found = failure ? reopen(sys, request, failure) : open(sys, request);
      if (found === "leased") {
        return { refusal: { token: undefined }, early: true };
      }
      opened = found;
    }
    try {
      const attempt = takeOn(sys, opened, request, kept, isReused);
      if (!attempt) continue;
      if ("refusal" in attempt) return attempt;
      const again = (made: Opened) => takeOn(sys, made, request);
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

/** Steps 2 to 7 on an open file, which is closed again unless it is held, or kept by a waiter. */
function takeOn(sys: System, opened: Opened, request: Request, kept?: KeptFile, isReused = false): Outcome {
  const { file, writable, token } = opened;
  const { path, mode } = request;
  let staysOpen = false;
  try {
    if (isHeld(sys, path, file.flock(mode))) { // 2
      const refusal = { token };
      if (!kept) return { refusal };
      if (kept.isReplaced(opened, () => sys.stat(path)?.identity)) return undefined;
      kept.keep(opened);
      staysOpen = true;
      return { refusal };
    }
    // 3. Locked, but perhaps a file that no process can open any more (filelock#574).
    if (sys.stat(path)?.identity !== token) return undefined;
    // A try that is refused writes nothing, if that can be seen so early. Of a file that was just opened it was seen.
    const early = mode === "exclusive" && isReused ? lookEarly(sys, path) : undefined;
    if (early) return { refusal: early };
    const announcement = mode === "exclusive" ? announce(sys, file, writable, request) : NOTHING; // 4, 5
    try {
      const { refusal, dead } = lookAtPidFile(sys, path); // 6
      staysOpen = refusal === undefined;
      return refusal ? { refusal } : { file, token, announcement, dead }; // 7
    } finally {
      if (!staysOpen) announcement.takeBack();
    }
  } finally {
    if (!staysOpen) file.close();
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

/** 6. A process without a kernel lock may hold it by PID file. */
function lookAtPidFile(sys: System, path: string): { refusal?: Refusal; dead?: boolean } {
  const entry = readEntry(sys, path, pidPath(path));
  if (!entry) return {};
  // A PID file of ours without a holder could not be removed, and would refuse every process until this one ends.
  if (entry.owner.state === "dead" || isAbandoned(entry.nonce)) return { dead: true };
  // A daemon may keep its own PID there, as daemons do, and lock `P` all the same. The bare PID: one with a PID
  // namespace beside it may be another's, in a container of its own.
  const own = entry.holder?.pid === sys.self().pid && Object.keys(entry.holder).length === 1;
  return own ? {} : { refusal: refusalBy(entry) };
}

/** The contract of a back end, and which one is taken. */
import { tryFlock } from "./backend/flock.ts";
import { removeDead, tryPidFile } from "./backend/pidfile.ts";
import type { Session } from "./backend/session.ts";
import { LockUnsupportedError, quote, systemFailure } from "./errors.ts";
import type { LockBackend, Settings } from "./options.ts";
import type { LockHolder } from "./record.ts";
import { type System, SystemError } from "./sys/sys.ts";

/** A lock that is held. */
export interface Hold {
  /** Names this hold among all others: how a thread knows that it waits for itself. */
  readonly token: string;
  /** The last holder, where that one died without releasing. */
  readonly stale: LockHolder | undefined;
  /**
   * Gives it up. `"lost"`: it was no longer ours, and what stands there was not
   * touched. Throws {@linkcode SystemError} where it could not be given up, and is still held.
   */
  release(): "released" | "lost";
  /**
   * The process ends in order: removes what would report a crash to the next
   * holder. `"held"`: until the very end, when the kernel frees it.
   */
  leave(): "released" | "held";
}

/** A lock that is held by another. */
export interface Refusal {
  /** The token of the hold that is in the way, where it can be told. */
  readonly token: string | undefined;
  /** Finds out who is in the way: asked when somebody wants to be told, not at every try. */
  who(): InTheWay;
}

/** Who is in the way. */
export interface InTheWay {
  /** Where that is known. */
  readonly holder?: LockHolder;
  /** The very Lock object that asks. */
  readonly here?: boolean;
  /** Why it counts as held, unless the holder is known to be alive, here. */
  readonly doubt?: string;
}

/** What one try comes to. */
export type Attempt =
  /** `dead`: a PID file of a dead owner stands beside it. */
  | { readonly hold: Hold; readonly dead?: boolean }
  /** `early`: the kernel was not even asked. */
  | { readonly refusal: Refusal; readonly early?: boolean };

/** One lock file and how it is to be held. */
export interface Request extends Pick<Settings, "mode" | "fileMode" | "label"> {
  readonly path: string;
}

/** The errors by which a system says that there is no kernel lock to be had. */
const NO_KERNEL_LOCK = new Set(["ENOSYS", "EOPNOTSUPP", "ENOTSUP", "ENOLCK"]);

/** The choice of a back end for one lock, made at its first try and kept. */
export class Choice {
  /** Which one; undefined until it is known. */
  taken: LockBackend | undefined;
  /** Why that one, in words. */
  reason = "nothing was tried yet";
  readonly #sys: System;
  readonly #wish: Settings["backend"];

  /** `wish` is the option; nothing is asked of the system yet. */
  constructor(sys: System, wish: Settings["backend"]) {
    this.#sys = sys;
    this.#wish = wish;
  }

  /** One try. Throws {@linkcode LockError}; contention is a {@linkcode Refusal}. */
  attempt(given: Request, session?: Session): Attempt {
    try {
      return this.#attempt({ ...given, path: this.#sys.physical(given.path) }, session);
    } catch (error) {
      throw error instanceof SystemError ? systemFailure("acquire", given.path, error) : error;
    }
  }

  #attempt(request: Request, session: Session | undefined): Attempt {
    if (this.#sys.unsupported) throw unsupported(request, this.#sys.unsupported);
    if (this.taken === undefined && this.#wish === "pidfile") this.#take("pidfile", 'the option backend: "pidfile"');
    if (this.taken === undefined && this.#sys.way === undefined) this.#noKernelLock(request, this.#sys.why);
    if (this.taken !== "pidfile") {
      try {
        return this.#byKernel(request, session);
      } catch (error) {
        if (!(error instanceof SystemError && NO_KERNEL_LOCK.has(error.code))) throw error;
        this.#noKernelLock(request, `there is no kernel lock on this file system: ${error.message}`, error);
      }
    }
    if (request.mode === "shared") {
      throw unsupported(request, `a PID file cannot be held shared (PID file because: ${this.reason})`);
    }
    return tryPidFile(this.#sys, request);
  }

  #byKernel(request: Request, session: Session | undefined): Attempt {
    const attempt = tryFlock(this.#sys, request, session);
    if (!("refusal" in attempt && attempt.early)) this.#take("flock", this.#sys.why);
    if (!("hold" in attempt && attempt.dead)) return attempt;
    const { hold } = attempt;
    return { hold: { ...hold, stale: removeDead(this.#sys, request) ?? hold.stale } };
  }

  #take(backend: LockBackend, reason: string): void {
    this.taken = backend;
    this.reason = reason;
  }

  /** The PID file if it is allowed, else an error. Never a lock that is not one. */
  #noKernelLock(request: Request, reason: string, cause?: SystemError): void {
    // A lock that was already held by the kernel does not turn into another kind between two tries.
    if (this.#wish === "flock" || this.taken === "flock") throw unsupported(request, reason, cause);
    this.#take("pidfile", reason);
  }
}

function unsupported({ path, mode }: Request, reason: string, cause?: SystemError): LockUnsupportedError {
  const message = `Cannot acquire ${quote(path)} (${mode}): ${reason}`;
  return new LockUnsupportedError(message, { code: "ENOTSUP", path, cause });
}

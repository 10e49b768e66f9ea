/** The contract of a back end, and which one is taken. */
import { tryFlock } from "./backend/flock.ts";
import { tryPidFile } from "./backend/pidfile.ts";
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
  /** Gives it up. `"lost"`: it was no longer ours, and what stands there was not touched. */
  release(): "released" | "lost";
}

/** A lock that is held by another. */
export interface Refusal {
  /** The token of the hold that is in the way, where it can be told. */
  readonly token: string | undefined;
  /** Reads who is in the way, where that is known. */
  holder(): LockHolder | undefined;
  /** Why it counts as held, where that is not plain. */
  readonly reason: string | undefined;
}

/** What one try comes to. */
export type Attempt = { readonly hold: Hold } | { readonly refusal: Refusal };

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
  attempt(request: Request, session?: Session): Attempt {
    if (this.#sys.unsupported) throw unsupported(request, this.#sys.unsupported);
    if (this.taken === undefined && this.#wish === "pidfile") this.#take("pidfile", 'the option backend: "pidfile"');
    if (this.taken === undefined && this.#sys.way === undefined) this.#noKernelLock(request, this.#sys.why);
    if (this.taken !== "pidfile") {
      try {
        const attempt = tryFlock(this.#sys, request, session);
        this.#take("flock", this.#sys.why);
        return attempt;
      } catch (error) {
        if (!(error instanceof SystemError)) throw error;
        if (!NO_KERNEL_LOCK.has(error.code)) throw systemFailure("acquire", request.path, error);
        this.#noKernelLock(request, `there is no kernel lock on this file system: ${error.message}`, error);
      }
    }
    if (request.mode === "shared") {
      throw unsupported(request, `a PID file cannot be held shared (PID file because: ${this.reason})`);
    }
    try {
      return tryPidFile(this.#sys, request);
    } catch (error) {
      throw error instanceof SystemError ? systemFailure("acquire", request.path, error) : error;
    }
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

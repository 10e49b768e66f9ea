/** Chooses the back end of a lock at its first try, and keeps to it. */
import { tryFlock } from "./flock.ts";
import { tryPidFile } from "./pidfile.ts";
import { removeDead } from "./remove.ts";
import type { Attempt, Request } from "./contract.ts";
import type { KeptFile } from "./kept.ts";
import { LockUnsupportedError, systemFailure } from "../record/errors.ts";
import type { LockBackend, Settings } from "../record/options.ts";
import { whyNotLocal } from "../record/place.ts";
import { quote } from "../sys/printable.ts";
import { type System, SystemError } from "../sys/contract.ts";

/** The errors by which a system says that there is no kernel lock to be had. */
const NO_KERNEL_LOCK = new Set(["ENOSYS", "EOPNOTSUPP", "ENOTSUP", "ENOLCK"]);

/** The choice of a back end for one lock, made at its first try and kept. */
export class Choice {
  /** Which one; undefined until it is known. */
  taken: LockBackend | undefined;
  /** The reason for it, in words. */
  reason = "nothing was tried yet";
  readonly #sys: System;
  readonly #wish: Settings["backend"];
  readonly #mustBeLocal: boolean;

  /** By the options; nothing is asked of the system yet. */
  constructor(sys: System, { backend, fileSystem }: Pick<Settings, "backend" | "fileSystem">) {
    this.#sys = sys;
    this.#wish = backend;
    this.#mustBeLocal = fileSystem === "local";
  }

  /** One try; `kept`: a waiter's file. Throws {@linkcode LockError}; contention is a {@linkcode Refusal}. */
  attempt(given: Request, kept?: KeptFile): Attempt {
    try {
      const path = this.#sys.physical(given.path);
      const request = path === given.path ? given : { ...given, path };
      if (this.#sys.unsupported) throw unsupported(request, this.#sys.unsupported);
      return this.#mustBeLocal ? this.#locally(request, kept) : this.#attempt(request, kept);
    } catch (error) {
      throw error instanceof SystemError ? systemFailure("acquire", given.path, error) : error;
    }
  }

  /**
   * Looks at the place before each try, so that nothing is made elsewhere, and after the grant: a directory that was
   * local when a daemon started is where another file system is mounted a minute later.
   */
  #locally(request: Request, kept: KeptFile | undefined): Attempt {
    const insist = () => {
      const why = whyNotLocal(this.#sys, request.path);
      if (why) throw unsupported(request, `${why} (fileSystem: "local")`);
    };
    insist();
    const attempt = this.#attempt(request, kept);
    if (!("hold" in attempt)) return attempt;
    try {
      insist();
    } catch (error) {
      attempt.hold.release();
      throw error;
    }
    return attempt;
  }

  #attempt(request: Request, kept: KeptFile | undefined): Attempt {
    if (this.taken === undefined && this.#wish === "pidfile") this.#take("pidfile", 'the option backend: "pidfile"');
    if (this.taken === undefined && this.#sys.way === undefined) this.#noKernelLock(request, this.#sys.why);
    if (this.taken !== "pidfile") {
      try {
        return this.#byKernel(request, kept);
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

  #byKernel(request: Request, kept: KeptFile | undefined): Attempt {
    const attempt = tryFlock(this.#sys, request, kept);
    if (!("refusal" in attempt && attempt.early)) this.#take("flock", this.#sys.why);
    if (!("hold" in attempt && attempt.dead)) return attempt;
    const { hold } = attempt;
    hold.stale = removeDead(this.#sys, request) ?? hold.stale;
    return { hold };
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

/** Chooses the back end of a lock at its first try, and keeps to it. */
import { tryFlock } from "./flock.ts";
import { tryPidFile } from "./pidfile.ts";
import { removeDead } from "./remove.ts";
import type { Attempt, Hold, Request } from "./contract.ts";
import type { KeptFile } from "./kept.ts";
import { DIRECTORY_MODE } from "../record/directory.ts";
import { LockUnsupportedError, systemFailure } from "../record/errors.ts";
import { explainMake } from "../record/explain.ts";
import type { LockBackend, Settings } from "../record/options.ts";
import { whyNotLocal } from "../record/place.ts";
import { nodePath } from "../sys/builtin.ts";
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
  /** Whether the lock's directory is to be made where it is missing. */
  makesDirectory = false;
  readonly #system: () => System;
  readonly #wish: Settings["backend"];
  readonly #mustBeLocal: boolean;

  /** By the options; nothing is asked of the system yet. */
  constructor(system: () => System, { backend, fileSystem }: Pick<Settings, "backend" | "fileSystem">) {
    this.#system = system;
    this.#wish = backend;
    this.#mustBeLocal = fileSystem === "local";
  }

  /** One try; `kept`: a waiter's file. Throws {@linkcode LockError}; contention is a {@linkcode Refusal}. */
  attempt(given: Request, kept?: KeptFile, makesDirectory = this.makesDirectory): Attempt {
    const sys = this.#system();
    try {
      const path = sys.resolveParents(given.path);
      const request = path === given.path ? given : { ...given, path };
      if (sys.unsupported) throw unsupported(request, sys.unsupported);
      // Before the try, so that nothing is made elsewhere, and after the grant: a directory that was local when a
      // daemon started is where another file system is mounted a minute later.
      if (this.#mustBeLocal) insistOnLocal(sys, request);
      const attempt = this.#try(sys, request, kept);
      if (this.#mustBeLocal && "hold" in attempt) insistOnLocal(sys, request, attempt.hold);
      return attempt;
    } catch (error) {
      if (makesDirectory && error instanceof SystemError && error.code === "ENOENT") {
        makeDirectoryOf(sys, given.path);
        return this.attempt(given, kept, false); // once
      }
      throw error instanceof SystemError ? systemFailure("acquire", given.path, error) : error;
    }
  }

  #try(sys: System, request: Request, kept: KeptFile | undefined): Attempt {
    if (this.taken === undefined && this.#wish === "pidfile") this.#take("pidfile", 'the option backend: "pidfile"');
    if (this.taken === undefined && sys.way === undefined) this.#noKernelLock(request, sys.why);
    if (this.taken !== "pidfile") {
      try {
        const attempt = tryFlock(sys, request, kept);
        if (!("refusal" in attempt && attempt.early)) this.#take("flock", sys.why);
        if ("hold" in attempt && attempt.dead) attempt.hold.stale = removeDead(sys, request) ?? attempt.hold.stale;
        return attempt;
      } catch (error) {
        if (!(error instanceof SystemError && NO_KERNEL_LOCK.has(error.code))) throw error;
        this.#noKernelLock(request, `there is no kernel lock on this file system: ${error.message}`, error);
      }
    }
    if (request.mode === "shared") {
      throw unsupported(request, `a PID file cannot be held shared (PID file because: ${this.reason})`);
    }
    return tryPidFile(sys, request);
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

/** Throws where the place is no local disk; what was granted there is given back. */
function insistOnLocal(sys: System, request: Request, granted?: Hold): void {
  try {
    const why = whyNotLocal(sys, request.path);
    if (why) throw unsupported(request, `${why} (fileSystem: "local")`);
  } catch (error) {
    granted?.release();
    throw error;
  }
}

function makeDirectoryOf(sys: System, path: string): void {
  const directory = nodePath().dirname(path);
  try {
    sys.makeDirectory(directory, DIRECTORY_MODE);
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
    throw systemFailure("acquire", path, explainMake(sys, directory, error));
  }
}

function unsupported({ path, mode }: Request, reason: string, cause?: SystemError): LockUnsupportedError {
  const message = `Cannot acquire ${quote(path)} (${mode}): ${reason}`;
  return new LockUnsupportedError(message, { code: "ENOTSUP", path, cause });
}

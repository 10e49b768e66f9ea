/** The contract of a back end, and which one is taken. */
import { tryFlock } from "./backend/flock.ts";
import { tryPidFile } from "./backend/pidfile.ts";
import { removeDead } from "./backend/remove.ts";
import type { KeptFile } from "./backend/kept.ts";
import { LockUnsupportedError, systemFailure } from "./errors.ts";
import type { LockBackend, Settings } from "./options.ts";
import type { LockHolder } from "./record.ts";
import { whyNotLocal } from "./place.ts";
import { quote } from "./sys/printable.ts";
import { type System, SystemError } from "./sys/sys.ts";

/** A process whose number alone stood in the lock file, and what is known of it, in words. */
export interface Named {
  readonly pid: number;
  readonly reason: string;
}

/** A lock that is held. */
export interface Hold {
  /** Names this hold among all others: how a thread knows that it waits for itself. */
  readonly token: string;
  /** The last holder, where that one died without releasing. */
  stale: LockHolder | undefined;
  /** Another program's PID that stood in the lock file, of one that lives. */
  readonly named?: Named;
  /** The descriptor that the lock belongs to, where the runtime shows one. */
  readonly fd: number | undefined;
  /** The file by whose change it may be lost. */
  readonly watched: string;
  /**
   * Whether it is still held; a deleted file is made again, if nobody else was
   * faster. Else why not, in words: it is given up then, and what stands there was not touched.
   */
  verify(): string | undefined;
  /**
   * Verifies, and gives it up. `parting` is called in between, while it is still
   * held. Throws {@linkcode SystemError} where it could not be given up, and is still held.
   */
  release(parting?: () => void): string | undefined;
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
  /** It may have left a record, which cannot be read. */
  readonly unread?: boolean;
  /** How many hold it beside that one. */
  readonly others?: number;
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
  /** Nonces of PID files whose owners a person has declared dead. */
  readonly declaredDead?: ReadonlySet<string>;
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

/** Step 7 of the kernel back end: held. Watched over, and given up. */
import type { Hold, Refusal, Request } from "./contract.ts";
import type { Named } from "../record/in_the_way.ts";
import type { LockHolder } from "../record/record.ts";
import { type OpenFile, type System, SystemError } from "../sys/contract.ts";
import type { Announcement } from "./announce.ts";
import { CLOSED } from "../record/messages.ts";
import { closeOurs, isOurs, showsLock, UNLOCKED } from "./descriptor.ts";
import { type Opened, regular } from "./open.ts";

/** A lock file, locked, and the record in it. */
export interface Taken {
  readonly file: OpenFile;
  /** Which file it is. */
  readonly token: string;
  readonly announcement: Announcement;
}

/** Steps 2 to 7 on a file that was made again. */
type Again = (made: Opened) => Taken | { readonly refusal: Refusal } | undefined;

/** The kernel's lock on the file at a path, whichever file that is. */
export class KernelHold implements Hold {
  stale: LockHolder | undefined;
  readonly named: Named | undefined;
  readonly watched: string;
  readonly #sys: System;
  readonly #request: Request;
  readonly #again: Again;
  #taken: Taken;
  /** Deleted files that are still locked: a flock(1) that waits for one must not enter now. */
  readonly #former: Taken[] = [];
  readonly #since = performance.now();
  /** Whether the kernel has shown the lock on the descriptor. */
  #shown = false;
  /** The file whose descriptor the caller has asked for, for a child. */
  #lent: OpenFile | undefined;

  constructor(sys: System, request: Request, taken: Taken, again: Again) {
    this.#sys = sys;
    this.#request = request;
    this.#taken = taken;
    this.#again = again;
    this.stale = taken.announcement.stale;
    this.named = taken.announcement.named;
    this.watched = request.path;
  }

  get token(): string {
    return this.#taken.token;
  }

  get fd(): number | undefined {
    if (!isOurs(this.#taken)) return undefined; // a child would get another file; `verify` tells of the loss
    const { fd } = this.#taken.file;
    if (fd !== undefined) this.#lent = this.#taken.file;
    return fd;
  }

  verify(): string | undefined {
    return this.#whyNotOurs() ?? this.#verifyPath();
  }

  /** Our descriptor first: what is no longer ours is neither made again nor closed. */
  #whyNotOurs(): string | undefined {
    if (!isOurs(this.#taken)) {
      this.#close();
      return CLOSED;
    }
    const shown = showsLock(this.#sys, this.#taken.file);
    if (shown === false && this.#shown) {
      this.#closeFormer(); // and leaves this one open: its number may be other code's descriptor of the same file
      return UNLOCKED;
    }
    this.#shown = shown === true;
    return undefined;
  }

  #verifyPath(): string | undefined {
    let there: string | undefined;
    try {
      there = this.#sys.stat(this.#request.path)?.identity;
    } catch (error) {
      if (!(error instanceof SystemError)) throw error;
      if (error.code !== "ENOTDIR") return undefined; // it cannot be looked at; nothing says that it is lost
    }
    if (there === this.token) return undefined;
    const reason = !isOurs(this.#taken) ? CLOSED : there === undefined ? this.#makeAgain() : REPLACED;
    if (reason !== undefined) this.#close();
    return reason;
  }

  /** Only a file that was not there is made: one that was may have been locked and released by another. */
  #makeAgain(): string | undefined {
    const { path, fileMode } = this.#request;
    if (this.#former.length === FORMER_LIMIT) return `${DELETED} again and again`;
    try {
      const taken = this.#again(regular(this.#sys.openLock(path, "make", fileMode), true));
      if (!taken || "refusal" in taken) return `${DELETED}, and another process was faster to take its place`;
      this.#former.push(this.#taken);
      this.#taken = taken;
      this.#shown = false;
      return undefined;
    } catch (error) {
      if (!(error instanceof SystemError)) throw error;
      return error.code === "EEXIST" ? REPLACED : `${DELETED}, and cannot be made again: ${error.message}`;
    }
  }

  release(beforeRelease?: () => void): string | undefined {
    // A hold that is as short has no watcher either, and for it these looks would cost much of the whole.
    const isShort = performance.now() - this.#since < SHORT;
    const reason = isShort ? this.#verifyPath() : this.verify();
    if (reason !== undefined) return reason;
    let ours = false;
    try {
      beforeRelease?.();
      ours = this.#taken.announcement.clear(); // nothing but the lock file has that record in it
    } finally {
      ours = this.#close(ours);
    }
    if (!ours) return CLOSED;
    // The child has the deleted file, which no other process will lock.
    const stranded = this.#lent !== undefined && this.#lent !== this.#taken.file;
    return stranded
      ? `${DELETED}, after its descriptor was given away: a child that inherited it has no lock now`
      : undefined;
  }

  onExit(): "held" {
    if (isOurs(this.#taken)) this.#taken.announcement.clear();
    return "held";
  }

  /**
   * By closing, never by LOCK_UN, which would take it from a child that has inherited the descriptor too. `known`: it
   * is ours, without a look; else whether it was. What is not stays open.
   */
  #close(known = false): boolean {
    this.#closeFormer();
    if (!known) return closeOurs(this.#taken);
    this.#taken.file.close();
    return true;
  }

  #closeFormer(): void {
    for (const each of this.#former.splice(0)) closeOurs(each);
  }
}

/** Age below which a release does not check the descriptor, in milliseconds. */
const SHORT = 100;

/** Maximum number of deletions that a hold survives: each costs a descriptor until the release. After that it is lost. */
const FORMER_LIMIT = 16;

const DELETED = "its file was deleted while it was held";
const REPLACED = "its file was deleted or replaced while it was held, and another stands in its place";

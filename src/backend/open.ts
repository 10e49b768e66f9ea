/** Step 1 of the kernel back end: the lock file, open, and why it could not be. */
import type { Request } from "./contract.ts";
import { explain, NOT_WRITABLE, notRegular } from "../record/explain.ts";
import { type Access, type FlockAnswer, type OpenFile, type System, SystemError } from "../sys/contract.ts";
import { parse, RECORD_LIMIT } from "../record/record.ts";
import { isLeased } from "./entry.ts";

/** A lock file, open. */
export interface Opened {
  readonly file: OpenFile;
  readonly writable: boolean;
  /** Which file it is. */
  readonly token: string;
}

/**
 * 1. Made if missing, never truncated; a program is opened to read; read-only where it may not be written: the lock works on that too.
 *
 * `"leased"`: another process has a lease on it, as an NFSv4 server has that delegates the file to a client. The open
 * has asked for its end, and the kernel waits for that up to `fs.lease-break-time`: 45 s, or what the server sets.
 */
export function open(sys: System, { path, fileMode }: Request): Opened | "leased" {
  const program = openProgram(sys, path, fileMode);
  if (program) return program;
  let first: SystemError | undefined;
  for (const access of ["create", "write", "read"] satisfies Access[]) {
    try {
      return regular(sys.openLock(path, access, fileMode), access !== "read");
    } catch (error) {
      if (!(error instanceof SystemError)) throw error;
      if (isLeased(error) && isFile(sys, path)) return "leased";
      first ??= error;
      if (!NOT_WRITABLE.has(error.code)) throw explain(sys, path, first);
    }
  }
  throw explain(sys, path, first!); // `!`: each of the three has failed
}

/**
 * A file with an execute bit and content that is not ours, to read. While any process has a program open for writing, the
 * kernel starts it for none (ETXTBSY): a script that is its own lock file, as in flock(1)'s manual page, could not run.
 */
function openProgram(sys: System, path: string, fileMode: number): Opened | undefined {
  let file: OpenFile | undefined;
  try {
    const stat = sys.stat(path);
    if (stat?.kind !== "file" || stat.size === 0 || !((stat.mode ?? 0) & 0o111)) return undefined;
    file = sys.openLock(path, "read", fileMode);
    if (parse(file.read(RECORD_LIMIT + 1)).kind === "foreign") return regular(file, false);
  } catch (error) {
    if (!(error instanceof SystemError)) throw error; // may not be read, or is gone: the usual way says so
  }
  file?.close();
  return undefined;
}

/** Refuses what is no regular file, and closes it. */
export function regular(file: OpenFile, writable: boolean): Opened {
  try {
    const stat = file.stat();
    if (stat.kind !== "file") throw new SystemError("EINVAL", notRegular(stat));
    return { file, writable, token: stat.identity };
  } catch (error) {
    file.close();
    throw error;
  }
}

/** Once more, to read and write. `failure`: what the other way came to. */
export function reopen(sys: System, { path, fileMode }: Request, failure: SystemError): Opened | "leased" {
  let file: OpenFile;
  try {
    file = sys.openLock(path, "write", fileMode);
  } catch (error) {
    if (isLeased(error)) return "leased";
    if (failure.code !== "EBADF") throw failure; // that it cannot be opened for writing either is not the user's problem
    const words = `${failure.message}: on NFSv4 an exclusive lock takes the right to write the file`;
    throw new SystemError("EBADF", words, { cause: failure });
  }
  return regular(file, true);
}

/**
 * What the answer to step 2 means. EACCES is how an SMB mount says "held". A local disk never does: there a security
 * policy denies the call, and a waiter would wait for ever (a snap under AppArmor: canonical/prompting-client#92).
 */
export function isHeld(sys: System, path: string, answer: FlockAnswer): boolean {
  if (answer !== "denied") return answer === "held";
  if (sys.fileSystem(path) !== "local") return true;
  throw new SystemError("EACCES", DENIED);
}

const DENIED = "flock(2) answered EACCES, which on a local disk is no holder but a security policy " +
  '(AppArmor: "wk", SELinux: "lock"; the kernel\'s log has it): it must be allowed';

/** A device may answer the same. */
function isFile(sys: System, path: string): boolean {
  try {
    return sys.stat(path)?.kind === "file";
  } catch (error) {
    if (error instanceof SystemError) return false;
    throw error;
  }
}

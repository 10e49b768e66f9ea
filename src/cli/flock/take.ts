/** Opens and locks, as flock(1) does; what went wrong is a status and a message. */
import { LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN } from "../../sys/libc.ts";
import { block } from "../../sys/block.ts";
import type { ByteString } from "../../sys/bytes.ts";
import type { CommandCalls, How } from "../../sys/command.ts";
import { SystemError } from "../../sys/contract.ts";
import { Wait } from "../../wait/wait.ts";
import { EX_CANTCREAT, EX_DATAERR, EX_NOINPUT, EX_OSERR, type Settings } from "./settings.ts";

/** Why there is no lock. */
export interface Failure {
  readonly status: number;
  /** undefined: only said with `--verbose`. */
  readonly message?: string;
  readonly verbose?: string;
}

/** The lock, and the descriptor that holds it. */
export interface Taken {
  readonly fd: number;
  /** Seconds. */
  readonly took: number;
}

const LOCK = { shared: LOCK_SH, exclusive: LOCK_EX, unlock: LOCK_UN } as const;

/** The longest timeout that a timer of the kernel takes, as 64-bit seconds. */
const LONGEST = 2 ** 63;

/**
 * Opens the file to read, and makes it if it is missing. Never O_CREAT on a file
 * that is there: fs.protected_regular would refuse another user's in /tmp.
 */
function openFile(calls: CommandCalls, path: ByteString, how: How): number | SystemError {
  for (let attempt = 0;; attempt++) {
    const found = calls.open(path, how);
    if (how !== "r" && found instanceof SystemError && found.code === "EISDIR") return calls.open(path, "r");
    if (how !== "r" || !(found instanceof SystemError) || found.code !== "ENOENT") return found;
    const made = calls.open(path, "a+");
    // Another user has made it since, and lets us read it only: again.
    if (made instanceof SystemError && made.code === "EACCES" && attempt === 0) continue;
    return made;
  }
}

function cannotOpen(path: ByteString, { code, message }: SystemError): Failure {
  const status = /^(?:ENOMEM|EMFILE|ENFILE)$/.test(code)
    ? EX_OSERR
    : code === "EROFS" || code === "ENOSPC"
    ? EX_CANTCREAT
    : EX_NOINPUT;
  return { status, message: `cannot open lock file ${path}: ${message}` };
}

/** Milliseconds of waiting; 0 is one try. A string is what a timer would answer. */
function patience({ nonblock, timeout }: Settings): number | string {
  if (timeout === undefined) return nonblock ? 0 : Infinity;
  const microseconds = Math.trunc(timeout * 1e6);
  // A timer takes no negative time and none that is no number.
  if (!(microseconds >= 0 && timeout < LONGEST)) return "cannot set up timer: Invalid argument";
  return nonblock ? 0 : microseconds / 1000;
}

/** Takes the lock that the settings ask for. */
export function take(calls: CommandCalls, settings: Settings, clock: () => number): Taken | Failure {
  const { mode, range, target, conflict } = settings;
  const file = typeof target === "number" ? undefined : target.file;
  // fcntl(2) wants a descriptor to write for an exclusive lock.
  let how: How = range && mode === "exclusive" ? "a" : "r";
  let fd: number | SystemError = typeof target === "number" ? target : openFile(calls, target.file, how);
  if (fd instanceof SystemError) return cannotOpen(file ?? "", fd);

  const timeout = patience(settings);
  if (typeof timeout === "string") return { status: EX_OSERR, message: timeout };
  const operation = LOCK[mode] | (timeout === Infinity ? 0 : LOCK_NB);
  const attempt = (fd: number): SystemError | undefined => {
    // The runtime's own descriptors have numbers too, and a lock on one of them would be none.
    if (file === undefined && !calls.inherited(fd)) return new SystemError("EBADF", "Bad file descriptor");
    return range ? calls.lockRange(fd, operation, range) : calls.flock(fd, operation);
  };

  const began = clock();
  const wait = new Wait(timeout, clock);
  for (;;) {
    const failure = attempt(fd);
    if (!failure) return { fd, took: (clock() - began) / 1000 };
    const { code, message } = failure;
    // Of a range it may mean the same (fcntl(2)). Of a file only on SMB: on a local disk a security policy denies it.
    const isHeld = code === "EWOULDBLOCK" || (code === "EACCES" && (range !== undefined || !calls.isLocal(fd)));
    if (isHeld) {
      if (timeout === 0) return { status: conflict, verbose: "failed to get lock" };
      if (wait.over) return { status: conflict, verbose: "timeout while waiting to get lock" };
      block(wait.next());
      continue;
    }
    // NFS makes a lock of the whole file of it, which an exclusive one needs write access for.
    const again = (code === "EIO" || code === "EBADF") && how !== "a+" && mode !== "shared";
    if (again && file !== undefined && calls.access(file, "read and write")) {
      calls.close(fd);
      how = "a+";
      fd = openFile(calls, file, how);
      if (fd instanceof SystemError) return cannotOpen(file, fd);
      continue;
    }
    const status = code === "ENOLCK" || code === "ENOMEM" ? EX_OSERR : EX_DATAERR;
    return { status, message: `${file ?? fd}: ${message}` };
  }
}

/**
 * A file is opened and looked at through `node:fs`, which all three runtimes have. It opens
 * close-on-exec in every one of them, and its descriptors are the system's own.
 */
import type { BigIntStats } from "node:fs";
import { fs } from "./builtin.ts";
import { type Making, openAsItStands } from "./careful.ts";
import { errnoName, osErrorName } from "./errno.ts";
import { O_NOCTTY } from "./libc.ts";
import { type Access, type FileStat, type FlockAnswer, type OpenFile, SystemError } from "./contract.ts";

/** What a file is opened for. "publish": as "make", to write only. */
type Purpose = Access | "append" | "publish";

/** The flags of an open, by what it is for. Not at import: `node:fs` is loaded when it is needed. */
function flagsOf(purpose: Purpose): number {
  const { O_RDWR, O_RDONLY, O_WRONLY, O_CREAT, O_EXCL, O_APPEND, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = fs().constants;
  // O_NOFOLLOW: a planted symlink made another lock truncate its target
  // (filelock, CVE-2025-68146). O_NONBLOCK: opening a FIFO waits for its other
  // end (gup#462). O_NOCTTY: a terminal must not become ours.
  const safe = O_NOFOLLOW | O_NONBLOCK | (O_NOCTTY[process.platform] ?? 0);
  const flags: Record<Purpose, number> = {
    make: O_RDWR | O_CREAT | O_EXCL,
    create: O_RDWR | O_CREAT,
    write: O_RDWR,
    read: O_RDONLY,
    append: O_RDWR | O_CREAT | O_APPEND,
    publish: O_WRONLY | O_CREAT | O_EXCL,
  };
  return flags[purpose] | safe;
}

/** Whether an open makes the file. */
export const MAKING: Record<Purpose, Making> = {
  make: "must",
  create: "may",
  write: "never",
  read: "never",
  append: "may",
  publish: "must",
};

/** What a try takes: where a runtime can, they are libc's own (`linux.ts`). */
export interface Primitives {
  open(path: string, access: Access, mode: number, flock: Flock): OpenFile;
  /** undefined where nothing is there. */
  lstat(path: string): FileStat | undefined;
  /** The same of what a symlink leads to. */
  stat(path: string): FileStat | undefined;
}

/** The lock call that a runtime has, on a descriptor. */
export type Flock = (fd: number, mode: "exclusive" | "shared") => FlockAnswer;

/** What a failed `flock` with LOCK_NB means. */
export function contention(code: string, detail = ""): "held" | "denied" {
  if (code === "EACCES") return "denied";
  if (code === "EWOULDBLOCK" || code === "EAGAIN") return "held";
  throw new SystemError(code, detail || `flock(2) answered ${code}`);
}

/** A file of the PID-file back end that has a nonce in its name. */
export const NONCED = /\.pid\.(?:tmp-\d+-)?(?:[0-9a-f]{32}|ino-[\d-]+)$/;

/**
 * The path whose permission is asked for: for a name with a nonce its directory, which that takes anyway. Deno keeps
 * every path that it was ever asked about: 1 kB for each acquisition by PID file.
 */
export const withoutNonce = (path: string): string => NONCED.test(path) ? path.replace(/(.)\/[^/]*$/, "$1") : path;

/** Whether the runtime lets this process read or write a path. Never prompts. */
export type Permits = (kind: "read" | "write", path: string) => boolean;

/** Runs a file call and turns what it throws into a {@linkcode SystemError}. */
export function retryOnEintr<T>(call: () => T): T {
  for (;;) {
    try {
      return call();
    } catch (error) {
      const failure = asSystemError(error);
      if (failure.code !== "EINTR") throw failure;
    }
  }
}

function asSystemError(error: unknown): SystemError {
  if (error instanceof SystemError) return error;
  const { code, name, message, errno } = error as NodeJS.ErrnoException; // every runtime throws Errors here
  // The permission models of Deno and of Node.
  if (name === "NotCapable" || code === "ERR_ACCESS_DENIED") {
    return new SystemError("EACCES", message, { cause: error });
  }
  if (name === "BadResource") return new SystemError("EBADF", message, { cause: error }); // Deno's, of a closed file
  // Each names the errors that it knows. Of others Deno says UNKNOWN or shows the number, Node "Unknown system error
  // -122": so EDQUOT, where a user's quota is used up, was not known for what it is.
  const exact = osErrorName(process.platform, message);
  const names = [code, exact];
  // Deno names Windows' errors by libuv's table, where 1 is EISDIR, and 5 EPERM: not as kernel32's are named here.
  if (process.platform === "win32") names.reverse();
  const known = names.find((name) => name !== undefined && /^E[A-Z0-9]+$/.test(name));
  const numbered = errno === undefined ? undefined : errnoName(process.platform, Math.abs(errno));
  return new SystemError(known ?? numbered ?? exact ?? "EIO", message, { cause: error });
}

/** Linux's inode numbers are unsigned; some runtimes show the large ones as negative. */
const unsigned = (number: bigint) => BigInt.asUintN(64, number);

function describe(stat: BigIntStats): FileStat {
  const inode = unsigned(stat.ino);
  // Deno rounds an inode number beyond 2^53; there its birth tells twins apart.
  const twin = inode > Number.MAX_SAFE_INTEGER ? `:${stat.birthtimeNs / 1_000_000_000n}` : "";
  return {
    kind: stat.isFile()
      ? "file"
      : stat.isDirectory()
      ? "directory"
      : stat.isSymbolicLink()
      ? "symlink"
      : stat.isFIFO()
      ? "fifo"
      : stat.isSocket()
      ? "socket"
      : "device",
    identity: `${unsigned(stat.dev)}:${inode}${twin}`,
    // Rounded as the coarsest runtime rounds it: what is named after it must have one name in all.
    inode: String(BigInt(Number(inode))),
    size: Number(stat.size),
    changed: Number(stat.ctimeNs / 1_000_000_000n),
    // On Windows a runtime makes both up.
    ...(process.platform === "win32" ? {} : { uid: Number(stat.uid), mode: Number(stat.mode) & 0o7777 }),
  };
}

/**
 * Why open(2) failed, where the BSDs call it otherwise. FreeBSD says EMLINK of a symlink that it must not follow, and
 * nothing else by it (open(2), STANDARDS). EOPNOTSUPP is a socket's: of a lock file it would read as "there is no
 * kernel lock here", and a PID file be made beside the socket.
 */
export function openFailure(platform: string, { code, message, cause }: SystemError): SystemError {
  const bsd = platform === "darwin" || platform === "freebsd";
  const name = platform === "freebsd" && code === "EMLINK"
    ? "ELOOP"
    : bsd && (code === "EOPNOTSUPP" || code === "ENOTSUP")
    ? "ENXIO"
    : code;
  return new SystemError(name, message, { cause });
}

type Open = (path: string, purpose: Purpose, mode: number, flock: Flock) => OpenFile;

function opened(open: () => number): number {
  try {
    return retryOnEintr(open);
  } catch (error) {
    throw error instanceof SystemError ? openFailure(process.platform, error) : error;
  }
}

/** Opens and keeps the descriptor. */
export const openFile: Open = (path, purpose, mode, flock) => openWith(path, flagsOf(purpose), mode, flock);

function openWith(path: string, flags: number, mode: number, flock: Flock): OpenFile {
  const { closeSync, fstatSync, ftruncateSync, openSync, readSync, writeSync } = fs();
  const fd = opened(() => openSync(path, flags, mode));
  return {
    fd,
    stat: () => retryOnEintr(() => describe(fstatSync(fd, { bigint: true }))),
    read: (limit) =>
      retryOnEintr(() => {
        const buffer = new Uint8Array(limit);
        let length = 0;
        while (length < limit) {
          const more = readSync(fd, buffer, length, limit - length, length);
          if (more === 0) break;
          if (more < limit - length) return buffer.subarray(0, length + more); // short: the end of a regular file
          length += more;
        }
        return buffer.subarray(0, length);
      }),
    write: (bytes) =>
      retryOnEintr(() => {
        let done = 0;
        while (done < bytes.length) done += writeSync(fd, bytes, done, bytes.length - done, done);
      }),
    empty: () => retryOnEintr(() => ftruncateSync(fd, 0)),
    flock: (mode) => flock(fd, mode),
    close() {
      try {
        closeSync(fd);
      } catch {
        // EIO and EINTR come after the descriptor is gone (close(2)); it must not be closed twice.
      }
    },
  };
}

/** What stands there; undefined if nothing does. */
export function lstat(path: string): FileStat | undefined {
  const stat = retryOnEintr(() => fs().lstatSync(path, { bigint: true, throwIfNoEntry: false }));
  return stat && describe(stat);
}

/** The same of what a symlink leads to. */
export function stat(path: string): FileStat | undefined {
  const found = retryOnEintr(() => fs().statSync(path, { bigint: true, throwIfNoEntry: false }));
  return found && describe(found);
}

/** The same where the runtime resolves symlinks itself. */
export const openUnresolved: Open = (path, purpose, mode, flock) =>
  openAsItStands(path, MAKING[purpose], {
    lstat,
    open(how) {
      const { O_CREAT, O_EXCL } = fs().constants;
      const flags = flagsOf(purpose);
      return openWith(path, how === "new" ? flags | O_CREAT | O_EXCL : flags & ~(O_CREAT | O_EXCL), mode, flock);
    },
  });

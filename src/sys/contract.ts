/**
 * The contract: what we ask of an operating system. The back ends and the
 * judgement of owners see nothing else, so the same code runs against a
 * kernel and against the model in `tests/explore`.
 */

/** A system call that failed: its errno by name, never by number. */
export class SystemError extends Error {
  override name = "SystemError";
  /** The errno's name, such as `"EACCES"`. */
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** What stands at a path or behind a descriptor. */
export interface FileStat {
  readonly kind: "file" | "directory" | "symlink" | "fifo" | "socket" | "device";
  /** Device and inode as one text: equal if and only if it is the same file. */
  readonly identity: string;
  /** The inode's number as text, rounded to a double beyond 2^53. */
  readonly inode: string;
  /** Bytes. */
  readonly size: number;
  /** Time of the last status change by the file system's own clock, in whole
   * seconds: Deno's `node:fs` has no finer one, and all runtimes must agree. */
  readonly changed: number;
  /** Its owner. Left out where the system has none, as Windows. */
  readonly uid?: number;
  /** Permission bits of `chmod(2)`. With an ACL the group's are its mask. Left out as `uid`. */
  readonly mode?: number;
}

/** How a lock file is opened. None truncates, follows a symlink, or waits on a FIFO. `"make"`: it must not exist. */
export type Access = "make" | "create" | "write" | "read";

/**
 * What came of a try. Contention is `"held"`; every other failure throws, but `"denied"`, which is EACCES: an SMB mount
 * means by it that the lock is held, and a security policy that it denies every lock. The file system tells which (`open.ts`).
 */
export type FlockAnswer = "locked" | "held" | "denied";

/** An open file. Every method throws {@linkcode SystemError}, but `close` never. */
export interface OpenFile {
  /** The descriptor, where the runtime shows one. */
  readonly fd: number | undefined;
  stat(): FileStat;
  /** The first bytes, `limit` at most. EBUSY: on Windows, where another open file has them locked. */
  read(limit: number): Uint8Array;
  /** Writes all bytes at the beginning. */
  write(bytes: Uint8Array): void;
  /** Cuts the file to nothing. */
  empty(): void;
  /** One try, never waiting. */
  flock(mode: "exclusive" | "shared"): FlockAnswer;
  /** Gives the lock back alone, where that is a call of its own. May throw. */
  unlock?(): void;
  /** Gives descriptor and lock back to the kernel. */
  close(): void;
}

/** Files. All synchronous; all throw {@linkcode SystemError}. */
export interface FileSystem {
  /** Opens the file that the kernel lock is taken on. */
  openLock(path: string, access: Access, mode: number): OpenFile;
  /** Opens a file to read; undefined where nothing is there. Never follows a symlink, never waits. */
  openRead(path: string): OpenFile | undefined;
  /** Makes a file that did not exist (EEXIST), complete with its content or not at all
   * but for a crash; what a failed write left is removed again. */
  create(path: string, bytes: Uint8Array, mode: number): void;
  /** `lstat(2)`; undefined where nothing is there. */
  stat(path: string): FileStat | undefined;
  link(from: string, to: string): void;
  rename(from: string, to: string): void;
  unlink(path: string): void;
  /**
   * Writes a line at a file's end, which is made if missing; returns its size by
   * then, in bytes. A line there that was torn is ended first. Throws EINVAL for
   * a file that begins otherwise than with `head`.
   */
  append(path: string, line: string, head: string, mode: number): number;
  /** Makes a directory and those above it, where missing. */
  makeDirectory(path: string, mode: number): void;
  /** The names in a directory. */
  list(directory: string): string[];
}

/** Where files lie. */
export interface MountInfo {
  /**
   * The kind of file system that a path is on: `"local"`, or the name of one that
   * is not. undefined where nothing is there, or it cannot be told. Never throws.
   */
  fileSystem(path: string): string | undefined;
  /** `/proc/self/mountinfo`; undefined where there is none, or it may not be read. */
  mounts(): string | undefined;
}

/** A process as the kernel describes it. What could not be learned is left out. */
export interface ProcessInfo {
  /** The kernel's own figure for when it started, as text. */
  readonly startTime?: string;
  /** One letter: `R`, `S`, `D`, `T`, `Z` (zombie), `X` (dead). */
  readonly state?: string;
  /** The process that this id belongs to: another number where it is a thread's id. */
  readonly threadGroup?: number;
  /** Its command line, arguments joined by spaces. */
  readonly command?: string;
  /** Its real user id. */
  readonly uid?: number;
  /** Whether it is in a jail: FreeBSD. */
  readonly jailed?: boolean;
}

/** This process and this machine, as they go into a record. */
export interface Identity {
  readonly pid: number;
  /** The thread's id, where it is not the process's first. */
  readonly thread?: number;
  readonly startTime?: string;
  readonly bootId?: string;
  readonly pidNamespace?: string;
  readonly timeNamespace?: string;
  readonly host?: string;
  readonly uid?: number;
  readonly command?: string;
  /** Such as `deno/2.9.6`. */
  readonly runtime: string;
}

/** A descriptor of a process, and the locks that belong to its open file. */
export interface LockedDescriptor {
  readonly fd: string;
  /** Lines as of `/proc/locks`. */
  readonly locks: string;
}

/** Processes. */
export interface Processes {
  /** Asked once, then remembered: none of it changes while a process lives. */
  self(): Identity;
  /**
   * `kill(pid, 0)`: `"exists"` (EPERM too), `"gone"` (ESRCH), or what prevented the answer. `owner`: the user whose
   * process it is, where that is known.
   */
  exists(pid: number, owner?: number): "exists" | "gone" | SystemError;
  /** undefined where the system does not say. */
  processInfo(pid: number): ProcessInfo | undefined;
  /** `/proc/locks`; undefined where there is none, or it may not be read. */
  kernelLocks(): string | undefined;
  /** Those of a process's descriptors that have locks; undefined where they may not be seen. */
  descriptorLocks(pid: number): readonly LockedDescriptor[] | undefined;
  /** What a process's descriptor is open on; undefined where that may not be seen. */
  descriptorStat(pid: number, fd: string): FileStat | undefined;
  /** All processes, by their ids; undefined where they cannot be listed. */
  all(): number[] | undefined;
  /** Whether a process has a thread, by its id; undefined where that cannot be seen. */
  hasThread(pid: number, thread: number): boolean | undefined;
  /** The id of the thread that asks: of a process's first thread the process's; undefined where it is not told. */
  thread(): number | undefined;
  /** `kill(2)` with a signal by its name. */
  signal(pid: number, name: string): "sent" | "gone" | SystemError;
  resolveParents(path: string): string;
  /** What a symlink holds; undefined where it cannot be read. */
  readLink(path: string): string | undefined;
  /** A file of `/proc/self`, such as `status`; undefined where there is none, or it may not be read. */
  own(file: string): string | undefined;
}

/** By which way this process gets `flock(2)`. */
export type KernelLockWay = "ffi" | "FsFile" | "flock(1)";

/** All of it. */
export interface System extends FileSystem, MountInfo, Processes {
  /** Why there can be no lock of any kind here: an operating system that we do not know yet. */
  readonly unsupported?: string;
  /** Which way the kernel lock is had; undefined where there is none. */
  readonly way: KernelLockWay | undefined;
  /** Why that way and no better one, in words. */
  readonly why: string;
  /** 32 hexadecimal digits, 128 random bits. */
  nonce(): string;
  /** The wall clock, ISO 8601: for people, never for a decision. */
  wallClock(): string;
}

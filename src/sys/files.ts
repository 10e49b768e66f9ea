/**
 * Files, through `node:fs`, which all three runtimes have. It opens
 * close-on-exec in every one of them, and its descriptors are the system's own.
 */
import * as fs from "node:fs";
import { osErrorName } from "./errno.ts";
import { O_NOCTTY } from "./libc.ts";
import { type Access, type Disk, type FileStat, type OpenFile, SystemError } from "./sys.ts";

const { O_RDWR, O_RDONLY, O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = fs.constants;

// O_NOFOLLOW: a planted symlink made another lock truncate its target
// (filelock, CVE-2025-68146). O_NONBLOCK: opening a FIFO waits for its other
// end (gup#462). O_NOCTTY: a terminal must not become ours.
const SAFE = O_NOFOLLOW | O_NONBLOCK | (O_NOCTTY[process.platform] ?? 0);

const ACCESS: Record<Access, number> = {
  create: O_RDWR | O_CREAT | SAFE,
  write: O_RDWR | SAFE,
  read: O_RDONLY | SAFE,
};

/** The lock call that a runtime has, on a descriptor. */
export type Flock = (fd: number, mode: "exclusive" | "shared") => "locked" | "held";

/** Whether the runtime lets this process read or write a path. Never prompts. */
export type Permits = (kind: "read" | "write", path: string) => boolean;

/** Runs a file call and turns what it throws into a {@linkcode SystemError}. */
export function named<T>(call: () => T): T {
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
  const { code, name, message } = error as NodeJS.ErrnoException; // every runtime throws Errors here
  // The permission models of Deno and of Node.
  if (name === "NotCapable" || code === "ERR_ACCESS_DENIED") {
    return new SystemError("EACCES", message, { cause: error });
  }
  // Deno names the common errors only; of others it shows the number.
  return new SystemError(code ?? osErrorName(process.platform, message) ?? "EIO", message, { cause: error });
}

/** Linux's inode numbers are unsigned; some runtimes show the large ones as negative. */
const unsigned = (number: bigint) => BigInt.asUintN(64, number);

function describe(stat: fs.BigIntStats): FileStat {
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
  };
}

function openFile(path: string, flags: number, mode: number, flock: Flock): OpenFile {
  const fd = named(() => fs.openSync(path, flags, mode));
  return {
    fd,
    stat: () => named(() => describe(fs.fstatSync(fd, { bigint: true }))),
    read: (limit) =>
      named(() => {
        const buffer = new Uint8Array(limit);
        let length = 0;
        while (length < limit) {
          const more = fs.readSync(fd, buffer, length, limit - length, length);
          if (more === 0) break;
          length += more;
        }
        return buffer.subarray(0, length);
      }),
    write: (bytes) =>
      named(() => {
        let done = 0;
        while (done < bytes.length) done += fs.writeSync(fd, bytes, done, bytes.length - done, done);
      }),
    empty: () => named(() => fs.ftruncateSync(fd, 0)),
    flock: (mode) => flock(fd, mode),
    close() {
      try {
        fs.closeSync(fd);
      } catch {
        // EIO and EINTR come after the descriptor is gone (close(2)); it must not be closed twice.
      }
    },
  };
}

const noFlock: Flock = () => {
  throw new SystemError("ENOSYS", "there is no flock(2) for this file");
};

/**
 * Opens a file where the runtime resolves symlinks itself before it opens, so
 * that O_NOFOLLOW does nothing: what is opened must be what stands there.
 */
function openUnresolved(path: string, flags: number, mode: number, flock: Flock): OpenFile {
  const look = () => named(() => fs.lstatSync(path, { bigint: true, throwIfNoEntry: false }));
  const refuse = () => {
    throw new SystemError("ELOOP", `${JSON.stringify(path)} is a symlink`);
  };
  if (look()?.isSymbolicLink()) refuse();
  const file = openFile(path, flags, mode, flock);
  const there = look();
  if (!there?.isSymbolicLink()) return file; // replaced by another file: who locks it compares them (step 3)
  file.close();
  return refuse();
}

/** The files of this machine, seen through what this process may do. `resolves`: the runtime resolves symlinks itself. */
export function nodeFiles(flock: Flock, permits: Permits, resolves = false): Disk {
  const open = resolves ? openUnresolved : openFile;
  // Asked first because the call itself would put a question on the terminal.
  const allowed = (kind: "read" | "write", path: string) => {
    if (!permits(kind, path)) {
      const needed = "its directory is what the lock needs: --allow-read=DIR --allow-write=DIR";
      throw new SystemError("EACCES", `this process has no ${kind} permission for ${JSON.stringify(path)}; ${needed}`);
    }
  };
  const lockAllowed = (path: string, access: Access) => {
    allowed("read", path);
    if (access !== "read") allowed("write", path);
  };
  return {
    openLock(path, access, mode) {
      lockAllowed(path, access);
      return open(path, ACCESS[access], mode, flock);
    },
    openRead(path) {
      allowed("read", path);
      // Nearly always there is none, and an error costs more than all the rest of an acquisition.
      if (!named(() => fs.lstatSync(path, { throwIfNoEntry: false }))) return undefined;
      try {
        return open(path, ACCESS.read, 0, noFlock);
      } catch (error) {
        if (error instanceof SystemError && error.code === "ENOENT") return undefined; // gone since
        throw error;
      }
    },
    create(path, bytes, mode) {
      allowed("write", path);
      const file = openFile(path, O_WRONLY | O_CREAT | O_EXCL | SAFE, mode, noFlock);
      try {
        file.write(bytes);
      } catch (error) {
        // A full disk. O_EXCL made it ours a moment ago, if it still is what stands there.
        const there = named(() => fs.lstatSync(path, { bigint: true, throwIfNoEntry: false }));
        if (there && describe(there).identity === file.stat().identity) named(() => fs.unlinkSync(path));
        throw error;
      } finally {
        file.close();
      }
    },
    stat(path) {
      allowed("read", path);
      const stat = named(() => fs.lstatSync(path, { bigint: true, throwIfNoEntry: false }));
      return stat && describe(stat);
    },
    link(from, to) {
      for (const path of [from, to]) lockAllowed(path, "write");
      named(() => fs.linkSync(from, to));
    },
    rename(from, to) {
      for (const path of [from, to]) lockAllowed(path, "write");
      named(() => fs.renameSync(from, to));
    },
    unlink(path) {
      allowed("write", path);
      // Deno's unlink removes an empty directory too.
      if (named(() => fs.lstatSync(path)).isDirectory()) throw new SystemError("EISDIR", `${path} is a directory`);
      named(() => fs.unlinkSync(path));
    },
    list(directory) {
      allowed("read", directory);
      return named(() => fs.readdirSync(directory));
    },
  };
}

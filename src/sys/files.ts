/** What a back end asks of files, seen through what this process may do. */
import { fs } from "./builtin.ts";
import {
  type Flock,
  lstat,
  openFile,
  openUnresolved,
  type Permits,
  type Primitives,
  retryOnEintr,
} from "./primitives.ts";
import { quote } from "./printable.ts";
import { type Access, type FileSystem, SystemError } from "./contract.ts";

/** Of a runtime without permissions: the kernel alone decides. */
export const permitsAll: Permits = () => true;

const noFlock: Flock = () => {
  throw new SystemError("ENOSYS", "there is no flock(2) for this file");
};

/**
 * The files of this machine, seen through what this process may do. `resolves`: the runtime may resolve symlinks
 * itself. `native`: what a try takes, where it can be had without `node:fs`.
 */
export function filesOf(flock: Flock, permits: Permits, resolves: boolean, native?: Primitives): FileSystem {
  const open = resolves ? openUnresolved : openFile;
  const tries = native ?? { open, lstat };
  // Asked first because the call itself would put a question on the terminal.
  const allowed = (kind: "read" | "write", path: string) => {
    if (!permits(kind, path)) {
      const needed = "its directory is what the lock needs: --allow-read=DIR --allow-write=DIR";
      throw new SystemError("EACCES", `this process has no ${kind} permission for ${quote(path)}; ${needed}`);
    }
  };
  const lockAllowed = (path: string, access: Access) => {
    allowed("read", path);
    if (access !== "read") allowed("write", path);
  };
  return {
    openLock(path, access, mode) {
      lockAllowed(path, access);
      return tries.open(path, access, mode, flock);
    },
    openRead(path) {
      if (!native) allowed("read", path);
      // Nearly always there is none, and an error costs more than all the rest of an acquisition.
      const there = tries.lstat(path);
      if (!there) return undefined;
      if (native) allowed("read", path);
      const { kind } = there;
      // A FIFO's other end would be let in by the open itself. A symlink is refused by it.
      if (kind !== "file" && kind !== "symlink") {
        throw new SystemError("EINVAL", `${quote(path)} is a ${kind}, not a file`);
      }
      try {
        return tries.open(path, "read", 0, noFlock);
      } catch (error) {
        if (error instanceof SystemError && error.code === "ENOENT") return undefined; // gone since
        throw error;
      }
    },
    create(path, bytes, mode) {
      allowed("write", path);
      const file = openFile(path, "publish", mode, noFlock);
      try {
        file.write(bytes);
      } catch (error) {
        // A full disk. O_EXCL made it ours a moment ago, if it still is what stands there.
        if (lstat(path)?.identity === file.stat().identity) retryOnEintr(() => fs().unlinkSync(path));
        throw error;
      } finally {
        file.close();
      }
    },
    stat(path) {
      // libc asks nothing on the terminal, and is taken where every path may be read: a question for each look
      // would cost as much as the look.
      if (!native) allowed("read", path);
      return tries.lstat(path);
    },
    link(from, to) {
      for (const path of [from, to]) lockAllowed(path, "write");
      retryOnEintr(() => fs().linkSync(from, to));
    },
    rename(from, to) {
      for (const path of [from, to]) lockAllowed(path, "write");
      retryOnEintr(() => fs().renameSync(from, to));
    },
    unlink(path) {
      allowed("write", path);
      // Deno's unlink removes an empty directory too.
      if (retryOnEintr(() => fs().lstatSync(path)).isDirectory()) {
        throw new SystemError("EISDIR", `${quote(path)} is a directory`);
      }
      retryOnEintr(() => fs().unlinkSync(path));
    },
    append(path, line, head, mode) {
      lockAllowed(path, "create");
      const file = open(path, "append", mode, noFlock);
      try {
        const { kind, size } = file.stat();
        if (kind !== "file") throw new SystemError("EINVAL", `${quote(path)} is a ${kind}, not a file`);
        const [text, last] = [file.read(head.length), new Uint8Array(1)];
        if (size > 0 && new TextDecoder().decode(text) !== head) {
          throw new SystemError("EINVAL", `${quote(path)} holds something else`);
        }
        if (size > 0) retryOnEintr(() => fs().readSync(file.fd!, last, 0, 1, size - 1)); // `!`: openFile shows it
        const bytes = new TextEncoder().encode(size > 0 && last[0] !== 10 ? `\n${line}` : line);
        // `!`: openFile shows it. At once, so that lines of two processes do not mix (O_APPEND, open(2)).
        const written = retryOnEintr(() => fs().writeSync(file.fd!, bytes));
        if (written < bytes.length) throw new SystemError("ENOSPC", "there was room for a part only");
        return size + written;
      } finally {
        file.close();
      }
    },
    makeDirectory(path, mode) {
      allowed("read", path);
      allowed("write", path);
      retryOnEintr(() => fs().mkdirSync(path, { recursive: true, mode }));
    },
    list(directory) {
      allowed("read", directory);
      return retryOnEintr(() => fs().readdirSync(directory));
    },
  };
}

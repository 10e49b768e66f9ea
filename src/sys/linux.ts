/**
 * A lock's files on Linux, through libc: a try is a dozen system calls, and
 * around each `node:fs` spends two to ten times what the call itself takes
 * (Deno 10 to 17 µs for an `lstat`, which is 2 µs); in Deno, loading it takes 17 ms.
 * What is rare (takeovers, the journal, errors in words) is left to `node:fs`.
 */
import { util } from "./builtin.ts";
import type { Bind } from "./abi.ts";
import { errnoName } from "./errno.ts";
import { contention, type Primitives } from "./primitives.ts";
import {
  LINUX_KINDS,
  LINUX_NOFOLLOW,
  LINUX_OPEN,
  LINUX_STATX,
  LINUX_SYMBOLS,
  LOCK_EX,
  LOCK_NB,
  LOCK_SH,
  STATX_WORDS,
} from "./libc.ts";
import { quote } from "./printable.ts";
import { type Access, type FileStat, type FlockAnswer, type OpenFile, SystemError } from "./contract.ts";

const { AT_FDCWD, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH, STATX_BASIC_STATS } = LINUX_STATX;
const { stx_uid, stx_mode, stx_ino, stx_size, stx_ctime, stx_dev_major, stx_dev_minor } = STATX_WORDS;

const ENOENT = 2, EINTR = 4;

/** 64 bits of two words; a number where it is exact. x64 and arm64 have the low one first. */
const wide = (low: number, high: number) => high < 2 ** 21 ? high * 2 ** 32 + low : (BigInt(high) << 32n) + BigInt(low);

/** A struct statx, as words of 32 bits. */
class Stat implements FileStat {
  readonly kind: FileStat["kind"];
  readonly identity: string;
  readonly size: number;
  readonly changed: number;
  readonly uid: number;
  readonly mode: number;
  readonly #ino: number | bigint;

  constructor(words: Uint32Array) {
    const [major, minor] = [words[stx_dev_major], words[stx_dev_minor]];
    // As dev_t of <sys/sysmacros.h>, which stat(2) shows. By arithmetic: bits are lost beyond 32.
    const dev = (minor & 0xff) + (major & 0xfff) * 2 ** 8 + (minor - (minor & 0xff)) * 2 ** 12 +
      (major - (major & 0xfff)) * 2 ** 32;
    this.#ino = wide(words[stx_ino], words[stx_ino + 1]);
    this.kind = LINUX_KINDS[(words[stx_mode] & 0xffff) >> 12] ?? "device";
    this.identity = `${dev}:${this.#ino}`;
    this.size = Number(wide(words[stx_size], words[stx_size + 1]));
    this.uid = words[stx_uid];
    this.mode = words[stx_mode] & 0o7777;
    this.changed = (words[stx_ctime + 1] | 0) * 2 ** 32 + words[stx_ctime];
  }

  get inode(): string {
    return String(BigInt(Number(this.#ino))); // rounded as the coarsest runtime rounds it
  }
}

/** Maximum number of encoded paths that are remembered: a lock's own are the same at every try. */
const PATHS = 64;

/**
 * The calls, bound; undefined where they cannot be had: another architecture, a C library from before statx(2)
 * (glibc 2.28, musl 1.1.24), a kernel before 4.11 or a container that forbids it.
 */
export function linuxFiles(library: string, bind: Bind, errno: () => number): Primitives | undefined {
  const noFollow = LINUX_NOFOLLOW[process.arch];
  if (process.platform !== "linux" || noFollow === undefined) return undefined;
  const { O_RDONLY, O_RDWR, O_CREAT, O_EXCL, O_NOCTTY, O_NONBLOCK, O_CLOEXEC } = LINUX_OPEN;
  const safe = noFollow | O_NONBLOCK | O_NOCTTY | O_CLOEXEC; // why: primitives.ts
  const ACCESS: Record<Access, number> = {
    make: O_RDWR | O_CREAT | O_EXCL | safe,
    create: O_RDWR | O_CREAT | safe,
    write: O_RDWR | safe,
    read: O_RDONLY | safe,
  };
  let libc: ReturnType<Bind>;
  try {
    libc = bind(library, LINUX_SYMBOLS);
  } catch {
    return undefined; // one of the symbols is not there: node:fs has what they do
  }
  const { statx, open, close, flock, pread, pwrite, ftruncate } = libc;

  const encoder = new TextEncoder();
  const encoded = new Map<string, Uint8Array>();
  const pathBytes = (path: string): Uint8Array => {
    let bytes = encoded.get(path);
    if (bytes) return bytes;
    if (path.includes("\0")) throw new SystemError("EINVAL", `${quote(path)} holds a NUL`);
    if (encoded.size >= PATHS) encoded.clear();
    encoded.set(path, bytes = encoder.encode(`${path}\0`));
    return bytes;
  };

  const failure = (number: number, call: string, path = ""): SystemError => {
    const [code, words] = util().getSystemErrorMap?.().get(-number) ?? [errnoName("linux", number), "failed"];
    return new SystemError(code, `${code}: ${words}, ${call}${path && ` ${quote(path)}`}`);
  };

  const words = new Uint32Array(STATX_WORDS.length);
  const struct = new Uint8Array(words.buffer);
  const stat = (directory: number, path: Uint8Array, flag: number, call: string, name?: string) => {
    while (statx(directory, path, flag, STATX_BASIC_STATS, struct) !== 0) {
      const number = errno();
      if (number === ENOENT) return undefined;
      if (number !== EINTR) throw failure(number, call, name);
    }
    return new Stat(words);
  };

  const EMPTY = encoder.encode("\0");
  const buffer = new Uint8Array(8192);

  /** Each call answers -1 if it failed, and errno is read next, before the runtime makes calls of its own. */
  class File implements OpenFile {
    readonly fd: number;

    constructor(path: string, access: Access, mode: number) {
      const bytes = pathBytes(path);
      let fd: number;
      while ((fd = open(bytes, ACCESS[access], mode)) < 0) {
        const number = errno();
        if (number !== EINTR) throw failure(number, "open", path);
      }
      this.fd = fd;
    }

    stat(): FileStat {
      const found = stat(this.fd, EMPTY, AT_EMPTY_PATH, "fstat");
      if (!found) throw failure(ENOENT, "fstat"); // of an open file it cannot be (statx(2))
      return found;
    }

    read(limit: number): Uint8Array {
      const into = limit <= buffer.length ? buffer : new Uint8Array(limit);
      for (let length = 0;;) {
        const more = pread(this.fd, length === 0 ? into : into.subarray(length), limit - length, length);
        if (more < 0) {
          const number = errno();
          if (number === EINTR) continue;
          throw failure(number, "read");
        }
        const short = more < limit - length; // the end of a regular file
        length += more;
        if (short || length === limit) return into.slice(0, length);
      }
    }

    write(bytes: Uint8Array): void {
      for (let done = 0; done < bytes.length;) {
        const more = pwrite(this.fd, done === 0 ? bytes : bytes.subarray(done), bytes.length - done, done);
        if (more < 0) {
          const number = errno();
          if (number === EINTR) continue;
          throw failure(number, "write");
        }
        done += more;
      }
    }

    empty(): void {
      while (ftruncate(this.fd, 0) !== 0) {
        const number = errno();
        if (number !== EINTR) throw failure(number, "ftruncate");
      }
    }

    flock(mode: "exclusive" | "shared"): FlockAnswer {
      while (flock(this.fd, LOCK_NB | (mode === "exclusive" ? LOCK_EX : LOCK_SH)) !== 0) {
        const number = errno();
        if (number !== EINTR) return contention(errnoName("linux", number));
      }
      return "locked";
    }

    close(): void {
      close(this.fd); // EIO and EINTR come after the descriptor is gone (close(2)); never twice
    }
  }

  try {
    if (!stat(AT_FDCWD, pathBytes("/"), AT_SYMLINK_NOFOLLOW, "statx")) return undefined;
  } catch {
    return undefined; // ENOSYS or EPERM: node:fs knows older calls
  }
  return {
    open: (path, access, mode) => new File(path, access, mode),
    lstat: (path) => stat(AT_FDCWD, pathBytes(path), AT_SYMLINK_NOFOLLOW, "lstat", path),
    stat: (path) => stat(AT_FDCWD, pathBytes(path), 0, "stat", path),
  };
}

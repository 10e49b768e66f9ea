/**
 * The C calls that we make, the same in every runtime once its FFI has bound
 * the symbols of `libc.ts`. errno becomes a name here and goes no further.
 */
import { DIRENT, ERRNO_SIGNATURE, hasLinuxKernel, LOCK_EX, LOCK_NB, LOCK_SH, PLATFORMS, symbolsOf } from "./libc.ts";
import { errnoName } from "./errno.ts";
import type { Bind } from "./abi.ts";
import { contention, type Primitives } from "./primitives.ts";
import { linuxFiles } from "./linux.ts";
import { type FlockAnswer, SystemError } from "./contract.ts";

/** The calls, bound. */
export interface Calls {
  /** `flock(2)` with LOCK_NB; EINTR is handled here. */
  flock(fd: number, mode: "exclusive" | "shared"): FlockAnswer;
  /** The files of a lock, where libc has all that a try takes. */
  files(): Primitives | undefined;
  exists(pid: number): "exists" | "gone" | SystemError;
  /** Fills a few bytes at random; whether it could. Node's `crypto` takes 20 ms to load, which is a fifth of a start. */
  random(bytes: Uint8Array): boolean;
  uid(): number;
  hostname(): string | undefined;
  /** A small text file, such as one in `/proc`; undefined if it cannot be read. */
  readText(path: string): string | undefined;
  /** What a symbolic link holds; undefined if it cannot be read. */
  readLink(path: string): string | undefined;
  /** The names in a directory of `/proc`, so Linux's `struct dirent` only; undefined if it cannot be read. */
  list(path: string): string[] | undefined;
  /** The number by which Linux tells file systems apart (statfs(2)); undefined where there is none. */
  fileSystem(path: string): number | undefined;
  /** `kill(2)` with a signal's number. */
  signal(pid: number, number: number): "sent" | "gone" | SystemError;
}

const bytes = (text: string) => new TextEncoder().encode(`${text}\0`);

/** How this thread's `errno` is read, from a library that has its symbol and `memcpy` bound. */
export function errnoReader(libc: ReturnType<Bind>, errnoSymbol: string): () => number {
  // The address is fixed for a thread, so it is asked for once. memcpy and not
  // a pointer view: Deno's view needs an unscoped --allow-ffi.
  const where = libc[errnoSymbol]();
  const word = new Int32Array(1);
  const wordBytes = new Uint8Array(word.buffer);
  /** To be the very next operation after the call: whatever the runtime does in between destroys it. */
  const errno = (): number => {
    libc.memcpy(wordBytes, where, 4);
    return word[0];
  };
  errno(); // the first call may compile its trampoline, and that makes system calls
  return errno;
}

/** Binds the C library. Throws what the runtime's FFI throws. */
export function bindCalls(platform: string, library: string, bind: Bind): Calls {
  const { errnoSymbol } = PLATFORMS[platform];
  const libc = bind(library, { ...symbolsOf(platform), [errnoSymbol]: ERRNO_SIGNATURE });
  const { flock, kill, memcpy, fopen, fread, fclose } = libc;
  const errno = errnoReader(libc, errnoSymbol);
  let files: Primitives | undefined | "not asked" = "not asked";

  return {
    flock(fd, mode) {
      const operation = LOCK_NB | (mode === "exclusive" ? LOCK_EX : LOCK_SH);
      for (;;) {
        if (flock(fd, operation) === 0) return "locked";
        const code = errnoName(platform, errno());
        if (code === "EINTR") continue;
        return contention(code);
      }
    },
    files: () => files === "not asked" ? files = linuxFiles(library, bind, errno) : files,
    exists(pid) {
      if (kill(pid, 0) === 0) return "exists";
      return existence(errnoName(platform, errno()));
    },
    random: (bytes) => libc.getentropy?.(bytes, bytes.length) === 0,
    uid: () => libc.getuid(),
    hostname() {
      const name = new Uint8Array(256);
      if (libc.gethostname(name, name.length - 1) !== 0) return undefined;
      return new TextDecoder().decode(name.subarray(0, name.indexOf(0)));
    },
    readText(path) {
      const stream = fopen(bytes(path), bytes("re"));
      if (!stream) return undefined; // null in Deno and Bun, 0n in Node
      let text = "";
      const part = new Uint8Array(16_384);
      const decoder = new TextDecoder();
      for (;;) {
        const length = Number(fread(part, 1, part.length, stream));
        if (length <= 0) break;
        text += decoder.decode(part.subarray(0, length), { stream: true });
      }
      fclose(stream);
      return text;
    },
    readLink(path) {
      const target = new Uint8Array(4096);
      const length = Number(libc.readlink(bytes(path), target, target.length));
      // -1, which as an unsigned size is a number beyond the buffer
      return length < 0 || length > target.length ? undefined : new TextDecoder().decode(target.subarray(0, length));
    },
    list(path) {
      // FreeBSD has a directory /proc with nothing in it, and its struct dirent is another.
      if (!hasLinuxKernel(platform)) return undefined;
      const directory = libc.opendir(bytes(path));
      if (!directory) return undefined; // null in Deno and Bun, 0n in Node
      const names: string[] = [];
      const entry = new Uint8Array(DIRENT.size);
      for (let found; (found = libc.readdir(directory));) {
        memcpy(entry, found, DIRENT.d_name);
        // Not the whole struct: an entry is no longer than it says, and may end where the memory does.
        const length = Math.min(entry[DIRENT.d_reclen] | (entry[DIRENT.d_reclen + 1] << 8), DIRENT.size);
        memcpy(entry, found, length);
        const name = entry.subarray(DIRENT.d_name, length);
        names.push(new TextDecoder().decode(name.subarray(0, name.indexOf(0))));
      }
      libc.closedir(directory);
      return names;
    },
    fileSystem(path) {
      if (!hasLinuxKernel(platform)) return undefined;
      const struct = new Int32Array(128); // it has 120 bytes where there are 64 bits; the type is its first word
      const result = libc.statfs(bytes(path), new Uint8Array(struct.buffer));
      return result === 0 ? struct[0] : undefined;
    },
    signal(pid, number) {
      if (kill(pid, number) === 0) return "sent";
      const code = errnoName(platform, errno());
      return code === "ESRCH" ? "gone" : new SystemError(code, `kill(2) answered ${code}`);
    },
  };
}

/** `kill(2)` through the runtime, where it may; undefined, or the errno's name. */
export function killByRuntime(pid: number, signal: string | 0): string | undefined {
  try {
    process.kill(pid, signal);
    return undefined;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? "EIO"; // every runtime throws Errors here
  }
}

/** What a failed `kill(pid, 0)` means. */
export function existence(code: string): "exists" | "gone" | SystemError {
  if (code === "EPERM") return "exists";
  if (code === "ESRCH") return "gone";
  return new SystemError(code, `kill(2) answered ${code}`);
}

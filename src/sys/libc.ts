/**
 * Which C library, which symbols, which constants: a line a parameter.
 *
 * Only Linux has been run. The rows marked "from headers" are read off the
 * systems' own headers and were not run here. Every number and name is compared
 * with the header that it is from by `tests/deno_only/platform_tables_test.ts`.
 */

import type { Signature } from "./abi.ts";
import type { FileStat } from "./contract.ts";
import { KERNEL32 } from "./windows/kernel32.ts";

/** Where a system keeps its C library, and what it calls things. */
export interface Platform {
  /** The name that the loader resolves from its own folders, never a guess. */
  readonly library: string;
  /**
   * Where that library may lie, for a Deno whose `--allow-ffi` names paths: a
   * bare name would then be looked for in the current directory first, and a
   * file planted there would be loaded.
   */
  readonly paths: readonly string[];
  /** It is in the loader's own cache, and no file stands there: so since macOS 11. */
  readonly cached?: boolean;
  /** The function that returns the address of this thread's `errno`. */
  readonly errnoSymbol: string;
}

/** `flock(2)`: the operations. The same on every system here. */
export const LOCK_SH = 1, LOCK_EX = 2, LOCK_NB = 4, LOCK_UN = 8;

/** Flags of `open(2)` that `node:fs` does not name. `O_CLOEXEC` is set by the runtimes, and on Linux by us. */
export const O_NOCTTY: Record<string, number> = {
  linux: 0o400, // include/uapi/asm-generic/fcntl.h
  android: 0o400,
  darwin: 0x20000, // <sys/fcntl.h>, from headers
  freebsd: 0x8000, // <sys/fcntl.h>, from headers
};

/** The functions that we call, everywhere. */
export const SYMBOLS = {
  flock: { parameters: ["i32", "i32"], result: "i32" }, // int fd, int operation
  kill: { parameters: ["i32", "i32"], result: "i32" }, // pid_t pid, int sig
  getuid: { parameters: [], result: "u32" },
  getentropy: { parameters: ["buffer", "usize"], result: "i32" }, // void *buffer, size_t length
  gethostname: { parameters: ["buffer", "usize"], result: "i32" }, // char *name, size_t len
  memcpy: { parameters: ["buffer", "pointer", "usize"], result: "pointer" }, // void *dest, const void *src, size_t n
  readlink: { parameters: ["buffer", "buffer", "usize"], result: "usize" }, // const char *path, char *buf, size_t size
  fopen: { parameters: ["buffer", "buffer"], result: "pointer" }, // const char *path, const char *mode
  fread: {
    parameters: ["buffer", "usize", "usize", "pointer"], // void *ptr, size_t size, size_t n, FILE *stream
    result: "usize",
  },
  fclose: { parameters: ["pointer"], result: "i32" }, // FILE *stream
  opendir: { parameters: ["buffer"], result: "pointer" }, // const char *name
  readdir: { parameters: ["pointer"], result: "pointer" }, // DIR *dirp
  // const char *path, struct statfs *buf; another struct on every system, and on Linux its first word is the type
  statfs: { parameters: ["buffer", "buffer"], result: "i32" },
  closedir: { parameters: ["pointer"], result: "i32" }, // DIR *dirp
} as const satisfies Record<string, Signature>;

/** Those that a system has: all are bound or none. bionic has getentropy since API 28, Android 9 (<bits/getentropy.h>). */
export function symbolsOf(platform: string): Record<string, Signature> {
  const { getentropy, ...everywhere } = SYMBOLS;
  return platform === "android" ? everywhere : { ...everywhere, getentropy };
}

/** How `errno`'s address is asked for: `int *f(void)`. */
export const ERRNO_SIGNATURE: Signature = { parameters: [], result: "pointer" };

/** What the files of a lock take on Linux: `linux.ts`. `off_t` has 64 bits wherever a runtime has an FFI. */
export const LINUX_SYMBOLS = {
  // int dirfd, const char *path, int flags, unsigned mask, struct statx *buf
  statx: { parameters: ["i32", "buffer", "i32", "u32", "buffer"], result: "i32" },
  // const char *path, int flags, ... : variadic; on Linux the mode goes where a third parameter goes.
  open: { parameters: ["buffer", "i32", "u32"], result: "i32" },
  close: { parameters: ["i32"], result: "i32" }, // int fd
  flock: { parameters: ["i32", "i32"], result: "i32" }, // int fd, int operation
  // int fd, void *buf, size_t n, off_t offset; half a ssize_t is enough for 8 KiB
  pread: { parameters: ["i32", "buffer", "usize", "usize"], result: "i32" },
  pwrite: { parameters: ["i32", "buffer", "usize", "usize"], result: "i32" },
  ftruncate: { parameters: ["i32", "usize"], result: "i32" }, // int fd, off_t length
} as const satisfies Record<string, Signature>;

/** Flags of Linux's `open(2)`: include/uapi/asm-generic/fcntl.h. */
export const LINUX_OPEN = {
  O_RDONLY: 0,
  O_RDWR: 2,
  O_CREAT: 0o100,
  O_EXCL: 0o200,
  O_NOCTTY: 0o400,
  O_NONBLOCK: 0o4000,
  O_CLOEXEC: 0o2000000,
};

/** `O_NOFOLLOW`, which differs, by `process.arch`: <bits/fcntl.h>. Where it is not known, `node:fs` opens. */
export const LINUX_NOFOLLOW: Record<string, number> = { x64: 0o400000, arm64: 0o100000 };

/** <linux/fcntl.h> and <linux/stat.h>: for `statx(2)`; the same on every architecture. */
export const LINUX_STATX = {
  AT_FDCWD: -100,
  AT_SYMLINK_NOFOLLOW: 0x100,
  AT_EMPTY_PATH: 0x1000,
  STATX_BASIC_STATS: 0x7ff,
};

/** `struct statx` of <linux/stat.h>, the same on every architecture, in words of 32 bits; and how many it has. */
export const STATX_WORDS = {
  stx_uid: 5,
  stx_mode: 7,
  stx_ino: 8,
  stx_size: 10,
  stx_ctime: 24,
  stx_dev_major: 34,
  stx_dev_minor: 35,
  length: 64,
};

/** The types of S_IFMT in <linux/stat.h>, shifted by 12; all else is a device. */
export const LINUX_KINDS: Record<number, FileStat["kind"]> = {
  1: "fifo",
  4: "directory",
  8: "file",
  10: "symlink",
  12: "socket",
};

/**
 * `struct dirent` of Linux in glibc and musl, and in bionic: `d_ino` and `d_off`, 8 bytes each, `d_reclen`, 2 bytes,
 * `d_type`, then `d_name`. Bytes; `size` is the whole.
 */
export const DIRENT = { d_reclen: 16, d_name: 19, size: 280 };

/** <sys/signal.h> of FreeBSD, from headers: Deno has Windows' numbers there, and with them SIGABRT is a SIGTTOU. */
export const FREEBSD_SIGNALS: Record<string, number> = {
  SIGHUP: 1,
  SIGINT: 2,
  SIGQUIT: 3,
  SIGILL: 4,
  SIGTRAP: 5,
  SIGABRT: 6,
  SIGIOT: 6,
  SIGFPE: 8,
  SIGKILL: 9,
  SIGBUS: 10,
  SIGSEGV: 11,
  SIGSYS: 12,
  SIGPIPE: 13,
  SIGALRM: 14,
  SIGTERM: 15,
  SIGURG: 16,
  SIGSTOP: 17,
  SIGTSTP: 18,
  SIGCONT: 19,
  SIGCHLD: 20,
  SIGTTIN: 21,
  SIGTTOU: 22,
  SIGIO: 23,
  SIGXCPU: 24,
  SIGXFSZ: 25,
  SIGVTALRM: 26,
  SIGPROF: 27,
  SIGWINCH: 28,
  SIGINFO: 29,
  SIGUSR1: 30,
  SIGUSR2: 31,
};

/** What the FFI loads: the C library, and on Windows kernel32. */
export const libraryOf = (platform: string): Pick<Platform, "library" | "paths" | "cached"> | undefined =>
  platform === "win32" ? KERNEL32 : PLATFORMS[platform];

/** Whether the kernel is Linux, with its `/proc` and its structures. */
export const hasLinuxKernel = (platform: string): boolean => platform === "linux" || platform === "android";

/** By `process.platform`. */
export const PLATFORMS: Record<string, Platform> = {
  linux: {
    library: "libc.so.6", // glibc; musl answers to it too
    paths: [
      "/lib/x86_64-linux-gnu/libc.so.6",
      "/usr/lib/x86_64-linux-gnu/libc.so.6",
      "/lib/aarch64-linux-gnu/libc.so.6",
      "/usr/lib/aarch64-linux-gnu/libc.so.6",
      "/lib64/libc.so.6",
      "/usr/lib64/libc.so.6",
      "/usr/lib/libc.so.6",
      "/lib/libc.so.6",
    ],
    errnoSymbol: "__errno_location",
  },
  // From headers, not run: <sys/errno.h> of macOS.
  darwin: {
    library: "/usr/lib/libSystem.B.dylib",
    paths: ["/usr/lib/libSystem.B.dylib"],
    cached: true,
    errnoSymbol: "__error",
  },
  // From headers, not run: <errno.h> of FreeBSD.
  freebsd: { library: "libc.so.7", paths: ["/lib/libc.so.7"], errnoSymbol: "__error" },
  // From headers, not run: bionic's <errno.h>.
  android: {
    library: "libc.so",
    paths: ["/apex/com.android.runtime/lib64/bionic/libc.so", "/system/lib64/libc.so"],
    errnoSymbol: "__errno",
  },
};

/**
 * Which C library, which symbols, which constants: a line a parameter.
 *
 * Only Linux has been run. The rows marked "from headers" are read off the
 * systems' own headers and were not run here.
 */

/** A parameter or result, in words that each runtime file translates. */
export type CType = "i32" | "u32" | "usize" | "buffer" | "pointer";

/** One C function. No variadic one: Apple arm64 passes their arguments elsewhere. */
export interface Signature {
  readonly parameters: readonly CType[];
  readonly result: CType;
}

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
  /** The function that returns the address of this thread's `errno`. */
  readonly errnoSymbol: string;
}

/** `flock(2)`: the operations. The same on every system here. */
export const LOCK_SH = 1, LOCK_EX = 2, LOCK_NB = 4;

/** Flags of `open(2)` that `node:fs` does not name. `O_CLOEXEC` is set by the runtimes. */
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
  gethostname: { parameters: ["buffer", "usize"], result: "i32" }, // char *name, size_t len
  memcpy: { parameters: ["buffer", "pointer", "usize"], result: "pointer" }, // void *dest, const void *src, size_t n
  readlink: { parameters: ["buffer", "buffer", "usize"], result: "usize" }, // const char *path, char *buf, size_t size
  fopen: { parameters: ["buffer", "buffer"], result: "pointer" }, // const char *path, const char *mode
  fread: {
    parameters: ["buffer", "usize", "usize", "pointer"], // void *ptr, size_t size, size_t n, FILE *stream
    result: "usize",
  },
  fclose: { parameters: ["pointer"], result: "i32" }, // FILE *stream
} as const satisfies Record<string, Signature>;

/** How `errno`'s address is asked for: `int *f(void)`. */
export const ERRNO_SIGNATURE: Signature = { parameters: [], result: "pointer" };

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

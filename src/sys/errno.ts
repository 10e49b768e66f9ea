/**
 * Error numbers to names, for each system; and the C library's messages to
 * names, for what the flock(1) command prints.
 */
import { windowsErrorName } from "./windows/errors.ts";

/** What all of them number alike: Unix had these before they parted. */
const COMMON: Record<number, string> = {
  1: "EPERM",
  2: "ENOENT",
  3: "ESRCH",
  4: "EINTR",
  5: "EIO",
  6: "ENXIO",
  8: "ENOEXEC",
  9: "EBADF",
  12: "ENOMEM",
  13: "EACCES",
  14: "EFAULT",
  16: "EBUSY",
  17: "EEXIST",
  18: "EXDEV",
  19: "ENODEV",
  20: "ENOTDIR",
  21: "EISDIR",
  22: "EINVAL",
  23: "ENFILE",
  24: "EMFILE",
  26: "ETXTBSY",
  27: "EFBIG",
  28: "ENOSPC",
  29: "ESPIPE",
  30: "EROFS",
  31: "EMLINK",
  32: "EPIPE",
};

/** Linux and Android: include/uapi/asm-generic/errno-base.h and errno.h. */
const LINUX: Record<number, string> = {
  ...COMMON,
  11: "EWOULDBLOCK",
  36: "ENAMETOOLONG",
  37: "ENOLCK",
  38: "ENOSYS",
  39: "ENOTEMPTY",
  40: "ELOOP",
  75: "EOVERFLOW",
  89: "EDESTADDRREQ",
  95: "EOPNOTSUPP",
  107: "ENOTCONN",
  110: "ETIMEDOUT",
  116: "ESTALE",
  122: "EDQUOT",
};

/** What macOS and FreeBSD number alike: their <sys/errno.h>, from headers, not run. */
const BSD: Record<number, string> = {
  ...COMMON,
  35: "EWOULDBLOCK",
  39: "EDESTADDRREQ",
  57: "ENOTCONN",
  60: "ETIMEDOUT",
  62: "ELOOP",
  63: "ENAMETOOLONG",
  66: "ENOTEMPTY",
  69: "EDQUOT",
  70: "ESTALE",
  77: "ENOLCK",
  78: "ENOSYS",
  84: "EOVERFLOW",
};

/** By `process.platform`. */
export const ERRNO: Record<string, Record<number, string>> = {
  linux: LINUX,
  android: LINUX,
  darwin: { ...BSD, 45: "ENOTSUP", 102: "EOPNOTSUPP" }, // two numbers there
  freebsd: { ...BSD, 45: "EOPNOTSUPP" },
};

/** The name of an error number; `errno 71` where it has none here. */
export function errnoName(platform: string, number: number): string {
  return platform === "win32" ? windowsErrorName(number) : ERRNO[platform]?.[number] ?? `errno ${number}`;
}

/** strerror(3) in the C locale: glibc's words, and those of musl, macOS, FreeBSD and bionic where they differ. */
const MESSAGES: Record<string, string> = {
  "Bad file descriptor": "EBADF",
  "Input/output error": "EIO",
  "I/O error": "EIO",
  "No locks available": "ENOLCK",
  "No record locks available": "ENOLCK", // bionic
  "Function not implemented": "ENOSYS",
  "Operation not supported": "EOPNOTSUPP",
  "Not supported": "EOPNOTSUPP",
  "Operation not supported on socket": "EOPNOTSUPP", // macOS, of 102
  "Operation not supported on transport endpoint": "EOPNOTSUPP", // bionic
  "Permission denied": "EACCES",
  "Invalid argument": "EINVAL",
  "Transport endpoint is not connected": "ENOTCONN",
  "Socket not connected": "ENOTCONN", // musl
  "Socket is not connected": "ENOTCONN", // macOS, FreeBSD
  "Connection timed out": "ETIMEDOUT",
  "Operation timed out": "ETIMEDOUT", // musl, macOS, FreeBSD
  "Stale file handle": "ESTALE",
  "Stale NFS file handle": "ESTALE", // macOS, FreeBSD, bionic
};

/** The name behind a message that ends in `: strerror text`, if it is known. */
export function messageErrno(text: string): string | undefined {
  const words = text.trim().split("\n")[0].split(": ").pop() ?? "";
  return Object.hasOwn(MESSAGES, words) ? MESSAGES[words] : undefined;
}

/** The number in a message like Deno's `No locks available (os error 37)`, named. */
export function osErrorName(platform: string, message: string): string | undefined {
  const number = /^[^'"]*\(os error (\d+)\)/.exec(message)?.[1]; // before any path, which may look the same
  return number === undefined ? undefined : errnoName(platform, Number(number));
}

/** The name of a runtime's error, or its words: of ETXTBSY and others Deno gives no code, and a message said "undefined". */
export function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException; // every runtime throws Errors where a call fails
  return code ?? osErrorName(process.platform, message) ?? message;
}

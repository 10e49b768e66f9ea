/**
 * Error numbers to names, for each system; and the C library's messages to
 * names, for what the flock(1) command prints.
 */

/** Linux and Android: include/uapi/asm-generic/errno-base.h and errno.h. */
const LINUX: Record<number, string> = {
  1: "EPERM",
  2: "ENOENT",
  3: "ESRCH",
  4: "EINTR",
  5: "EIO",
  9: "EBADF",
  11: "EWOULDBLOCK",
  12: "ENOMEM",
  13: "EACCES",
  22: "EINVAL",
  27: "EFBIG",
  28: "ENOSPC",
  37: "ENOLCK",
  38: "ENOSYS",
  95: "EOPNOTSUPP",
  116: "ESTALE",
  122: "EDQUOT",
};

/** macOS and FreeBSD: <sys/errno.h> (BSD numbers), from headers, not run. */
const BSD: Record<number, string> = {
  1: "EPERM",
  2: "ENOENT",
  3: "ESRCH",
  4: "EINTR",
  5: "EIO",
  9: "EBADF",
  12: "ENOMEM",
  13: "EACCES",
  22: "EINVAL",
  27: "EFBIG",
  28: "ENOSPC",
  35: "EWOULDBLOCK",
  45: "EOPNOTSUPP", // named ENOTSUP on macOS, where EOPNOTSUPP is 102
  69: "EDQUOT",
  70: "ESTALE",
  77: "ENOLCK",
  78: "ENOSYS",
  102: "EOPNOTSUPP", // macOS only; FreeBSD has no 102
};

/** By `process.platform`. */
export const ERRNO: Record<string, Record<number, string>> = {
  linux: LINUX,
  android: LINUX,
  darwin: BSD,
  freebsd: BSD,
};

/** The name of an error number; `errno 71` where it has none here. */
export function errnoName(platform: string, number: number): string {
  return ERRNO[platform]?.[number] ?? `errno ${number}`;
}

/** strerror(3) in the C locale: glibc's words, then musl's where they differ. */
const MESSAGES: Record<string, string> = {
  "Bad file descriptor": "EBADF",
  "Input/output error": "EIO",
  "I/O error": "EIO",
  "No locks available": "ENOLCK",
  "Function not implemented": "ENOSYS",
  "Operation not supported": "EOPNOTSUPP",
  "Not supported": "EOPNOTSUPP",
  "Permission denied": "EACCES",
  "Invalid argument": "EINVAL",
  "Stale file handle": "ESTALE",
};

/** The name behind a message that ends in `: strerror text`, if it is known. */
export function messageErrno(text: string): string | undefined {
  const words = text.trim().split("\n")[0].split(": ").pop() ?? "";
  return Object.hasOwn(MESSAGES, words) ? MESSAGES[words] : undefined;
}

/** The number in a message like Deno's `No locks available (os error 37)`, named. */
export function osErrorName(platform: string, message: string): string | undefined {
  const number = /\(os error (\d+)\)/.exec(message)?.[1];
  return number === undefined ? undefined : errnoName(platform, Number(number));
}

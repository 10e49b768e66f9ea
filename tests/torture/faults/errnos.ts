/**
 * What each system call of ours may answer: all that its manual page lists (man-pages 6.03, section 2, ERRORS), and
 * beside that what was met in the field (CASES.md). EAGAIN is EWOULDBLOCK's number on Linux, so it stands once.
 */
import type { Kind } from "../../support/harness.ts";

/** A page of the manual, and what it lists. */
interface Page {
  readonly page: string;
  readonly errnos: readonly string[];
  /** In no manual page, but seen. */
  readonly field?: readonly string[];
}

const words = (text: string): readonly string[] => text.split(" ");

const STAT = words("EACCES EBADF EFAULT EINVAL ELOOP ENAMETOOLONG ENOENT ENOMEM ENOTDIR EOVERFLOW");
const READ = words("EAGAIN EBADF EFAULT EINTR EINVAL EIO EISDIR");
const WRITE = words("EAGAIN EBADF EDESTADDRREQ EDQUOT EFAULT EFBIG EINTR EINVAL EIO ENOSPC EPERM EPIPE");
const LSEEK = words("EBADF EINVAL ENXIO EOVERFLOW ESPIPE");
const LINK = words(
  "EACCES EBADF EDQUOT EEXIST EFAULT EINVAL EIO ELOOP EMLINK ENAMETOOLONG ENOENT ENOMEM ENOSPC ENOTDIR EPERM EROFS EXDEV",
);
const RENAME = words(
  "EACCES EBADF EBUSY EDQUOT EEXIST EFAULT EINVAL EISDIR ELOOP EMLINK ENAMETOOLONG ENOENT ENOMEM ENOSPC ENOTDIR " +
    "ENOTEMPTY EPERM EROFS EXDEV",
);
const UNLINK = words(
  "EACCES EBADF EBUSY EFAULT EINVAL EIO EISDIR ELOOP ENAMETOOLONG ENOENT ENOMEM ENOTDIR EPERM EROFS",
);
const both = (...lists: (readonly string[])[]) => [...new Set(lists.flat())].sort();

/** By the name that strace has for the call. A runtime makes some of them only: the dry run shows which. */
export const PAGES: Readonly<Record<string, Page>> = {
  openat: {
    page: "open(2)",
    errnos: words(
      "EACCES EAGAIN EBADF EBUSY EDQUOT EEXIST EFAULT EFBIG EINTR EINVAL EISDIR ELOOP EMFILE ENAMETOOLONG ENFILE " +
        "ENODEV ENOENT ENOMEM ENOSPC ENOTDIR ENXIO EOPNOTSUPP EOVERFLOW EPERM EROFS ETXTBSY",
    ),
    field: ["EIO"],
  },
  flock: {
    page: "flock(2)",
    errnos: words("EAGAIN EBADF EINTR EINVAL ENOLCK"),
    field: ["EACCES", "EIO", "ENOSYS", "EOPNOTSUPP"],
  },
  fstat: { page: "stat(2)", errnos: STAT, field: ["EIO"] },
  newfstatat: { page: "stat(2)", errnos: STAT, field: ["EIO"] },
  statx: { page: "statx(2)", errnos: STAT.filter((name) => name !== "EOVERFLOW"), field: ["EIO"] },
  read: { page: "read(2)", errnos: READ },
  pread64: { page: "pread(2): read(2), lseek(2)", errnos: both(READ, LSEEK) },
  lseek: { page: "lseek(2)", errnos: LSEEK },
  write: { page: "write(2)", errnos: WRITE },
  pwrite64: { page: "pwrite(2): write(2), lseek(2)", errnos: both(WRITE, LSEEK) },
  ftruncate: {
    page: "ftruncate(2)",
    errnos: words(
      "EACCES EBADF EFAULT EFBIG EINTR EINVAL EIO EISDIR ELOOP ENAMETOOLONG ENOENT ENOTDIR EPERM EROFS ETXTBSY",
    ),
  },
  link: { page: "link(2)", errnos: LINK },
  linkat: { page: "link(2)", errnos: LINK },
  rename: { page: "rename(2)", errnos: RENAME },
  renameat: { page: "rename(2)", errnos: RENAME },
  unlink: { page: "unlink(2)", errnos: UNLINK },
  unlinkat: { page: "unlink(2)", errnos: UNLINK },
  close: { page: "close(2)", errnos: words("EBADF EDQUOT EINTR EIO ENOSPC") },
  kill: { page: "kill(2)", errnos: words("EINVAL EPERM ESRCH") },
  getdents64: { page: "getdents(2)", errnos: words("EBADF EFAULT EINVAL ENOENT ENOTDIR") },
};

/** All that a call is made to answer. */
export const answersOf = (call: string): string[] => [...PAGES[call].errnos, ...PAGES[call].field ?? []];

/** Calls that look a path up: "there is nothing", of what is there, is false, and nobody could know better. */
const LOOKS = new Set(["openat", "newfstatat", "statx", "link", "linkat", "rename", "renameat", "unlink", "unlinkat"]);

/**
 * Whether an answer is no failure but a statement about the world, and false here. A file that is not there, a lock
 * that is held, a process that is gone: all that a lock knows is what the kernel says of them.
 */
export const isLie = (call: string, errno: string, kind: Kind): boolean =>
  (LOOKS.has(call) && (errno === "ENOENT" || errno === "ENOTDIR" || errno === "EEXIST")) ||
  // Deno without permission for everything makes ENOENT of it.
  (call === "openat" && errno === "ELOOP" && kind === "deno-no-ffi") ||
  (call === "kill" && errno === "ESRCH") || saysHeld(call, errno, kind);

/**
 * How flock(2) says that another holds it; EACCES is how an SMB mount does, and who may not ask for the file system
 * cannot tell it from a security policy (`isHeld` in src/backend/open.ts).
 */
export const saysHeld = (call: string, errno: string, kind: Kind): boolean =>
  call === "flock" && (errno === "EAGAIN" || (errno === "EACCES" && kind === "deno-no-ffi"));

/** How open(2) says that another program has a lease on a file, which counts as held. */
export const saysLeased = (call: string, errno: string): boolean => call === "openat" && errno === "EAGAIN";

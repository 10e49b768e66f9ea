/** What the command line calls of the C library besides; apart, so that a program which only locks does not carry it. */
import type { Signature } from "./abi.ts";
import { SYMBOLS } from "./libc.ts";

/** What a command calls besides: it opens, waits, starts another program or becomes it. */
export const COMMAND_SYMBOLS = {
  ...SYMBOLS,
  _exit: { parameters: ["i32"], result: "i32" }, // int status
  access: { parameters: ["buffer", "i32"], result: "i32" }, // const char *path, int mode
  close: { parameters: ["i32"], result: "i32" }, // int fd
  dup: { parameters: ["i32"], result: "i32" }, // int fd
  dup2: { parameters: ["i32", "i32"], result: "i32" }, // int from, int to
  execvp: { parameters: ["buffer", "buffer"], result: "i32" }, // const char *file, char *const argv[]
  // int fd, int cmd, ... : variadic. As three plain parameters it is right on Linux; elsewhere only for
  // a cmd that takes no third (Apple arm64 looks for a third on the stack).
  fcntl: { parameters: ["i32", "i32", "buffer"], result: "i32" },
  fileno: { parameters: ["pointer"], result: "i32" }, // FILE *stream
  getpgid: { parameters: ["i32"], result: "i32" }, // pid_t pid
  getrlimit: { parameters: ["i32", "buffer"], result: "i32" }, // int resource, struct rlimit *
  setrlimit: { parameters: ["i32", "buffer"], result: "i32" }, // int resource, const struct rlimit *
  pipe: { parameters: ["buffer"], result: "i32" }, // int fds[2]
  posix_spawn_file_actions_addclose: { parameters: ["buffer", "i32"], result: "i32" }, // actions, int fd
  posix_spawn_file_actions_adddup2: { parameters: ["buffer", "i32", "i32"], result: "i32" }, // actions, int from, int to
  posix_spawn_file_actions_init: { parameters: ["buffer"], result: "i32" }, // posix_spawn_file_actions_t *actions
  posix_spawnp: {
    // pid_t *pid, const char *file, actions, const posix_spawnattr_t *attr, char *const argv[], char *const envp[]
    parameters: ["buffer", "buffer", "buffer", "usize", "buffer", "buffer"],
    result: "i32",
  },
  setenv: { parameters: ["buffer", "buffer", "i32"], result: "i32" }, // const char *name, const char *value, int replace
  // int signum, const struct sigaction *act, struct sigaction *oldact
  sigaction: { parameters: ["i32", "buffer", "buffer"], result: "i32" },
  signal: { parameters: ["i32", "usize"], result: "usize" }, // int signum, sighandler_t handler; both as numbers
  strdup: { parameters: ["buffer"], result: "usize" }, // const char *s; the address as a number, to stand in an argv
  strerror: { parameters: ["i32"], result: "pointer" }, // int errnum
  strncpy: { parameters: ["buffer", "pointer", "usize"], result: "pointer" }, // char *dest, const char *src, size_t n
  waitpid: { parameters: ["i32", "buffer", "i32"], result: "i32" }, // pid_t pid, int *status, int options
  write: { parameters: ["i32", "buffer", "usize"], result: "i32" }, // int fd, const void *buf, size_t n; half a ssize_t
} as const satisfies Record<string, Signature>;

/** Commands of `fcntl(2)` without a third argument, and how its answer is masked: the same everywhere. */
export const F_GETFD = 1, F_GETFL = 3, O_ACCMODE = 3;

/** Locks of open file descriptions: include/uapi/asm-generic/fcntl.h of Linux, and bionic. */
export const F_OFD_SETLK = 37, F_OFD_SETLKW = 38;
export const F_RDLCK = 0, F_WRLCK = 1, F_UNLCK = 2;

/** `struct flock` of the same header on a system of 64 bits, in bytes. */
export const LINUX_FLOCK = { l_type: 0, l_start: 8, l_len: 16, size: 32 };

/** For `access(2)`: the same everywhere. */
export const R_OK = 4, W_OK = 2, X_OK = 1;

/** For `signal(3)`: the same everywhere. */
export const SIG_DFL = 0, SIG_IGN = 1;

/** For `getrlimit(2)`, the open files: asm-generic/resource.h of Linux; sys/resource.h of macOS and FreeBSD. */
export const RLIMIT_NOFILE = { linux: 7, bsd: 8 } as const;

/** For `waitpid(2)`: the same everywhere. */
export const WNOHANG = 1;

/** Enough bytes for a `struct sigaction`: 152 in glibc and musl, 32 and less elsewhere. All zeros are SIG_DFL, no flag, no mask. */
export const SIGACTION_SIZE = 256;

/** Enough bytes for a `posix_spawn_file_actions_t`: 80 in glibc and musl; macOS, FreeBSD and bionic have a pointer. */
export const ACTIONS_SIZE = 512;

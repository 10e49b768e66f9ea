/**
 * What each system's headers say of the names and numbers in src/sys: only the
 * lines that matter, without their comments, each with the file that it is from.
 * Those of Linux are also compared with the headers of the machine.
 */

/** Some lines of a header. */
export interface Quotation {
  readonly from: string;
  /** The same file, where a machine with the headers has it. */
  readonly here?: string;
  readonly lines: string;
}

const ERRNO_BASE: Quotation = {
  from: "include/uapi/asm-generic/errno-base.h of torvalds/linux; only mips, alpha, parisc and sparc have others",
  here: "/usr/include/asm-generic/errno-base.h",
  lines: `
#define EPERM 1
#define ENOENT 2
#define ESRCH 3
#define EINTR 4
#define EIO 5
#define ENXIO 6
#define ENOEXEC 8
#define EBADF 9
#define EAGAIN 11
#define ENOMEM 12
#define EACCES 13
#define EFAULT 14
#define EBUSY 16
#define EEXIST 17
#define EXDEV 18
#define ENODEV 19
#define ENOTDIR 20
#define EISDIR 21
#define EINVAL 22
#define ENFILE 23
#define EMFILE 24
#define ETXTBSY 26
#define EFBIG 27
#define ENOSPC 28
#define ESPIPE 29
#define EROFS 30
#define EMLINK 31
#define EPIPE 32
`,
};

const ERRNO: Quotation = {
  from: "include/uapi/asm-generic/errno.h of torvalds/linux at 01b944fe1cd4",
  here: "/usr/include/asm-generic/errno.h",
  lines: `
#define ENAMETOOLONG 36
#define ENOLCK 37
#define ENOSYS 38
#define ENOTEMPTY 39
#define ELOOP 40
#define EWOULDBLOCK EAGAIN
#define EOVERFLOW 75
#define EDESTADDRREQ 89
#define EOPNOTSUPP 95
#define ENOTCONN 107
#define ETIMEDOUT 110
#define ESTALE 116
#define EDQUOT 122
`,
};

const FCNTL: Quotation = {
  from: "include/uapi/asm-generic/fcntl.h of torvalds/linux",
  here: "/usr/include/asm-generic/fcntl.h",
  lines: `
#define O_ACCMODE 00000003
#define O_RDONLY 00000000
#define O_RDWR 00000002
#define O_CREAT 00000100
#define O_EXCL 00000200
#define O_NOCTTY 00000400
#define O_NONBLOCK 00004000
#define O_NOFOLLOW 00400000
#define O_CLOEXEC 02000000
#define F_GETFD 1
#define F_GETFL 3
#define F_OFD_SETLK 37
#define F_OFD_SETLKW 38
#define F_RDLCK 0
#define F_WRLCK 1
#define F_UNLCK 2
#define LOCK_SH 1
#define LOCK_EX 2
#define LOCK_NB 4
#define LOCK_UN 8
`,
};

const ACCESS_AND_SIGNAL: Quotation = {
  from: "<unistd.h> and <bits/signum-generic.h> of glibc 2.36; musl and bionic have the same",
  lines: `
#define R_OK 4
#define W_OK 2
#define X_OK 1
#define SIG_DFL ((__sighandler_t) 0)
#define SIG_IGN ((__sighandler_t) 1)
`,
};

const WAIT: Quotation = {
  from: "include/uapi/linux/wait.h of torvalds/linux; glibc, musl and bionic have the same",
  here: "/usr/include/linux/wait.h",
  lines: "#define WNOHANG 0x00000001",
};

/** By `process.platform`. */
export const HEADERS: Record<string, readonly Quotation[]> = {
  linux: [
    ERRNO_BASE,
    ERRNO,
    FCNTL,
    ACCESS_AND_SIGNAL,
    WAIT,
    {
      from: "include/uapi/linux/fcntl.h of torvalds/linux",
      here: "/usr/include/linux/fcntl.h",
      lines: `
#define AT_FDCWD -100
#define AT_SYMLINK_NOFOLLOW 0x100
#define AT_EMPTY_PATH 0x1000
`,
    },
    {
      from: "include/uapi/linux/stat.h of torvalds/linux",
      here: "/usr/include/linux/stat.h",
      lines: `
#define S_IFMT 00170000
#define S_IFSOCK 0140000
#define S_IFLNK 0120000
#define S_IFREG 0100000
#define S_IFDIR 0040000
#define S_IFIFO 0010000
#define STATX_BASIC_STATS 0x000007ffU
`,
    },
    { from: "<errno.h> of glibc 2.36 and of musl 1.2", lines: "int *__errno_location(void);" },
  ],
  // bionic's <errno.h> includes <linux/errno.h>, its <sys/file.h> <fcntl.h>, and that <linux/fcntl.h>: Linux's numbers.
  android: [
    ERRNO_BASE,
    ERRNO,
    FCNTL,
    ACCESS_AND_SIGNAL,
    WAIT,
    { from: "libc/include/errno.h of aosp-mirror/platform_bionic at 0c3b3df06d74", lines: "int* __errno(void);" },
  ],
  darwin: [
    {
      from: "bsd/sys/errno.h of apple-oss-distributions/xnu at 94d3b4528401, as a program of 64 bits sees it",
      lines: `
extern int * __error(void);
#define EPERM 1
#define ENOENT 2
#define ESRCH 3
#define EINTR 4
#define EIO 5
#define ENXIO 6
#define ENOEXEC 8
#define EBADF 9
#define ENOMEM 12
#define EACCES 13
#define EFAULT 14
#define EBUSY 16
#define EEXIST 17
#define EXDEV 18
#define ENODEV 19
#define ENOTDIR 20
#define EISDIR 21
#define EINVAL 22
#define ENFILE 23
#define EMFILE 24
#define ETXTBSY 26
#define EFBIG 27
#define ENOSPC 28
#define ESPIPE 29
#define EROFS 30
#define EMLINK 31
#define EPIPE 32
#define EAGAIN 35
#define EWOULDBLOCK EAGAIN
#define EDESTADDRREQ 39
#define ENOTSUP 45
#define ENOTCONN 57
#define ETIMEDOUT 60
#define ELOOP 62
#define ENAMETOOLONG 63
#define ENOTEMPTY 66
#define EDQUOT 69
#define ESTALE 70
#define ENOLCK 77
#define ENOSYS 78
#define EOVERFLOW 84
#define EOPNOTSUPP 102
`,
    },
    {
      from: "bsd/sys/fcntl.h of apple-oss-distributions/xnu at 1031c584a5e3",
      lines: `
#define O_ACCMODE 0x0003
#define O_NOCTTY 0x00020000
#define F_GETFD 1
#define F_GETFL 3
#define LOCK_SH 0x01
#define LOCK_EX 0x02
#define LOCK_NB 0x04
#define LOCK_UN 0x08
`,
    },
    {
      from: "bsd/sys/signal.h of apple-oss-distributions/xnu at 1031c584a5e3, and xnu's bsd/sys/unistd.h",
      lines: `
#define SIG_DFL (void (*)(int))0
#define SIG_IGN (void (*)(int))1
#define X_OK (1<<0)
#define W_OK (1<<1)
#define R_OK (1<<2)
`,
    },
    {
      from: "bsd/sys/wait.h of apple-oss-distributions/xnu at e3723e1f1766",
      lines: "#define WNOHANG 0x00000001",
    },
  ],
  freebsd: [
    {
      from: "sys/sys/errno.h of FreeBSD, in sobomax/freebsd14_vendor at 0f7ff3427c99",
      lines: `
int * __error(void);
#define EPERM 1
#define ENOENT 2
#define ESRCH 3
#define EINTR 4
#define EIO 5
#define ENXIO 6
#define ENOEXEC 8
#define EBADF 9
#define ENOMEM 12
#define EACCES 13
#define EFAULT 14
#define EBUSY 16
#define EEXIST 17
#define EXDEV 18
#define ENODEV 19
#define ENOTDIR 20
#define EISDIR 21
#define EINVAL 22
#define ENFILE 23
#define EMFILE 24
#define ETXTBSY 26
#define EFBIG 27
#define ENOSPC 28
#define ESPIPE 29
#define EROFS 30
#define EMLINK 31
#define EPIPE 32
#define EAGAIN 35
#define EWOULDBLOCK EAGAIN
#define EDESTADDRREQ 39
#define EOPNOTSUPP 45
#define ENOTSUP EOPNOTSUPP
#define ENOTCONN 57
#define ETIMEDOUT 60
#define ELOOP 62
#define ENAMETOOLONG 63
#define ENOTEMPTY 66
#define EDQUOT 69
#define ESTALE 70
#define ENOLCK 77
#define ENOSYS 78
#define EOVERFLOW 84
`,
    },
    {
      from: "sys/sys/fcntl.h of FreeBSD, in sobomax/freebsd14_vendor at 0f7ff3427c99",
      lines: `
#define O_ACCMODE 0x0003
#define O_NOCTTY 0x8000
#define F_GETFD 1
#define F_GETFL 3
#define LOCK_SH 0x01
#define LOCK_EX 0x02
#define LOCK_NB 0x04
#define LOCK_UN 0x08
`,
    },
    {
      from:
        "sys/sys/signal.h and sys/sys/unistd.h of FreeBSD, in sobomax/freebsd14_vendor at 4b33055d8aff and 42edb4ec73d9",
      lines: `
#define SIGHUP 1
#define SIGINT 2
#define SIGQUIT 3
#define SIGILL 4
#define SIGTRAP 5
#define SIGABRT 6
#define SIGIOT SIGABRT
#define SIGFPE 8
#define SIGKILL 9
#define SIGBUS 10
#define SIGSEGV 11
#define SIGSYS 12
#define SIGPIPE 13
#define SIGALRM 14
#define SIGTERM 15
#define SIGURG 16
#define SIGSTOP 17
#define SIGTSTP 18
#define SIGCONT 19
#define SIGCHLD 20
#define SIGTTIN 21
#define SIGTTOU 22
#define SIGIO 23
#define SIGXCPU 24
#define SIGXFSZ 25
#define SIGVTALRM 26
#define SIGPROF 27
#define SIGWINCH 28
#define SIGINFO 29
#define SIGUSR1 30
#define SIGUSR2 31
#define SIG_DFL ((__sighandler_t *)0)
#define SIG_IGN ((__sighandler_t *)1)
#define X_OK 0x01
#define W_OK 0x02
#define R_OK 0x04
`,
    },
    { from: "sys/sys/wait.h of FreeBSD, in sobomax/freebsd14_vendor at 4b33055d8aff", lines: "#define WNOHANG 1" },
  ],
};

/** `O_NOFOLLOW` of Linux where it is not the generic one. */
export const NOFOLLOW_ARM64: Quotation = {
  from: "arch/arm64/include/uapi/asm/fcntl.h of torvalds/linux at 30c092337017",
  lines: "#define O_NOFOLLOW 0100000",
};

/** The fields of structures up to the last that we use, in their order. */
export const STRUCTS: Record<string, Quotation> = {
  statx: {
    from: "include/uapi/linux/stat.h of torvalds/linux",
    here: "/usr/include/linux/stat.h",
    lines: `
__u32 stx_mask;
__u32 stx_blksize;
__u64 stx_attributes;
__u32 stx_nlink;
__u32 stx_uid;
__u32 stx_gid;
__u16 stx_mode;
__u16 __spare0[1];
__u64 stx_ino;
__u64 stx_size;
__u64 stx_blocks;
__u64 stx_attributes_mask;
struct statx_timestamp stx_atime;
struct statx_timestamp stx_btime;
struct statx_timestamp stx_ctime;
struct statx_timestamp stx_mtime;
__u32 stx_rdev_major;
__u32 stx_rdev_minor;
__u32 stx_dev_major;
__u32 stx_dev_minor;
`,
  },
  "dirent of glibc": {
    from: "<bits/dirent.h> of glibc 2.36, on a system of 64 bits; musl's <bits/dirent.h> is the same",
    lines: `
__ino_t d_ino;
__off_t d_off;
unsigned short int d_reclen;
unsigned char d_type;
char d_name[256];
`,
  },
  "dirent of bionic": {
    from: "libc/include/dirent.h of aosp-mirror/platform_bionic at 02f9f4cfb666, on a system of 64 bits",
    lines: `
ino_t d_ino;
off64_t d_off;
unsigned short d_reclen;
unsigned char d_type;
char d_name[256];
`,
  },
  flock: {
    from: "include/uapi/asm-generic/fcntl.h of torvalds/linux, on a system of 64 bits",
    here: "/usr/include/asm-generic/fcntl.h",
    lines: `
short l_type;
short l_whence;
__kernel_off_t l_start;
__kernel_off_t l_len;
__kernel_pid_t l_pid;
`,
  },
};

/** What a `posix_spawn_file_actions_t` is. */
export const ACTIONS: Record<string, Quotation> = {
  glibc: {
    from: "<spawn.h> of glibc 2.36; musl has as many bytes",
    lines: "int __allocated;\nint __used;\nstruct __spawn_action *__actions;\nint __pad[16];",
  },
  darwin: { from: "<spawn.h> of macOS", lines: "void *actions;" },
  freebsd: {
    from: "include/spawn.h of FreeBSD, in sobomax/freebsd14_vendor at 42edb4ec73d9",
    lines: "struct __posix_spawn_file_actions *actions;",
  },
  android: {
    from: "libc/include/spawn.h of aosp-mirror/platform_bionic at 01bb7bf6fb6b",
    lines: "struct __posix_spawn_file_actions *actions;",
  },
};

/** As the manual pages in sections 2 and 3 of Linux, macOS and FreeBSD declare them, and POSIX, all alike. */
export const PROTOTYPES = `
int flock(int fd, int operation);
int kill(pid_t pid, int sig);
uid_t getuid(void);
int getentropy(void *buffer, size_t length);
int gethostname(char *name, size_t len);
void *memcpy(void *dest, const void *src, size_t n);
ssize_t readlink(const char *path, char *buf, size_t size);
FILE *fopen(const char *path, const char *mode);
size_t fread(void *ptr, size_t size, size_t n, FILE *stream);
int fclose(FILE *stream);
DIR *opendir(const char *name);
struct dirent *readdir(DIR *dirp);
int closedir(DIR *dirp);
int statfs(const char *path, struct statfs *buf);
int statx(int dirfd, const char *path, int flags, unsigned mask, struct statx *buf);
int open(const char *path, int flags, ...);
int close(int fd);
ssize_t pread(int fd, void *buf, size_t n, off_t offset);
ssize_t pwrite(int fd, const void *buf, size_t n, off_t offset);
int ftruncate(int fd, off_t length);
void _exit(int status);
int access(const char *path, int mode);
int dup(int fd);
int dup2(int from, int to);
int execvp(const char *file, char *const argv[]);
int fcntl(int fd, int cmd, ...);
int fileno(FILE *stream);
pid_t getpgid(pid_t pid);
int getrlimit(int resource, struct rlimit *limits);
int setrlimit(int resource, const struct rlimit *limits);
int pipe(int *fds);
int posix_spawn_file_actions_addclose(posix_spawn_file_actions_t *actions, int fd);
int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *actions, int from, int to);
int posix_spawn_file_actions_init(posix_spawn_file_actions_t *actions);
int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr, char *const argv[], char *const envp[]);
int setenv(const char *name, const char *value, int replace);
int sigaction(int signum, const struct sigaction *act, struct sigaction *oldact);
sighandler_t signal(int signum, sighandler_t handler);
char *strdup(const char *s);
char *strerror(int errnum);
char *strncpy(char *dest, const char *src, size_t n);
pid_t waitpid(pid_t pid, int *status, int options);
ssize_t write(int fd, const void *buf, size_t n);
`;

/** Where each C library is installed. */
export const LIBRARIES: Record<string, Record<string, string>> = {
  linux: {
    "libc.so.6":
      "the soname of glibc (shlib-versions: libc=6); musl's ldso/dynlink.c has `c.` among its reserved names",
    "/lib/x86_64-linux-gnu/libc.so.6": "Debian's libc6 for amd64",
    "/usr/lib/x86_64-linux-gnu/libc.so.6": "the same, where /lib is a link to usr/lib",
    "/lib/aarch64-linux-gnu/libc.so.6": "Debian's libc6 for arm64",
    "/usr/lib/aarch64-linux-gnu/libc.so.6": "the same, where /lib is a link to usr/lib",
    "/lib64/libc.so.6": "Fedora's, SUSE's and Gentoo's glibc: slibdir of x86_64 and aarch64",
    "/usr/lib64/libc.so.6": "the same, where /lib64 is a link to usr/lib64",
    "/usr/lib/libc.so.6": "Arch's glibc",
    "/lib/libc.so.6": "the same, where /lib is a link to usr/lib",
  },
  darwin: {
    "/usr/lib/libSystem.B.dylib":
      "what `otool -L` shows of every program; since macOS 11 in the loader's cache, not on the disk: developer.apple.com/forums/thread/655588",
  },
  freebsd: {
    "libc.so.7": "lib/libc/Makefile, in sobomax/freebsd14_vendor at 0f7ff3427c99: LIB=c, SHLIB_MAJOR= 7",
    "/lib/libc.so.7": "the same file: SHLIBDIR?= /lib",
  },
  android: {
    "libc.so": "the soname of bionic: libc/Android.bp, whose libraries have no version",
    "/apex/com.android.runtime/lib64/bionic/libc.so":
      "since Android 10, by many programs' lists of what is loaded; no file of AOSP was found that says so",
    "/system/lib64/libc.so": "before, and a link since; likewise",
  },
};

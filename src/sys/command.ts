/**
 * The C calls of a command that locks, then starts another program or becomes
 * it, the same in every runtime once its FFI has bound them.
 */
import type { Bind } from "./abi.ts";
import type { CommandCalls } from "./command_contract.ts";
import { errnoReader } from "./calls.ts";
import { type ByteString, byteString, c, fromText } from "./bytes.ts";
import { bindDescriptors } from "./descriptors.ts";
import { shownVariables } from "./environment.ts";
import { addedTo, entriesOf, environmentFor, exactArguments } from "./given.ts";
import { ERRNO_SIGNATURE, hasLinuxKernel, LOCK_NB, LOCK_SH, LOCK_UN, PLATFORMS } from "./libc.ts";
import {
  ACTIONS_SIZE,
  COMMAND_SYMBOLS,
  F_GETFD,
  F_OFD_SETLK,
  F_OFD_SETLKW,
  F_RDLCK,
  F_UNLCK,
  F_WRLCK,
  LINUX_FLOCK,
  R_OK,
  RLIMIT_NOFILE,
  SIG_DFL,
  SIG_IGN,
  SIGACTION_SIZE,
  W_OK,
  WNOHANG,
  X_OK,
} from "./libc_command.ts";
import { errnoName } from "./errno.ts";
import { bindMore, signals, system } from "./mod.ts";
import { SystemError } from "./contract.ts";

export type * from "./command_contract.ts";

/** What a command calls of the C library, or why it cannot. */
export const commandCalls = (): CommandCalls | string => bindMore(bindCommandCalls);

/** Binds the C library. Throws what the runtime's FFI throws. `marks`: see `Runtime.marksInherited`. */
export function bindCommandCalls(platform: string, library: string, bind: Bind, marks: boolean): CommandCalls {
  const { errnoSymbol } = PLATFORMS[platform];
  const { SIGPIPE, SIGXFSZ, SIGCHLD, SIGUSR1 } = signals();
  const libc = bind(library, { ...COMMAND_SYMBOLS, [errnoSymbol]: ERRNO_SIGNATURE });
  const errno = errnoReader(libc, errnoSymbol);

  const named = (number: number): SystemError => {
    const text = new Uint8Array(256);
    libc.strncpy(text, libc.strerror(number), text.length - 1);
    return new SystemError(errnoName(platform, number), byteString(text.subarray(0, text.indexOf(0))));
  };
  /** Calls until it is not interrupted; -1 is failure. */
  const retry = (call: () => number): number | SystemError => {
    for (;;) {
      const result = call();
      if (result !== -1) return result;
      const failure = named(errno());
      if (failure.code !== "EINTR") return failure;
    }
  };
  const failed = (result: number | SystemError) => result instanceof SystemError ? result : undefined;

  /** A `char *[]`. Its strings are never freed: the process is about to end, or to become another. */
  const vector = (strings: readonly ByteString[]) =>
    new Uint8Array(new BigUint64Array([...strings.map((text) => BigInt(libc.strdup(c(text)))), 0n]).buffer);

  /** What stands in a file of `/proc` with a NUL behind each entry; undefined where it cannot be read. */
  const entries = (path: string): ByteString[] | undefined => {
    const stream = libc.fopen(c(path), c("re"));
    if (!stream) return undefined; // null in Deno and Bun, 0n in Node
    let text = "";
    const part = new Uint8Array(16_384);
    for (;;) {
      const length = Number(libc.fread(part, 1, part.length, stream));
      if (length <= 0) break;
      text += byteString(part.subarray(0, length));
    }
    libc.fclose(stream);
    return entriesOf(text);
  };

  const given = () => entries("/proc/self/environ");

  /** What a signal does to this process until the returned function is called; then as before, with all flags. */
  const dispose = (signal: number, how: number) => {
    const before = new Uint8Array(SIGACTION_SIZE);
    libc.sigaction(signal, new Uint8Array(SIGACTION_SIZE), before); // of nothing but zeros: the default action
    if (how !== SIG_DFL) libc.signal(signal, how);
    return () => void libc.sigaction(signal, before, new Uint8Array(SIGACTION_SIZE));
  };

  const filesLimit = RLIMIT_NOFILE[hasLinuxKernel(platform) ? "linux" : "bsd"];
  /** The soft and the hard limit of open files. */
  const fileLimits = (): BigUint64Array<ArrayBuffer> => {
    const limits = new BigUint64Array(2);
    libc.getrlimit(filesLimit, new Uint8Array(limits.buffer));
    return limits;
  };
  /** Sets the soft limit of open files, until the returned function is called. */
  const limitFiles = (soft: number | undefined) => {
    if (soft === undefined) return () => {};
    const before = fileLimits();
    libc.setrlimit(filesLimit, new Uint8Array(new BigUint64Array([BigInt(soft), before[1]]).buffer));
    return () => void libc.setrlimit(filesLimit, new Uint8Array(before.buffer));
  };

  /** Makes `fd` be `at`, for the next program too: what dup2 makes has no close-on-exec. */
  const place = (fd: number, at: number) => {
    const copy = fd === at ? libc.dup(fd) : fd;
    libc.dup2(copy, at);
    if (copy !== fd) libc.close(copy);
  };

  const streams = new Map<number, unknown>();
  const { inherited, passOn } = bindDescriptors(libc, marks);

  return {
    open(path, how) {
      const stream = libc.fopen(c(path), c(`${how}e`));
      if (!stream) return named(errno());
      const fd = libc.fileno(stream);
      streams.set(fd, stream);
      return fd;
    },
    close(fd) {
      libc.fclose(streams.get(fd));
      streams.delete(fd);
    },
    access: (path, what) => libc.access(c(path), what === "run" ? X_OK : R_OK | W_OK) === 0,
    flock: (fd, operation) => failed(retry(() => libc.flock(fd, operation))),
    lockRange(fd, operation, { start, length }) {
      if (!hasLinuxKernel(platform)) {
        return new SystemError("ENOSYS", `no open file description locks on ${platform}`);
      }
      const lock = new DataView(new ArrayBuffer(LINUX_FLOCK.size));
      const kind = operation & LOCK_UN ? F_UNLCK : operation & LOCK_SH ? F_RDLCK : F_WRLCK;
      lock.setInt16(LINUX_FLOCK.l_type, kind, true);
      lock.setBigInt64(LINUX_FLOCK.l_start, BigInt(start), true);
      lock.setBigInt64(LINUX_FLOCK.l_len, BigInt(length), true);
      const command = operation & LOCK_NB ? F_OFD_SETLK : F_OFD_SETLKW;
      return failed(retry(() => libc.fcntl(fd, command, new Uint8Array(lock.buffer))));
    },
    isLocal: (fd) => system().fileSystem(`/proc/self/fd/${fd}`) === "local",
    write(fd, text) {
      let rest = c(text).subarray(0, text.length);
      while (rest.length > 0) {
        const done = retry(() => libc.write(fd, rest, rest.length));
        if (done instanceof SystemError) return done;
        rest = rest.subarray(done);
      }
      return undefined;
    },
    inherited,
    passOn: () => passOn((fd) => !streams.has(fd)),
    defaultSignals() {
      // All three runtimes ignore the first, two the second; where our caller ignores the third, waitpid(2) fails.
      for (const signal of [SIGPIPE, SIGXFSZ, SIGCHLD]) libc.signal(signal, SIG_DFL);
      // Node starts a debugger on it. Where it is ignored, the parent process wanted that.
      if (Number(libc.signal(SIGUSR1, SIG_DFL)) === SIG_IGN) libc.signal(SIGUSR1, SIG_IGN);
    },
    pipe() {
      const ends = new Int32Array(2);
      const done = retry(() => libc.pipe(new Uint8Array(ends.buffer)));
      return done instanceof SystemError ? done : { from: ends[0], to: ends[1] };
    },
    shut: (fd) => void libc.close(fd),
    mostFiles: () => fileLimits()[1],
    isInGroup: (pid) => libc.getpgid(pid) === libc.getpgid(0),
    spawn(argv, { fd, at, ignored = [], streams, files } = {}) {
      const actions = new Uint8Array(ACTIONS_SIZE);
      libc.posix_spawn_file_actions_init(actions);
      for (const stream of [0, 1, 2]) {
        // Node sets close-on-exec on these too.
        if (libc.fcntl(stream, F_GETFD, new Uint8Array(8)) > 0) place(stream, stream);
      }
      // macOS leaves a descriptor that is to be itself as it is, with close-on-exec.
      if (fd !== undefined && fd === at) place(fd, at);
      else if (fd !== undefined) libc.posix_spawn_file_actions_adddup2(actions, fd, at);
      if (streams) {
        for (const stream of [0, 1, 2]) libc.posix_spawn_file_actions_adddup2(actions, streams.from, stream);
        for (const end of [streams.from, streams.to]) {
          if (end > 2) libc.posix_spawn_file_actions_addclose(actions, end);
        }
      }
      const pid = new Int32Array(1);
      const [args, environment] = [vector(argv), vector(this.environment())];
      const restore = [
        ...[SIGPIPE, SIGXFSZ].map((signal) => dispose(signal, SIG_DFL)),
        ...ignored.map((signal) => dispose(signal, SIG_IGN)),
        limitFiles(files),
      ];
      const number = libc.posix_spawnp(new Uint8Array(pid.buffer), c(argv[0]), actions, 0, args, environment);
      for (const each of restore.reverse()) each();
      return number === 0 ? pid[0] : named(number);
    },
    wait(pid) {
      const status = new Int32Array(1);
      const done = retry(() => libc.waitpid(pid, new Uint8Array(status.buffer), 0));
      return done instanceof SystemError ? done : status[0];
    },
    poll(pid) {
      const status = new Int32Array(1);
      const done = retry(() => libc.waitpid(pid, new Uint8Array(status.buffer), WNOHANG));
      return done instanceof SystemError ? done : done === 0 ? undefined : status[0];
    },
    exec(argv, fd, at, files) {
      const all = vector(argv);
      // What Bun was told to read (--env-file) is in process.env only.
      for (const [name, value] of addedTo(given() ?? [], shownVariables())) {
        libc.setenv(c(fromText(name)), c(fromText(value)), 1);
      }
      place(fd, at);
      limitFiles(files);
      libc.execvp(c(argv[0]), all);
      return named(errno());
    },
    exit(status) {
      libc._exit(status);
      throw new Error("_exit(2) returned");
    },
    environment: () => environmentFor(given(), shownVariables()),
    exact: (args) => exactArguments(entries("/proc/self/cmdline"), args),
  };
}

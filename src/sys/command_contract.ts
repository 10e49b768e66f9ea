/** What a command that locks, then starts another program or becomes it, calls of the C library: the interfaces. */
import type { ByteString } from "./bytes.ts";
import type { SystemError } from "./contract.ts";

/** How a command's lock file is opened: `fopen(3)`'s modes, which truncate nothing. */
export type How = "r" | "a" | "a+";

/** A range of bytes for {@linkcode CommandCalls.lockRange}; length 0 is up to the end, however far that moves. */
export interface Range {
  readonly start: number;
  readonly length: number;
}

/** What a program that is started has besides its arguments and the environment. */
export interface Given {
  /** This descriptor as its descriptor `at`. */
  readonly fd?: number;
  readonly at?: number;
  /** Signals that are ignored in it, by their numbers. */
  readonly ignored?: readonly number[];
  /** Its soft limit of open files. */
  readonly files?: number;
  /** This pipe's reading end as its three standard streams. */
  readonly streams?: Pipe;
}

/** The two descriptors of a `pipe(2)`. A program that is started later has both, unless it gets it as `streams`. */
export interface Pipe {
  readonly from: number;
  readonly to: number;
}

/** The calls, bound. Each answers a failure with a {@linkcode SystemError} whose message is the C library's own. */
export interface CommandCalls {
  /** Opens, close-on-exec; `a` and `a+` make the file if it is missing. The descriptor stays open until `close`. */
  open(path: ByteString, how: How): number | SystemError;
  close(fd: number): void;
  /** `access(2)`: whether this user may read and write it, or run it. */
  access(path: ByteString, what: "read and write" | "run"): boolean;
  /** `flock(2)`, waiting in the kernel unless `operation` has LOCK_NB. EINTR is handled here. */
  flock(fd: number, operation: number): SystemError | undefined;
  /** An open file description lock of `fcntl(2)`, with the operations of `flock(2)`. */
  lockRange(fd: number, operation: number, range: Range): SystemError | undefined;
  /** Whether it is open on a local disk, as far as that can be told. */
  isLocal(fd: number): boolean;
  write(fd: number, text: ByteString): SystemError | undefined;
  /** Whether the process was started with this descriptor open; the runtime's own are none of a command's. */
  inherited(fd: number): boolean;
  /** Gives the signals that the runtime ignores or answers their default action. */
  defaultSignals(): void;
  /** Makes the next program inherit what this one did. */
  passOn(): void;
  /** Starts a program. Signals that only the runtime ignores have their default action in it. */
  spawn(argv: readonly ByteString[], given?: Given): number | SystemError;
  pipe(): Pipe | SystemError;
  /** Closes a descriptor that `open` has not opened. */
  shut(fd: number): void;
  /** The hard limit of open files. */
  mostFiles(): bigint;
  /** Whether it is in our process group. */
  isInGroup(pid: number): boolean;
  /** Waits for it; the wait status of `waitpid(2)`. */
  wait(pid: number): number | SystemError;
  /** The same without waiting; undefined while it runs. */
  poll(pid: number): number | SystemError | undefined;
  /** Becomes a program, which has `fd` as `at`. Returns only if that fails, and then nothing but `exit` may follow. */
  exec(argv: readonly ByteString[], fd: number, at: number, files?: number): SystemError;
  /** Ends at once: no exit handler, no tidying up by the runtime. */
  exit(status: number): never;
  /** The environment that a program is started with: what was given, and what the user had the runtime add. */
  environment(): ByteString[];
  /** The last arguments of this process as bytes, given what the runtime made of them; undefined where that is not known. */
  exact(args: readonly string[]): ByteString[] | undefined;
}

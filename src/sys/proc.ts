/**
 * What the system says about processes: `/proc` on Linux, `ps` on macOS and
 * FreeBSD (from their manual pages, not run there).
 */
import { hasLinuxKernel } from "./libc.ts";
import { type FileStat, type LockedDescriptor, type ProcessInfo, SystemError } from "./contract.ts";

/** How to read `/proc`; undefined for what cannot be read. */
export interface Proc {
  text(path: string): string | undefined;
  link(path: string): string | undefined;
  list(path: string): string[] | undefined;
}

/** How to ask about processes. */
export interface Reader extends Proc {
  /** `stat(2)`; may throw {@linkcode SystemError}. */
  stat(path: string): FileStat | undefined;
  /** Runs `ps` with these arguments, in the C locale and UTC. */
  ps(args: string[]): string | undefined;
}

/** The fields of `/proc/PID/stat` from the third on. The name before them may hold blanks and `) Z (`. */
export const statFields = (stat: string): string[] => stat.slice(stat.lastIndexOf(")") + 2).split(" ");

/**
 * `/proc/PID/stat`, and a thread's. A process whose first thread has ended shows `Z` and lives
 * on in the others; only one thread or none is a zombie.
 */
export function parseStat(stat: string): { state: string; startTime: string } | undefined {
  const fields = statFields(stat);
  const [letter, threads, startTime] = [fields[0], Number(fields[17]), fields[19]]; // fields 3, 20 and 22 of proc(5)
  const state = letter === "Z" && threads > 1 ? "S" : letter;
  return startTime ? { state, startTime } : undefined;
}

function readProcess(pid: number, reader: Reader): ProcessInfo | undefined {
  // Of its first thread: it started when the process did. In an emulated container qemu-user invents a process's own
  // /proc/PID/stat (fake_open, linux-user/syscall.c): others saw another start time, and took over from the living.
  const stat = reader.text(`/proc/${pid}/task/${pid}/stat`) ?? reader.text(`/proc/${pid}/stat`);
  const parsed = stat === undefined ? undefined : parseStat(stat);
  if (!parsed) return undefined;
  const status = reader.text(`/proc/${pid}/status`) ?? "";
  const number = (pattern: RegExp) => {
    const digits = pattern.exec(status)?.[1];
    return digits === undefined ? undefined : Number(digits);
  };
  const command = reader.text(`/proc/${pid}/cmdline`)?.replace(/\0+$/, "").replaceAll("\0", " ");
  return {
    ...parsed,
    threadGroup: number(/^Tgid:\s*(\d+)$/m),
    uid: number(/^Uid:\s*(\d+)/m), // the real one comes first
    command: command || undefined,
  };
}

/**
 * The locks of a process's open files: what `/proc/PID/fdinfo` (proc(5)) says of each; undefined where it is hidden.
 * A lock of flock(2) belongs to the open file that took it: the kernel shows it on the descriptors of that open file
 * alone (show_fd_locks() of fs/locks.c), not on another that a process has of the same file.
 */
export function descriptorLocks(pid: number, reader: Reader): LockedDescriptor[] | undefined {
  const names = reader.list(`/proc/${pid}/fdinfo`);
  if (!names) return undefined;
  const found: LockedDescriptor[] = [];
  let seen = 0;
  for (const name of names) {
    if (name.startsWith(".")) continue;
    const text = reader.text(`/proc/${pid}/fdinfo/${name}`);
    if (text === undefined) continue; // closed since, or hidden
    seen++;
    const locks = [...text.matchAll(/^lock:\t(.*)$/gm)].map(([, line]) => `${line}\n`).join("");
    if (locks !== "") found.push({ fd: name, locks });
  }
  // Another user's process: its descriptors are listed but may not be read.
  return seen === 0 && names.some((name) => !name.startsWith(".")) ? undefined : found;
}

/** The ids among the names in a directory. */
const idsIn = (proc: Proc, directory: string): number[] | undefined =>
  proc.list(directory)?.filter((name) => /^[1-9]\d*$/.test(name)).map(Number);

/** All processes, by their ids. */
export const allProcesses = (proc: Proc): number[] | undefined => idsIn(proc, "/proc");

/**
 * Whether a process has a thread; undefined where that cannot be seen. Each is looked at by its own name: the kernel
 * goes on with a listing of them by position, so one is left out while others end (6 of 120,839 listings lacked a
 * living thread). The first, which has the process's id, is there as long as the process is.
 */
export function hasThread(pid: number, thread: number, { stat }: Pick<Reader, "stat">): boolean | undefined {
  const isThere = (id: number) => stat(`/proc/${pid}/task/${id}`) !== undefined;
  try {
    return isThere(pid) ? isThere(thread) : undefined;
  } catch (error) {
    if (error instanceof SystemError) return undefined;
    throw error;
  }
}

/** The id of the thread that asks; undefined where it is not told, or `/proc` is another PID namespace's. */
export function ownThread(pid: number, proc: Proc): number | undefined {
  const [, process, thread] = /^(\d+)\/task\/(\d+)$/.exec(proc.link("/proc/thread-self") ?? "") ?? [];
  return process === String(pid) ? Number(thread) : undefined;
}

/** `ps -o lstart=` is 24 characters wide, such as `Sun Nov 29 17:00:00 2026`. */
export function parsePs(line: string, platform: string): ProcessInfo | undefined {
  const match = /^\s*(\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})\s+(\S)(\S*)\s*(.*?)\s*$/.exec(line);
  if (!match) return undefined;
  const [, startTime, state, more, args] = match;
  const command = args || undefined;
  // FreeBSD adds the boot time, which moves with the wall clock, to the start
  // time: the same process can show another second. It is no identity there.
  return platform === "freebsd" ? { state, command, jailed: more.includes("J") } : { state, command, startTime };
}

/**
 * What ESRCH means on FreeBSD, which says it of processes that it hides, too: those outside of a jail, and other users'
 * where `security.bsd.see_other_uids` is 0 (security(7)). A process of one's own user, in one's own jail, is never
 * hidden, nor is any from root. Process 1 is root's, and there for as long as the machine runs: a process that
 * cannot see it may not see others.
 */
export function unseen(
  owner: number | undefined,
  own: number | undefined,
  seesFirst: () => boolean,
): "gone" | SystemError {
  if (own === 0 || (own !== undefined && owner === own) || seesFirst()) return "gone";
  return new SystemError(
    "ESRCH",
    "this system hides other users' processes, so one that is not seen may be alive: only root can tell",
  );
}

/** A process, as far as this system shows it. */
export function processInfo(platform: string, pid: number, reader: Reader): ProcessInfo | undefined {
  if (hasLinuxKernel(platform)) return readProcess(pid, reader);
  // A keyword an option: FreeBSD takes all that follows a `=` for the header's text (ps(1), -o), and showed the start alone.
  const line = reader.ps(["-o", "lstart=", "-o", "stat=", "-o", "args=", "-p", String(pid)]);
  return line === undefined ? undefined : parsePs(line, platform);
}

/** The PID namespace that a machine boots in, and that sees every process: PROC_PID_INIT_INO, <linux/proc_ns.h>. */
export const INITIAL_PID_NAMESPACE = "4026531836";

/** The time namespace that a machine boots in: PROC_TIME_INIT_INO, <linux/proc_ns.h>. */
const INITIAL_TIME_NAMESPACE = "4026531834";

/** What stands for the PID namespace in any jail of FreeBSD. */
export const JAIL = "jail";

/** Which boot and which namespaces this process lives in; undefined for what it cannot know. */
export interface Surroundings {
  readonly bootId?: string;
  readonly pidNamespace?: string;
  readonly timeNamespace?: string;
}

/** By Linux's `/proc/self`, which is this process whatever PID namespace `/proc` shows. */
export function surroundings(reader: Reader): Surroundings {
  const namespace = (name: string) =>
    new RegExp(`^${name}:\\[(\\d+)\\]$`).exec(reader.link(`/proc/self/ns/${name}`) ?? "")?.[1];
  // A kernel without time namespaces (before 5.6) has one clock. That is known, and a link that is hidden is not.
  const hasNone = () => reader.list("/proc/self/ns")?.includes("time") === false;
  return {
    bootId: reader.text("/proc/sys/kernel/random/boot_id")?.trim() || undefined,
    pidNamespace: namespace("pid"),
    timeNamespace: namespace("time") ?? (hasNone() ? INITIAL_TIME_NAMESPACE : undefined),
  };
}

/**
 * What stands for the PID namespace where there is none: the name of the system, for a folder may be shared with
 * another one on the same machine, whose processes have other numbers. `jailed`: undefined where that is not known.
 */
export function namespaceOf(platform: string, jailed: boolean | undefined): string | undefined {
  if (platform === "darwin") return "darwin";
  return platform !== "freebsd" || jailed === undefined ? undefined : jailed ? JAIL : "host";
}

/**
 * Whether the numbers in `/proc` are those of this process's own PID namespace. They are those of the namespace that
 * mounted it: after `unshare -pf` without --mount-proc they are the outer processes' (a living owner was called a
 * thread, or a later process), and after `nsenter -m` the container's. `/proc/self` is missing, or says so by `Pid`,
 * and by an `NSpid` (since Linux 4.1) of more numbers than one.
 */
export function showsOwnNamespace(reader: Reader, pid: number): boolean {
  const status = reader.text("/proc/self/status") ?? "";
  const numbers = (name: string) => new RegExp(`^${name}:\\s*(.*)$`, "m").exec(status)?.[1].trim().split(/\s+/);
  return numbers("Pid")?.[0] === String(pid) && (numbers("NSpid")?.length ?? 1) === 1;
}

/** A reader of what `/proc` says of processes by their numbers: of nothing where they are not this process's numbers. */
export function ownNumbers(platform: string, reader: Reader, pid: number): Reader {
  let own: boolean | undefined;
  const trusts = () => own ??= !hasLinuxKernel(platform) || showsOwnNamespace(reader, pid);
  return {
    ...reader,
    text: (path) => trusts() ? reader.text(path) : undefined,
    list: (path) => trusts() ? reader.list(path) : undefined,
    stat: (path) => trusts() ? reader.stat(path) : undefined,
  };
}

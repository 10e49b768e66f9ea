/**
 * What the system says about processes: `/proc` on Linux, `ps` on macOS and
 * FreeBSD (from their manual pages, not run there).
 */
import { hasLinuxKernel } from "./libc.ts";
import { type ProcessLook, SystemError } from "./sys.ts";

/** How to read `/proc`; undefined for what cannot be read. */
export interface Proc {
  text(path: string): string | undefined;
  link(path: string): string | undefined;
  list(path: string): string[] | undefined;
}

/** How to ask about processes. */
export interface Reader extends Proc {
  /** Runs `ps` with these arguments, in the C locale and UTC. */
  ps(args: string[]): string | undefined;
}

/**
 * `/proc/PID/stat`, and a thread's: the name may hold blanks and `) Z (`, so all counting starts
 * after the last `)`. A process whose first thread has ended shows `Z` and lives
 * on in the others; only one thread or none is a zombie.
 */
export function parseStat(stat: string): { state: string; startTime: string } | undefined {
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [letter, threads, startTime] = [fields[0], Number(fields[17]), fields[19]]; // fields 3, 20 and 22 of proc(5)
  const state = letter === "Z" && threads > 1 ? "S" : letter;
  return startTime ? { state, startTime } : undefined;
}

function lookInProc(pid: number, reader: Reader): ProcessLook | undefined {
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

/** The locks of a process's open files: what `/proc/PID/fdinfo` (proc(5)) says of each; undefined where it is hidden. */
export function descriptorLocks(pid: number, reader: Reader): string | undefined {
  const names = reader.list(`/proc/${pid}/fdinfo`);
  if (!names) return undefined;
  let locks = "", seen = 0;
  for (const name of names) {
    if (name.startsWith(".")) continue;
    const text = reader.text(`/proc/${pid}/fdinfo/${name}`);
    if (text === undefined) continue; // closed since, or hidden
    seen++;
    for (const [, line] of text.matchAll(/^lock:\t(.*)$/gm)) locks += `${line}\n`;
  }
  // Another user's process: its descriptors are listed but may not be read.
  return seen === 0 && names.some((name) => !name.startsWith(".")) ? undefined : locks;
}

/** The ids among the names in a directory. */
const idsIn = (proc: Proc, directory: string): number[] | undefined =>
  proc.list(directory)?.filter((name) => /^[1-9]\d*$/.test(name)).map(Number);

/** All processes, by their ids. */
export const allProcesses = (proc: Proc): number[] | undefined => idsIn(proc, "/proc");

/** A process's threads, by their ids. The first, which has the process's id, is listed as long as the process is. */
export const threadsOf = (pid: number, proc: Proc): number[] | undefined => idsIn(proc, `/proc/${pid}/task`);

/** The id of the thread that asks; undefined where it is not told, or `/proc` is another PID namespace's. */
export function ownThread(pid: number, proc: Proc): number | undefined {
  const [, process, thread] = /^(\d+)\/task\/(\d+)$/.exec(proc.link("/proc/thread-self") ?? "") ?? [];
  return process === String(pid) ? Number(thread) : undefined;
}

/** `ps -o lstart=` is 24 characters wide, such as `Sun Nov 29 17:00:00 2026`. */
export function parsePs(line: string, platform: string): ProcessLook | undefined {
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
 * hidden, nor is any from root. Process 1 is root's, and there for as long as the machine runs: who cannot see that
 * may not see others.
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
export function look(platform: string, pid: number, reader: Reader): ProcessLook | undefined {
  if (hasLinuxKernel(platform)) return lookInProc(pid, reader);
  // A keyword an option: FreeBSD takes all that follows a `=` for the header's text (ps(1), -o), and showed the start alone.
  const line = reader.ps(["-o", "lstart=", "-o", "stat=", "-o", "args=", "-p", String(pid)]);
  return line === undefined ? undefined : parsePs(line, platform);
}

/** PROC_TIME_INIT_INO, <linux/proc_ns.h>. */
const FIRST_TIME_NAMESPACE = "4026531834";

/** The boot and the PID namespace that this process lives in. */
export function surroundings(reader: Reader): { bootId?: string; pidNamespace?: string; timeNamespace?: string } {
  const time = /^time:\[(\d+)\]$/.exec(reader.link("/proc/self/ns/time") ?? "")?.[1];
  return {
    bootId: reader.text("/proc/sys/kernel/random/boot_id")?.trim() || undefined,
    pidNamespace: /^pid:\[(\d+)\]$/.exec(reader.link("/proc/self/ns/pid") ?? "")?.[1],
    timeNamespace: time === FIRST_TIME_NAMESPACE ? undefined : time,
  };
}

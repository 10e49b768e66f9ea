/**
 * What the system says about processes: `/proc` on Linux, `ps` on macOS and
 * FreeBSD (from their manual pages, not run there).
 */
import type { ProcessLook } from "./sys.ts";

/** How to read; undefined for what cannot be read. */
export interface Reader {
  text(path: string): string | undefined;
  link(path: string): string | undefined;
  /** Runs `ps` with these arguments, in the C locale and UTC. */
  ps(args: string[]): string | undefined;
}

/**
 * `/proc/PID/stat`: the name may hold blanks and `) Z (`, so all counting starts
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
  const stat = reader.text(`/proc/${pid}/stat`);
  const parsed = stat === undefined ? undefined : parseStat(stat);
  if (!parsed) return undefined;
  const group = /^Tgid:\s*(\d+)$/m.exec(reader.text(`/proc/${pid}/status`) ?? "")?.[1];
  const command = reader.text(`/proc/${pid}/cmdline`)?.replace(/\0+$/, "").replaceAll("\0", " ");
  return { ...parsed, threadGroup: group === undefined ? undefined : Number(group), command: command || undefined };
}

/** `ps -o lstart=` is 24 characters wide, such as `Sun Nov 29 17:00:00 2026`. */
export function parsePs(line: string, platform: string): ProcessLook | undefined {
  const match = /^\s*(\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})\s+(\S)\S*\s*(.*?)\s*$/.exec(line);
  if (!match) return undefined;
  const [, startTime, state, command] = match;
  // FreeBSD adds the boot time, which moves with the wall clock, to the start
  // time: the same process can show another second. It is no identity there.
  return { state, command: command || undefined, ...(platform === "freebsd" ? {} : { startTime }) };
}

/** A process, as far as this system shows it. */
export function look(platform: string, pid: number, reader: Reader): ProcessLook | undefined {
  if (platform === "linux" || platform === "android") return lookInProc(pid, reader);
  const line = reader.ps(["-o", "lstart=,stat=,args=", "-p", String(pid)]);
  return line === undefined ? undefined : parsePs(line, platform);
}

/** The boot and the PID namespace that this process lives in. */
export function surroundings(reader: Reader): { bootId?: string; pidNamespace?: string } {
  return {
    bootId: reader.text("/proc/sys/kernel/random/boot_id")?.trim() || undefined,
    pidNamespace: /^pid:\[(\d+)\]$/.exec(reader.link("/proc/self/ns/pid") ?? "")?.[1],
  };
}

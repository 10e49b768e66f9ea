/** `/proc/locks` (proc(5)): which flock locks the kernel knows on a file. */
import type { FileStat } from "./contract.ts";

/** A kernel lock as `/proc/locks` shows it. */
export interface KernelLock {
  /** The process that took it: perhaps gone by now, with a child keeping the descriptor. */
  readonly pid: number;
  readonly mode: "exclusive" | "shared";
}

/** What a line of `/proc/locks` is of: flock(2), a lock of fcntl(2), or a lease (F_SETLEASE; DELEG is an NFS server's). */
type Origin = "FLOCK" | "POSIX" | "LEASE" | "DELEG";

interface Line extends KernelLock {
  readonly key: string;
  readonly origin: Origin;
  readonly waits: boolean;
  readonly major: number;
  readonly minor: number;
}

/** The device that a file is on: Linux's `dev_t`, <sys/sysmacros.h>. */
export function deviceOf(stat: FileStat): { major: number; minor: number } {
  const dev = BigInt(stat.identity.split(":")[0]);
  return {
    major: Number(((dev >> 8n) & 0xfffn) | ((dev >> 32n) & ~0xfffn)),
    minor: Number((dev & 0xffn) | ((dev >> 12n) & ~0xffn)),
  };
}

/** Whether both are of one file. Beyond 2^53 Deno's own files show a rounded inode number, and libc's the whole one. */
export function isSameFile(one: FileStat, other: FileStat): boolean {
  if (one.identity === other.identity) return true;
  const [a, b] = [one, other].map(({ identity }) => identity.split(":"));
  return a.length !== b.length && a[0] === b[0] && one.inode === other.inode;
}

/** File systems whose files are on another device than the mount is. */
const TWO_DEVICES = /^(?:btrfs|overlay)$/;

/** Where flock(2) is made a lock as fcntl(2) makes them, and listed as one: v9fs_file_flock_dotl(), fs/9p/vfs_file.c. */
const AS_POSIX = /^9p$/;

const LEASES: ReadonlySet<Origin> = new Set(["LEASE", "DELEG"]);

/** The flock locks of one reading, by file. */
export class LockTable {
  readonly #lines = new Map<number, Line[]>();
  readonly #mounts: string | undefined;

  /** `text` as of `/proc/locks`, `mounts` as of `/proc/self/mountinfo`. */
  constructor(text: string, mounts?: string) {
    this.#mounts = mounts;
    // 1: FLOCK  ADVISORY  WRITE 4711 fd:00:2146371 0 EOF, and of a waiter: 1: -> FLOCK …
    const pattern =
      /^\d+: ( *-> )?(FLOCK|POSIX|LEASE|DELEG) +\S+ +(READ|WRITE|UNLCK) +(-?\d+) ([0-9a-f]+):([0-9a-f]+):(\d+) /gm;
    for (const [, waits, origin, kind, pid, major, minor, inode] of text.matchAll(pattern)) {
      // Rounded as a FileStat may be.
      const lines = this.#lines.get(Number(inode)) ?? [];
      this.#lines.set(Number(inode), lines);
      lines.push({
        key: `${kind} ${pid}`,
        origin: origin as Origin, // the pattern knows no other
        pid: Number(pid),
        mode: kind === "WRITE" ? "exclusive" : "shared",
        waits: waits !== undefined,
        major: parseInt(major, 16),
        minor: parseInt(minor, 16),
      });
    }
  }

  /**
   * The locks on a file, one for each process and mode, however often it was read.
   *
   * btrfs and overlayfs show another device in `/proc/locks` than `stat(2)` does;
   * both are then without a disk of their own (major 0), and the inode decides. On
   * a device that is some mount's own, such as a tmpfs, the device must agree:
   * every tmpfs has an inode 2. `vaguely`: whether the inode may decide.
   */
  flocks(stat: FileStat, vaguely = true): KernelLock[] {
    const found = this.#on(stat, vaguely).filter(({ waits, origin }) => !waits && !LEASES.has(origin));
    return [...new Map(found.map(({ key, pid, mode }) => [key, { pid, mode }])).values()];
  }

  /** How many processes the kernel keeps waiting for a file's lock. */
  waiters(stat: FileStat): number {
    return new Set(this.#on(stat, true).filter(({ waits }) => waits).map(({ pid }) => pid)).size;
  }

  /** The process that has a lease on a file, or that is asked to end it. */
  lessee(stat: FileStat): number | undefined {
    return this.#on(stat, true).find(({ origin }) => LEASES.has(origin))?.pid;
  }

  #on(stat: FileStat, vaguely: boolean): Line[] {
    const lines = this.#lines.get(Number(stat.inode));
    if (!lines) return [];
    const { major, minor } = deviceOf(stat);
    let vague: boolean | undefined;
    return lines.filter((line) => {
      const same = line.major === major && line.minor === minor;
      if (line.origin === "POSIX") return same && major === 0 && AS_POSIX.test(this.#type(minor) ?? "");
      return same || (line.major === 0 && (vague ??= vaguely && major === 0 && this.#type(minor) === undefined) &&
        TWO_DEVICES.test(this.#type(line.minor) ?? "btrfs"));
    });
  }

  /** The type of the file system that is mounted as the device 0:`minor`. */
  #type(minor: number): string | undefined {
    return new RegExp(`^\\d+ \\d+ 0:${minor} .* - (\\S+) `, "m").exec(this.#mounts ?? "")?.[1];
  }
}

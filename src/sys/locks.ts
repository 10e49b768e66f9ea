/** `/proc/locks` (proc(5)): which flock locks the kernel knows on a file. */
import type { FileStat } from "./sys.ts";

/** A kernel lock as `/proc/locks` shows it. */
export interface KernelLock {
  /** Who took it: perhaps gone by now, with a child keeping the descriptor. */
  readonly pid: number;
  readonly mode: "exclusive" | "shared";
}

/** Linux's `dev_t`, <sys/sysmacros.h>. */
function device(dev: bigint): { major: bigint; minor: bigint } {
  return {
    major: ((dev >> 8n) & 0xfffn) | ((dev >> 32n) & ~0xfffn),
    minor: (dev & 0xffn) | ((dev >> 12n) & ~0xffn),
  };
}

/**
 * The flock locks on a file. Waiters (`->`) are left out.
 *
 * btrfs and overlayfs show another device in `/proc/locks` than `stat(2)` does;
 * both are then without a disk of their own (major 0), and the inode decides. On
 * a device that is some mount's own, such as a tmpfs, the device must agree:
 * every tmpfs has an inode 2. `vaguely`: whether the inode may decide.
 */
export function flocksOn(kernelLocks: string, stat: FileStat, mounts?: string, vaguely = true): KernelLock[] {
  const [dev] = stat.identity.split(":");
  const { major, minor } = device(BigInt(dev));
  let vague = vaguely && major === 0n;
  const found = new Map<string, KernelLock>(); // one line a lock, however often it was read
  for (const line of kernelLocks.split("\n")) {
    // 1: FLOCK  ADVISORY  WRITE 4711 fd:00:2146371 0 EOF
    const match = /^\d+: FLOCK +\S+ +(READ|WRITE) +(-?\d+) ([0-9a-f]+):([0-9a-f]+):(\d+) /.exec(line);
    if (!match || Number(match[5]) !== Number(stat.inode)) continue;
    const [theirMajor, theirMinor] = [BigInt(`0x${match[3]}`), BigInt(`0x${match[4]}`)];
    const same = theirMajor === major && theirMinor === minor;
    if (!same && vague && mounts) vague = !new RegExp(`^\\d+ \\d+ ${major}:${minor} `, "m").test(mounts);
    if (same || (vague && theirMajor === 0n)) {
      const mode = match[1] === "WRITE" ? "exclusive" : "shared";
      found.set(`${match[1]} ${match[2]}`, { pid: Number(match[2]), mode });
    }
  }
  return [...found.values()];
}

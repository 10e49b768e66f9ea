/**
 * Mounts, by `/proc/self/mountinfo` (proc(5)), and what each file system that is
 * not a local disk means for a lock.
 */

import { deviceOf } from "./locks.ts";
import { printable } from "./printable.ts";
import type { FileStat } from "./contract.ts";

/** A mount. */
export interface Mount {
  /** Such as `0:47`. */
  readonly device: string;
  readonly at: string;
  readonly type: string;
  readonly source: string;
  readonly options: readonly string[];
}

/** Such as `fuse.sshfs (me@host:/srv) at /mnt`. Each user that may mount by FUSE chooses the words, not root alone. */
export const describeMount = ({ type, source, at }: Mount): string => printable(`${type} (${source}) at ${at}`);

/** Blanks and the like stand there as octal numbers. */
const unescape = (text: string) =>
  text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(parseInt(digits, 8)));

const parse = (mountinfo: string): Mount[] =>
  mountinfo.split("\n").flatMap((line) => {
    const [fields, rest] = line.split(" - ").map((part) => part.split(" "));
    if (!rest) return [];
    const [type = "", source = "", options = ""] = rest;
    const [, , device = "", , at = "", own = ""] = fields;
    return [{ device, at: unescape(at), type, source: unescape(source), options: `${own},${options}`.split(",") }];
  });

/** The mount that a path, which is free of symlinks, lies in. */
export const mountOf = (path: string, mountinfo: string): Mount | undefined => deepest(path, parse(mountinfo));

function deepest(path: string, mounts: readonly Mount[]): Mount | undefined {
  let found: Mount | undefined;
  for (const mount of mounts) {
    const inside = path === mount.at || path.startsWith(mount.at === "/" ? "/" : `${mount.at}/`);
    // A later mount on the same place covers the earlier.
    if (inside && !(found && found.at.length > mount.at.length)) found = mount;
  }
  return found;
}

/**
 * The mount of the file at a path, whose device it is, or another of that device
 * where a symlink leads there. Not to be asked of btrfs and overlayfs, which show two.
 */
export function mountOn(path: string, stat: FileStat, mountinfo: string): Mount | undefined {
  const { major, minor } = deviceOf(stat);
  const mounts = parse(mountinfo).filter(({ device }) => device === `${major}:${minor}`);
  return deepest(path, mounts) ?? mounts.at(-1);
}

/** What a file system that is not local means for a lock. */
export interface Reach {
  /** In words. */
  readonly words: string;
  /** Whether two processes, by two mounts or on two hosts, may both be granted it, and neither is told. */
  readonly both: boolean;
}

const one = (words: string): Reach => ({ words, both: false });
const both = (words: string): Reach => ({ words, both: true });

/** Network and passed-through file systems: whether flock(2) reaches the others is theirs to say. */
const REACH: readonly (readonly [type: RegExp, reach: (options: readonly string[] | undefined) => Reach])[] = [
  [
    /^nfs4?$/,
    (options) =>
      options === undefined
        ? both("how it is mounted cannot be seen here; with nolock or local_lock other hosts are not excluded")
        : options.some((each) => /^(?:local_lock=(?:all|flock)|nolock)$/.test(each))
        ? both("it is mounted so that flock(2) is kept on this host: other hosts are not excluded")
        : one(
          "Linux turns flock(2) into a byte-range lock on the server: other hosts are excluded as long as the server and the network are there, but not what uses flock(2) on the server itself; after a lost connection the lock may be lost",
        ),
  ],
  [
    /^(?:cifs|smb3|smbfs)$/,
    (options) =>
      both(
        options?.includes("nobrl")
          ? "it is mounted with nobrl, so that no lock reaches the server: other hosts are not excluded"
          // Seen with Linux 6.1's client and Samba 4.17, in Python too: the kernel lists the lock, the server has none.
          : "the server may forget a lock without a word when any process here closes another descriptor of its file, as a refused try does: then other hosts and mounts are no longer excluded; and it may keep others from the file's content",
      ),
  ],
  [
    /^9p$/,
    () =>
      both(
        "a directory that another system serves, such as a virtual machine's host: whether the host and other guests are excluded depends on the server, and some (QEMU's) accept every lock",
      ),
  ],
  [
    /^virtiofs$/,
    () =>
      both(
        "a directory of a virtual machine's host: unless the host runs it with remote flock, other guests are not excluded",
      ),
  ],
  [
    /^(?:vboxsf|fuse\.vmhgfs-fuse|vmhgfs|prl_fs|hostfs)$/,
    () => both("a directory of a virtual machine's host: flock(2) stays in this guest, if it works at all"),
  ],
  [
    /^fuse\.sshfs$/,
    () => both("sshfs keeps flock(2) in one mount: other hosts are not excluded, nor another mount on this one"),
  ],
  [
    /^fuse\.(?:s3fs|gcsfuse|rclone|goofys|davfs2?|mount-s3)/,
    () =>
      both(
        "a store of objects: flock(2) stays on this host, if it works at all, and a file may be replaced by another under its name",
      ),
  ],
  [
    /^(?:fuse\.glusterfs|ceph|fuse\.ceph|gfs2|ocfs2|beegfs|gpfs|acfs|ibrix|orangefs|panfs|snfs|vxfs)$/,
    () => one("a cluster's file system: flock(2) reaches the other hosts if the cluster is set up for it"),
  ],
  [
    /^lustre$/,
    (options) =>
      options?.includes("flock")
        ? one("mounted with flock: other hosts are excluded")
        : both("without the mount option flock, other hosts are not excluded"),
  ],
  [/^(?:afs|coda|ncpfs)$/, () => both("flock(2) is not kept across hosts")],
  [
    /^fuse(?:$|\.)/,
    () =>
      both(
        "its program decides what flock(2) means, and where it does not say, another mount of the same files is not excluded",
      ),
  ],
];

/** What a mount's file system means for a lock; undefined for a local one. Without `options` the better case is not taken for granted. */
export function reachOf(type: string, options?: readonly string[]): Reach | undefined {
  const [, reach] = REACH.find(([pattern]) => pattern.test(type)) ?? [];
  return reach?.(options);
}

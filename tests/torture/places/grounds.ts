/** The places, how each is made, and what is tried there. */
import type { Kind } from "../../support/harness.ts";
import { acrossMounts, copiedUp, instead, lockedAsItIs, longName, noRoom, plantedFifo, refuses } from "./lesser.ts";
import type { Trial } from "./site.ts";
import { ALL } from "./trials.ts";

/** One place. */
export interface Ground {
  readonly name: string;
  /** Shell: makes it at `$0`, an empty folder, in a mount namespace of its own. */
  readonly make: string;
  /** Where in it the locks are. */
  readonly folder?: string;
  readonly trials: Readonly<Record<string, Trial>>;
  /** In the short form too. */
  readonly short?: boolean;
  /** By another user than root. */
  readonly nobody?: boolean;
  /** Kernel settings, by name, that it needs. */
  readonly settings?: Readonly<Record<string, string>>;
  /** What a reader of the report is to know. */
  readonly remark?: string;
  /** The file system keeps its locks to itself; see `Site`. */
  readonly remote?: boolean;
  /** Where flock(2) is not trusted, what is tried instead. */
  readonly doubted?: Readonly<Partial<Record<Kind, Readonly<Record<string, Trial>>>>>;
  /** It lies: so many trials at least must find it out, or the trials find nothing. */
  readonly lies?: readonly string[];
}

/** A file system in a file, on a loop device that goes with the mount. */
const loop = (size: string, mkfs: string, type: string) =>
  `command -v ${mkfs.split(" ")[0]} >/dev/null || { echo "there is no ${mkfs.split(" ")[0]} here"; exit 1; }
truncate -s ${size} "$0.img"; ${mkfs} "$0.img" >/dev/null; mount -t ${type} -o loop "$0.img" "$0"; rm "$0.img"`;

/** More than once: ext4 gives back what it set aside for the metadata. */
const fill =
  'touch "$0/there.lock"; for i in 1 2 3; do cat /dev/zero >> "$0/filler" 2>/dev/null || sync; done; dd if=/dev/zero bs=256 conv=notrunc oflag=append of="$0/filler" 2>/dev/null || sync';

const overlay = `mkdir "$0.l" "$0.u"; mount -t tmpfs none "$0.l"; mount -t tmpfs none "$0.u"; touch "$0.l/lower.lock"
mkdir "$0.u/up" "$0.u/work"
mount -t overlay none -o "lowerdir=$0.l,upperdir=$0.u/up,workdir=$0.u/work" "$0"`;

/** FUSE: `by` mounts `$0.src` at `$0` and goes to the background. */
export const fuse = (by: string) =>
  `command -v ${by.split(" ")[0]} >/dev/null || { echo "there is no ${by.split(" ")[0]} here"; exit 1; }
[ -w /dev/fuse ] || { echo "/dev/fuse cannot be opened"; exit 1; }
mkdir "$0.src"; ${by}`;

const long = (bytes: number) => (folder: string) => {
  const start = `${folder}/deep`;
  const parts = Math.floor((bytes - start.length - 1) / 200);
  const deep = start + `/${"d".repeat(199)}`.repeat(parts);
  return `${deep}/${"n".repeat(bytes - deep.length - 1)}`;
};

const deepFolders = `cd "$0"; mkdir deep; cd deep
for i in $(seq 30); do mkdir ${"d".repeat(199)}; cd -P ${"d".repeat(199)}; done`;

export const GROUNDS: readonly Ground[] = [
  { name: "tmpfs", make: 'mount -t tmpfs none "$0"', trials: ALL },
  { name: "ext4", make: loop("64M", "mkfs.ext4 -q", "ext4"), trials: ALL },
  { name: "overlayfs", make: overlay, trials: { ...ALL, "copied up": copiedUp } },
  {
    name: "read-only mount",
    make: 'mount -t tmpfs none "$0"; touch "$0/there.lock"; mount -o remount,ro "$0"',
    trials: { "kernel lock": lockedAsItIs, "typed error": refuses("EROFS") },
    short: true,
  },
  {
    name: "full tmpfs",
    make: `mount -t tmpfs -o size=64k none "$0"; ${fill}`,
    trials: { "kernel lock": lockedAsItIs, "no room": noRoom },
    short: true,
  },
  {
    name: "not root",
    make: 'mount -t tmpfs -o mode=755 none "$0"; mkdir "$0/own"; chown nobody:nogroup "$0/own"',
    folder: "own",
    trials: ALL,
    nobody: true,
    short: true,
  },
  {
    name: "not root, in root's folder",
    make: 'mount -t tmpfs -o mode=755 none "$0"; touch "$0/there.lock"; chmod 644 "$0/there.lock"',
    trials: { "kernel lock": lockedAsItIs, "typed error": refuses("EACCES") },
    nobody: true,
    short: true,
  },
  {
    name: "full ext4",
    make: `${loop("4M", "mkfs.ext4 -q -m 0", "ext4")}; ${fill}`,
    trials: { "kernel lock": lockedAsItIs, "no room": noRoom },
  },
  {
    name: "no inode left",
    make: 'mount -t tmpfs -o nr_inodes=3 none "$0"; touch "$0/there.lock" "$0/filler"; ! touch "$0/one more"',
    trials: { "kernel lock": lockedAsItIs, "typed error": refuses("ENOSPC") },
  },
  { name: "ext3", make: loop("16M", "mkfs.ext4 -q -t ext3", "ext3"), trials: ALL },
  { name: "ext2", make: loop("16M", "mkfs.ext4 -q -t ext2", "ext2"), trials: ALL },
  { name: "xfs", make: loop("400M", "mkfs.xfs -q", "xfs"), trials: ALL },
  { name: "btrfs", make: loop("128M", "mkfs.btrfs -q", "btrfs"), trials: ALL },
  { name: "ramfs", make: 'mount -t ramfs none "$0"', trials: ALL },
  { name: "noexec, nosuid, nodev", make: 'mount -t tmpfs -o noexec,nosuid,nodev none "$0"', trials: ALL },
  {
    name: "one ext4, two mounts",
    make: `mkdir "$0.one" "$0.two"; ${loop("16M", "mkfs.ext4 -q", "ext4")}
mkdir "$0/data" "$0/one" "$0/two"; mount --bind "$0/data" "$0/one"; mount --bind "$0/data" "$0/two"`,
    trials: { "across mounts": acrossMounts },
  },
  {
    name: "FUSE (bindfs)",
    make: fuse('bindfs "$0.src" "$0"'),
    trials: ALL,
    remark: "the lock is local to the mount: two mounts of one folder would both be granted",
  },
  {
    name: "FUSE, flock passed on",
    make: fuse('"$LIAR" honest "$0.src" "$0"'),
    trials: ALL,
    remote: true,
    doubted: { node20: { "PID file instead": instead } },
    remark: "liar.c passes flock(2) on to the folder below; /proc/locks shows nothing, so inspect() says unknown, " +
      "and Node 20 does not take flock(1)'s word and uses the PID file",
  },
  {
    name: "FUSE, flock lies",
    make: fuse('"$LIAR" lies "$0.src" "$0"'),
    trials: ALL,
    lies: ["exclusive", "shared", "refused try", "deleted file"],
    remark: "every flock(2) is answered with success: no code can lock there, and the trials must find it out",
  },
  {
    name: "FUSE, no flock",
    make: fuse('"$LIAR" ENOLCK "$0.src" "$0"'),
    trials: { "PID file instead": instead },
    remark: "flock(2) is answered with ENOLCK",
  },
  {
    name: "sticky folder, fs.protected_regular=1",
    make: `mount -t tmpfs -o mode=1777 none "$0"; touch "$0/there.lock"; chmod 666 "$0/there.lock"
mkfifo -m 666 "$0/fifo.lock"; chown 1:1 "$0/there.lock" "$0/fifo.lock"`,
    trials: { "kernel lock": lockedAsItIs, "planted FIFO": plantedFifo },
    settings: { "fs/protected_regular": "1", "fs/protected_fifos": "1" },
    nobody: true,
  },
  { name: "spaces in the name", make: 'mount -t tmpfs none "$0"; mkdir "$0/ a  b "', folder: " a  b ", trials: ALL },
  { name: "a newline in the name", make: 'mount -t tmpfs none "$0"; mkdir "$0/a\nb"', folder: "a\nb", trials: ALL },
  {
    name: "a name of 255 bytes",
    make: 'mount -t tmpfs none "$0"',
    trials: { "long name": longName((folder) => `${folder}/${"n".repeat(255)}`) },
  },
  {
    name: "a path of 4095 bytes",
    make: `mount -t tmpfs none "$0"; ${deepFolders}`,
    trials: { "long path": longName(long(4095)) },
  },
];

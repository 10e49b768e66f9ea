/** The file systems of a machine's own disks, each in a file of its own, and those in memory. */
import type { Group } from "./row.ts";
import { type Exclusion, ground, inPlaces } from "./suite.ts";

/** `/proc/locks` shows another device than stat(2) does: src/sys/locks.ts. */
const TWO_DEVICES: Exclusion = {
  test: "tryAcquire() by pidfile that is refused because of flock changes nothing on disk",
  why: "/proc/locks shows another device there, so that the kernel has to be asked, after the PID file is made",
};

/** The first three fit into CI. */
const PLACES = ["tmpfs", "ext4", "overlayfs", "xfs", "btrfs"].map((name) => ({
  ...ground(name),
  withoutNode: name !== "tmpfs",
  exclusions: ["overlayfs", "btrfs"].includes(name) ? [TWO_DEVICES] : [],
}));

export const local: Group = (circumstances) =>
  inPlaces(circumstances.long ? PLACES : PLACES.slice(0, 3), circumstances);

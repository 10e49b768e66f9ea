/** The file systems of a machine's own disks, each in a file of its own, and those in memory. */
import type { Group } from "./row.ts";
import { ground, inPlaces } from "./suite.ts";

/** The first three fit into CI. */
const PLACES = ["tmpfs", "ext4", "overlayfs", "xfs", "btrfs"].map((name) => ({
  ...ground(name),
  withoutNode: name !== "tmpfs",
}));

export const local: Group = (circumstances) =>
  inPlaces(circumstances.long ? PLACES : PLACES.slice(0, 3), circumstances);

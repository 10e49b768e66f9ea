/** File systems in user space: one that passes all but locks on, one that answers flock(2) with any error, and sshfs. */
import type { Group } from "./row.ts";
import { refusals } from "./refusals.ts";
import { sshfs } from "./sshfs.ts";
import { ground, inPlaces, type Place } from "./suite.ts";

const BINDFS: Place = {
  ...ground("FUSE, bindfs", "FUSE (bindfs)"),
  remark: "the lock is local to the mount: two mounts of one folder would both be granted it",
  exclusions: [],
};

export const fuse: Group = async (circumstances) => {
  const rows = await inPlaces([BINDFS], circumstances);
  return circumstances.long ? [...rows, ...await refusals(circumstances), ...await sshfs(circumstances)] : rows;
};

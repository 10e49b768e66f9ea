/** File systems in user space: one that passes all but locks on, one that answers flock(2) with any error, and sshfs. */
import { REFUSALS, refusals } from "./refusals.ts";
import { type Group, isWanted } from "./row.ts";
import { SSHFS, sshfs } from "./sshfs.ts";
import { ground, inPlaces, type Place } from "./suite.ts";

const BINDFS: Place = {
  ...ground("FUSE, bindfs", "FUSE (bindfs)"),
  remark: "the lock is local to the mount: two mounts of one folder would both be granted it",
  withoutNode: true,
};

export const fuse: Group = async (circumstances) => {
  const rows = await inPlaces([BINDFS], circumstances);
  if (!circumstances.long) return rows;
  if (isWanted(REFUSALS, circumstances)) rows.push(...await refusals(circumstances));
  if (isWanted(SSHFS, circumstances)) rows.push(...await sshfs(circumstances));
  return rows;
};

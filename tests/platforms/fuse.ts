/** File systems in user space: one that passes all but locks on, one that answers flock(2) with any error, and sshfs. */
import { REFUSALS, refusals } from "./refusals.ts";
import { type Group, isWanted } from "./row.ts";
import { SSHFS, sshfs } from "./sshfs.ts";
import { ground, inPlaces, type Place } from "./suite.ts";

/** A PID file is made under another name, which is removed: its time of change is then newer than the kernel shows. */
const CACHED = "FUSE shows a file's times as they were for up to a second";

const NO_PROOF = "a PID file proves nothing of a process where the mount's own program decides who may write it";

const BINDFS: Place = {
  ...ground("FUSE, bindfs", "FUSE (bindfs)"),
  remark: "the lock is local to the mount: two mounts of one folder would both be granted it",
  exclusions: [
    { test: "inspect() changes no byte, mode or time, and leaves nothing open", why: CACHED },
    { test: "tryAcquire() by flock that is refused because of pidfile changes nothing on disk", why: CACHED },
    { test: "tryAcquire() by PID file that is refused changes nothing on disk", why: CACHED },
    { test: "that drains at the signal (pidfile)", why: NO_PROOF },
    { test: "sends one signal, however long the holder takes (pidfile)", why: NO_PROOF },
  ],
  withoutNode: true,
};

export const fuse: Group = async (circumstances) => {
  const rows = await inPlaces([BINDFS], circumstances);
  if (!circumstances.long) return rows;
  if (isWanted(REFUSALS, circumstances)) rows.push(...await refusals(circumstances));
  if (isWanted(SSHFS, circumstances)) rows.push(...await sshfs(circumstances));
  return rows;
};

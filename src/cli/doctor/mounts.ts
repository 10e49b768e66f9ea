/** What the mount that a path lies in means for a lock. */
import { describeMount, type Mount, reachOf } from "../../sys/mounts.ts";
import { type Finding, ok, warning } from "./finding.ts";

const OTHER_HOSTS = "use a directory on a local disk unless several hosts have to share the lock";

/** What is to be said of a mount. */
export function judgeMount(mount: Mount | undefined): Finding {
  const about = "file system";
  if (!mount) {
    return warning(about, "it is not known (there is no /proc/self/mountinfo here)", "see that it is a local disk");
  }
  const where = describeMount(mount);
  const reach = reachOf(mount.type, mount.options);
  if (reach) return warning(about, `${where}, not a local disk: ${reach.words}`, OTHER_HOSTS);
  if (mount.options.includes("ro")) return warning(about, `${where} is mounted read-only`, "use another directory");
  const passing = mount.type === "tmpfs" || mount.type === "ramfs"
    ? "; its files go with the next restart, which frees every lock anyway"
    : "";
  return ok(about, `${where}, a local one${passing}`);
}

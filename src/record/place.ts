/**
 * Which file system a lock file lies on. Through some of them two processes can
 * both be granted a lock, by two mounts or on two hosts, and neither gets an
 * error. No code can make a lock safe there, so its user is told.
 */
import { nodePath } from "../sys/builtin.ts";
import { warn } from "./messages.ts";
import { describeMount, mountOn, type Reach, reachOf } from "../sys/mounts.ts";
import { isWindows } from "../sys/mod.ts";
import { quote } from "../sys/printable.ts";
import { type FileStat, type System, SystemError } from "../sys/contract.ts";

/** A place that is not a local disk. */
export interface Place extends Reach {
  /** Such as `fuse.sshfs (me@host:/srv) at /mnt`. */
  readonly where: string;
}

/** undefined: it is a local disk. `"unknown"`: the system does not say. */
export function placeOf(sys: System, path: string): Place | "unknown" | undefined {
  // There may be no file yet; and its directory may be a symlink. Not before it is needed: Deno takes 7 ms to load node:path.
  const directory = () => `${nodePath().dirname(path)}/.`;
  const type = sys.fileSystem(path) ?? sys.fileSystem(directory());
  if (type === undefined) return "unknown";
  if (type === "local") return undefined;
  // The number does not tell sshfs from another FUSE, nor a mount's options; the table of mounts does.
  const stat = statIfAny(sys, path) ?? statIfAny(sys, directory());
  const mount = stat && mountOn(path, stat, sys.mounts() ?? "");
  if (mount && /^fuseblk(?:$|\.)/.test(mount.type)) return undefined; // ntfs-3g: a disk of this machine, mounted once
  // A type that is in no table here is what the number says, and is not local.
  const reach = reachOf(mount?.type ?? type, mount?.options) ?? reachOf(type, mount?.options);
  return reach && { where: mount ? describeMount(mount) : type, ...reach };
}

/** Why the place of a lock file does not count as a local disk; undefined if it does. Throws {@linkcode SystemError}. */
export function whyNotLocal(sys: System, path: string): string | undefined {
  const place = placeOf(sys, path);
  if (place === undefined) return undefined;
  if (place !== "unknown") return `it is on ${place.where}, which is no local disk: ${place.words}`;
  const directory = nodePath().dirname(path);
  // That is the user's problem, then: the try would say so, unless another process makes it meanwhile.
  if (!sys.stat(directory)) throw new SystemError("ENOENT", `its directory ${quote(directory)} does not exist`);
  if (!isWindows()) sys.stat(`${directory}/.`); // throws where it is no directory, or may not be entered
  return "whether it is on a local disk is not known here: that takes Linux, one of its common file systems, and " +
    "permission for statfs(2) where a runtime has permissions (--allow-ffi or --allow-sys=statfs)";
}

/** Maximum number of files that are remembered. */
const FILES = 64;
/** Files that were looked at, by identity, because another can be mounted at the same path; and places that were reported. */
const seen = new Set<string>(), told = new Set<string>();

/** Warns on standard error, once for each mount, after a lock was taken where a second process may be granted it too. */
export function warnOfPlace(sys: System, given: string, identity: string): void {
  if (seen.has(identity)) return;
  if (seen.size >= FILES) seen.clear();
  seen.add(identity);
  const place = placeOf(sys, sys.resolveParents(given));
  if (place === undefined || place === "unknown" || !place.both || told.has(place.where)) return;
  told.add(place.where);
  warn(
    `${quote(given)} is on ${place.where}: ${place.words}. ` +
      'Use a directory on a local disk (fileSystem: "local" insists on one), or fileSystem: "any" if that is known.',
  );
}

function statIfAny(sys: System, path: string): FileStat | undefined {
  try {
    return sys.stat(path);
  } catch (error) {
    if (error instanceof SystemError) return undefined; // the try itself says so
    throw error;
  }
}

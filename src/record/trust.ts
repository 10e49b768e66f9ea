/**
 * Which other users can change a file, or put another in its place. What a file says of a process is no proof of
 * anything where they can: a record that another user wrote once named a process of this one, and it was killed.
 */
import { placeOf } from "./place.ts";
import { quote } from "../sys/printable.ts";
import { type FileStat, type System, SystemError } from "../sys/contract.ts";

/** Maximum number of symlinks on the way to a file, as the kernel has it: path_resolution(7). */
const LINKS = 40;

const GROUP_AND_OTHERS = 0o022, STICKY = 0o1000;

/**
 * Why others can change the file at a path, or why that cannot be seen; undefined if only this user and root can.
 * `stat` is the file's own. The path is absolute.
 *
 * The group's write bit counts as another user: it may be an ACL's mask, and the members of a group cannot be asked for here.
 */
export function whoElseMayChange(sys: System, path: string, stat: FileStat): string | undefined {
  const { uid } = sys.self();
  if (uid === undefined) return "the user of this process is not known";
  // Elsewhere another host, or the mount's own program, decides on the right to write, and shows what modes it likes.
  if (placeOf(sys, path) !== undefined) return `${quote(path)} is not known to be on a local disk`;
  if (stat.uid !== uid) return `${quote(path)} belongs to ${named(stat.uid)}`;
  if (isWritable(stat)) return `${quote(path)} can be written by other users: ${modeOf(stat)}`;
  try {
    return whyNotTheWay(sys, path.split("/").slice(0, -1), uid);
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
    return `who may change the directories above ${quote(path)} cannot be seen: ${error.message}`;
  }
}

/** The same of each directory and symlink on the way to a directory, from the root on. */
function whyNotTheWay(sys: System, parts: string[], uid: number): string | undefined {
  let at = "/";
  for (let links = 0; links <= LINKS;) {
    const why = whyNotDirectory(sys, at, uid, parts.every((part) => part === ""));
    if (why !== undefined) return why;
    const part = parts.shift();
    if (part === undefined) return undefined;
    const next = part === ".."
      ? at.replace(/\/[^/]*$/, "") || "/"
      : part === ""
      ? at
      : `${at === "/" ? "" : at}/${part}`;
    const stat = sys.stat(next);
    if (stat?.kind !== "symlink") {
      at = next;
      continue;
    }
    if (stat.uid !== 0 && stat.uid !== uid) return `the symlink ${quote(next)} belongs to ${named(stat.uid)}`;
    const target = sys.readLink(next);
    if (target === undefined) return `where the symlink ${quote(next)} leads cannot be seen`;
    parts.unshift(...target.split("/"));
    if (target.startsWith("/")) at = "/";
    links++;
  }
  return "there are too many symlinks on the way to it";
}

/** `last`: the file is in this one. In a sticky directory above it no other user can move this user's files. */
function whyNotDirectory(sys: System, directory: string, uid: number, last: boolean): string | undefined {
  const stat = sys.stat(directory);
  if (stat?.uid !== 0 && stat?.uid !== uid) return `the directory ${quote(directory)} belongs to ${named(stat?.uid)}`;
  const isSticky = ((stat.mode ?? 0) & STICKY) !== 0;
  return isWritable(stat) && (last || !isSticky)
    ? `the directory ${quote(directory)} can be written by other users: ${modeOf(stat)}`
    : undefined;
}

const named = (uid: number | undefined) => uid === undefined ? "a user who is not known" : `another user (uid ${uid})`;

const isWritable = ({ mode }: FileStat): boolean => mode === undefined || (mode & GROUP_AND_OTHERS) !== 0;

const modeOf = ({ mode }: FileStat): string =>
  mode === undefined ? "its mode is not known" : `its mode is ${mode.toString(8).padStart(4, "0")}`;

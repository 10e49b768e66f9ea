/** What a system call's errno means for a path, in words: what denies it, to whom, and what can be done. */
import { nodePath } from "./builtin.ts";
import { quote } from "./errors.ts";
import { isWindows } from "./sys/mod.ts";
import { type Disk, type FileStat, type System, SystemError } from "./sys/sys.ts";

/** What an open answers where the file may not be written but perhaps be read. */
export const NOT_WRITABLE = new Set(["EACCES", "EPERM", "EROFS", "ETXTBSY"]);

/** Where somebody who is refused can turn to. */
const WAY_OUT = "its owner can allow that, or use another directory";

/** Who is refused. */
const user = (sys: System): string => {
  const { uid } = sys.self();
  return uid === undefined ? "this user" : `this user (uid ${uid})`;
};

/** Without the errno's name, which every message has once, and without the call and the path of the runtimes' own words. */
const bare = ({ code, message }: SystemError): string =>
  (message.startsWith(`${code}: `) ? message.slice(code.length + 2) : message)
    .replace(/(?: \(os error \d+\))?[,:] (?:open|lstat|stat|mkdir|scandir|readdir) ["'].*$/s, "");

/** Whether the kernel said so, and not the permission model of a runtime, whose words tell which flag it takes. */
const isKernels = ({ code, message }: SystemError): boolean =>
  !isWindows() && (code !== "EACCES" || /permission denied/i.test(message));

/** Why the lock file at a path cannot be opened, looked at, or made. */
export function explain(sys: System, path: string, error: SystemError): SystemError {
  const { code, cause = error } = error;
  const because = (words: string, name = code) => new SystemError(name, words, { cause });
  const directory = nodePath().dirname(path);
  const closed = closedWay(sys, directory, error);
  if (closed !== undefined) return because(closed);
  let there: FileStat | undefined;
  try {
    there = sys.stat(path);
  } catch {
    return error; // the first error says more
  }
  if (there && there.kind !== "file") {
    return because(notRegular(there), there.kind === "directory" ? "EISDIR" : code);
  }
  if (code === "ENOENT" && !isThere(sys, directory)) {
    return because(`its directory ${quote(directory)} does not exist`);
  }
  const denied = code === "EACCES" && isKernels(error);
  if (!there && NOT_WRITABLE.has(code)) {
    const why = denied ? `${user(sys)} may not make files there; ${WAY_OUT}` : bare(error);
    return because(`it does not exist, and cannot be made in ${quote(directory)}: ${why}`);
  }
  return because(
    denied ? `${user(sys)} may not open it; its owner can allow that, and to read it is enough` : bare(error),
  );
}

/** Why a file beside the lock file may not be read. */
export function explainBeside(sys: System, path: string, error: SystemError): SystemError {
  if (error.code !== "EACCES" || !isKernels(error)) return error;
  const { code, cause = error } = error;
  const closed = closedWay(sys, nodePath().dirname(path), error);
  return new SystemError(code, closed ?? `${user(sys)} may not read ${quote(path)}; its owner can allow that`, {
    cause,
  });
}

/** Why a directory cannot be listed. */
export function explainList(sys: System, directory: string, error: SystemError): SystemError {
  const { code, cause = error } = error;
  const words = closedWay(sys, nodePath().dirname(directory), error) ??
    (code === "EACCES" && isKernels(error)
      ? `${user(sys)} may not list it; its owner can allow that`
      : code === "ENOTDIR"
      ? "it is not a directory"
      : bare(error));
  return new SystemError(code, words, { cause });
}

/** Why a directory for lock files cannot be made. */
export function explainMake(sys: System, directory: string, error: SystemError): SystemError {
  const { code, cause = error } = error;
  const { dirname } = nodePath();
  let above = dirname(directory);
  while (!isThere(sys, above) && dirname(above) !== above) above = dirname(above);
  const why = closedWay(sys, above, error) ??
    (code === "EACCES" && isKernels(error) ? `${user(sys)} may not make anything in ${quote(above)}` : bare(error));
  return new SystemError(
    code,
    `its directory ${quote(directory)} cannot be made: ${why}. HOLDFAST_DIR can name another`,
    { cause },
  );
}

/** Which directory on the way to a file is none, or may not be entered; undefined if that is not why it failed. */
function closedWay(sys: System, directory: string, error: SystemError): string | undefined {
  if (!(error.code === "EACCES" || error.code === "ENOTDIR") || !isKernels(error)) return undefined;
  let closed: string | undefined;
  for (let at = directory;; at = nodePath().dirname(at)) {
    try {
      if (!sys.stat(`${at}/.`)) return undefined; // it has gone meanwhile
      break;
    } catch (failure) {
      if (!(failure instanceof SystemError && failure.code === error.code && isKernels(failure))) return undefined;
    }
    closed = at;
    if (nodePath().dirname(at) === at) break;
  }
  if (closed === undefined) return undefined;
  return error.code === "ENOTDIR"
    ? `${quote(closed)} is not a directory`
    : `${user(sys)} may not enter the directory ${quote(closed)}; ${WAY_OUT}`;
}

/** Whether something stands there, as far as that can be seen. */
export function isThere(sys: Disk, path: string): boolean {
  try {
    return sys.stat(path) !== undefined;
  } catch (error) {
    if (error instanceof SystemError) return false; // it may not be looked at
    throw error;
  }
}

/** What stands where a lock file should. */
export const notRegular = ({ kind }: FileStat): string => `it is a ${kind}, and a lock file must be a regular file`;

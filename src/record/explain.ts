/** What a system call's errno means for a path, in words: what denies it, to whom, and what can be done. */
import { nodePath } from "../sys/builtin.ts";
import { isWindows } from "../sys/mod.ts";
import { quote } from "../sys/printable.ts";
import { type FileStat, type FileSystem, type System, SystemError } from "../sys/contract.ts";

/** What an open answers where the file may not be written but perhaps be read. */
export const NOT_WRITABLE = new Set(["EACCES", "EPERM", "EROFS", "ETXTBSY"]);

/** Advice to a user that is refused. */
const ASK = "; its owner can allow that";

/** Without the errno's name, which every message has once, and without the call and the path of the runtimes' own words. */
const bare = ({ code, message }: SystemError): string =>
  (message.startsWith(`${code}: `) ? message.slice(code.length + 2) : message)
    .replace(/(?: \(os error \d+\))?[,:] (?:open|lstat|stat|mkdir|scandir|readdir) ["'].*$/s, "");

/** Whether the kernel denied it, and not the permission model of a runtime, whose words tell which flag it takes. */
const isDenied = ({ code, message }: SystemError): boolean =>
  code === "EACCES" && !isWindows() && /permission denied/i.test(message);

/** Which user is denied what; or else what the system said. */
function denial(sys: System, error: SystemError, what: string): string {
  const { uid } = sys.self();
  return isDenied(error) ? `this user${uid === undefined ? "" : ` (uid ${uid})`} may not ${what}` : bare(error);
}

const because = ({ code, cause }: SystemError, words: string, name = code): SystemError =>
  new SystemError(name, words, { cause });

/** Why the lock file at a path cannot be opened, looked at, or made. */
export function explain(sys: System, path: string, error: SystemError): SystemError {
  const { code } = error;
  const directory = nodePath().dirname(path);
  const closed = closedWay(sys, path, error);
  if (closed !== undefined) return because(error, closed);
  let there: FileStat | undefined;
  try {
    there = sys.stat(path);
  } catch {
    return error; // the first error says more
  }
  if (there && there.kind !== "file") {
    return because(error, notRegular(there), there.kind === "directory" ? "EISDIR" : code);
  }
  if (code === "ENOENT" && !isThere(sys, directory)) {
    return because(error, `its directory ${quote(directory)} does not exist`);
  }
  return because(
    error,
    !there && NOT_WRITABLE.has(code)
      ? `it does not exist, and cannot be made in ${quote(directory)}: ` +
        denial(sys, error, `make files there${ASK}, or use another directory`)
      : denial(sys, error, `open it${ASK}, and to read it is enough`),
  );
}

/** Why a file beside the lock file may not be read. */
export const explainBeside = (sys: System, path: string, error: SystemError): SystemError =>
  isDenied(error)
    ? because(
      error,
      closedWay(sys, path, error) ?? denial(sys, error, `read ${quote(path)}${ASK}`),
    )
    : error;

/** Whatever is asked for in a directory. */
const within = (directory: string): string => nodePath().join(directory, "any");

/** Why a directory cannot be listed. */
export const explainList = (sys: System, directory: string, error: SystemError): SystemError =>
  because(error, closedWay(sys, within(directory), error) ?? denial(sys, error, `list it${ASK}`));

/** Why a directory for lock files cannot be made. */
export function explainMake(sys: System, directory: string, error: SystemError): SystemError {
  const { dirname } = nodePath();
  let above = dirname(directory);
  while (!isThere(sys, above) && dirname(above) !== above) above = dirname(above);
  const why = closedWay(sys, within(above), error) ?? denial(sys, error, `make anything in ${quote(above)}`);
  return because(error, `its directory ${quote(directory)} cannot be made: ${why}. HOLDFAST_DIR can name another`);
}

/**
 * Which directory on the way to what stands at a path is none, or may not be entered: the last that cannot be looked
 * into, seen by what is asked for in it. undefined if that is not why it failed. (Not by `DIR/.`: Deno, where paths
 * have permissions of their own, takes the `/.` away.)
 */
function closedWay(sys: System, path: string, error: SystemError): string | undefined {
  if (!isDenied(error) && error.code !== "ENOTDIR") return undefined;
  let closed: string | undefined;
  for (let at = path;; at = closed) {
    try {
      sys.stat(at);
      break;
    } catch (failure) {
      if (!(failure instanceof SystemError && failure.code === error.code)) return undefined;
      if (isDenied(failure) !== isDenied(error)) return undefined; // the runtime does not let us look
    }
    closed = nodePath().dirname(at);
    if (closed === at) break;
  }
  if (closed === undefined) return undefined;
  return error.code === "ENOTDIR"
    ? `${quote(closed)} is not a directory`
    : denial(sys, error, `enter the directory ${quote(closed)}${ASK}, or use another`);
}

/** Whether something stands there, as far as that can be seen. */
export function isThere(sys: FileSystem, path: string): boolean {
  try {
    return sys.stat(path) !== undefined;
  } catch (error) {
    if (error instanceof SystemError) return false; // it may not be looked at
    throw error;
  }
}

/** What stands where a lock file should. */
export const notRegular = ({ kind }: FileStat): string => `it is a ${kind}, and a lock file must be a regular file`;

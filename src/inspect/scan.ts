/** Finds every lock in a directory, and its holders. Reads, and changes nothing. */
import { nodePath } from "../sys/builtin.ts";
import { reasonOf, systemFailure } from "../record/errors.ts";
import { explain, explainList } from "../record/explain.ts";
import { inspectKernel, inspectPidFile, judgeKernel } from "./inspect.ts";
import { resolveDirectory } from "../record/path.ts";
import { read, type Reading } from "./reading.ts";
import { RECORD_LIMIT } from "../record/record.ts";
import { either, inPlace, type LockStatus, viewOf } from "./status.ts";
import { isInexact } from "../sys/bytes.ts";
import { LockTable } from "../sys/locks.ts";
import { isWindows, mayAskDirectory, system } from "../sys/mod.ts";
import { NONCED } from "../sys/primitives.ts";
import { type System, SystemError } from "../sys/contract.ts";

/**
 * Lists the locks in a directory and their status, in the order of their paths; not
 * those in directories below it. Never takes a lock, and changes nothing.
 *
 * A file is a lock if its name ends in `.lock`, if a record stands in it or a
 * PID file with one beside it, or if the kernel lists a flock(2) on it. Other
 * files are left out.
 *
 * Guaranteed: files and processes that vanish meanwhile cause no error. Not
 * guaranteed: that all states are of one moment. A lock that cannot be read, or
 * whose name is not UTF-8, is `"unknown"`, with the reason.
 *
 * @example
 * ```ts
 * import { scan } from "@holdfast/lock";
 *
 * for (const { path, state, holder } of scan(await Deno.makeTempDir())) console.log(path, state, `${holder}`);
 * ```
 *
 * @param directory The directory, or its file URL.
 * @returns The locks; none if there is none.
 * @throws {LockError} If the directory cannot be listed, such as `ENOENT`, `ENOTDIR`, `EACCES`.
 * @throws {TypeError} If it is not a path.
 */
export function scan(directory: string | URL): LockStatus[] {
  return scanDirectory(remembering(system()), resolveDirectory(directory, mayAskDirectory));
}

/** One answer for each question about processes: they are asked about once, not once a lock. */
function remembering(sys: System): System {
  const once = <K, V>(ask: (key: K) => V): (key: K) => V => {
    const answers = new Map<K, V>();
    return (key) => {
      if (!answers.has(key)) answers.set(key, ask(key));
      return answers.get(key)!; // `!`: asked just now. undefined is an answer too
    };
  };
  const [mounts, all] = [once((_: "") => sys.mounts()), once((_: "") => sys.all())];
  return {
    ...sys,
    mounts: () => mounts(""),
    all: () => all(""),
    exists: once(sys.exists),
    processInfo: once(sys.processInfo),
    descriptorLocks: once(sys.descriptorLocks),
  };
}

/** Of a name that the runtime could not show as it is. */
const INEXACT = new SystemError(
  "EILSEQ",
  "its name is not UTF-8, so it cannot be looked at here; flock(1) can lock it",
);

/** A file that may be a lock, as it was found. */
interface Found {
  readonly path: string;
  readonly reading: Reading | SystemError | undefined;
  readonly hasPidFile: boolean;
}

function scanDirectory(sys: System, given: string): LockStatus[] {
  let directory = given, names: Set<string>;
  try {
    directory = sys.resolveParents(given);
    names = new Set(sys.list(directory).sort());
  } catch (error) {
    throw error instanceof SystemError ? systemFailure("scan", given, explainList(sys, directory, error)) : error;
  }
  const within = `${directory}/.`;
  // No record is in an empty file; but on Windows, and on SMB, one that cannot be read is locked.
  const readsEmpty = isWindows() || sys.fileSystem(within) === "cifs";
  // A PID file may stand where the lock's own file was never made.
  const pidFiles = [...names].filter((name) => name.endsWith(".pid")).map((name) => name.slice(0, -".pid".length));
  const candidates = [...new Set([...names, ...pidFiles])].filter((name) => name !== "" && !NONCED.test(name));
  const found = candidates.sort().map((name): Found => {
    const path = nodePath().join(directory, name);
    return {
      path,
      // The file of the name that is shown would be another one.
      reading: isInexact(name) ? INEXACT : names.has(name) ? lookAt(sys, path, readsEmpty) : undefined,
      hasPidFile: names.has(`${name}.pid`),
    };
  });
  // After all the records, and once: see judgeKernel.
  const text = sys.kernelLocks();
  const table = text === undefined ? undefined : new LockTable(text, sys.mounts());
  const view = viewOf(sys, within); // asked once, not once a lock
  return found.flatMap((each) => {
    const status = statusOf(sys, each, table);
    if (!status) return [];
    const path = nodePath().join(given, nodePath().basename(each.path));
    return [{ ...inPlace(status, view), path }];
  });
}

function lookAt(sys: System, path: string, readsEmpty: boolean): Reading | SystemError | undefined {
  try {
    const stat = sys.stat(path);
    if (stat?.kind !== "file") return undefined;
    // No record has that size: only the kernel can say more.
    return (stat.size === 0 && !readsEmpty) || stat.size > RECORD_LIMIT ? { stat, holder: undefined } : read(sys, path);
  } catch (error) {
    if (error instanceof SystemError) return explain(sys, path, error);
    throw error;
  }
}

/** undefined: it is no lock, or no longer there. */
function statusOf(sys: System, { path, reading, hasPidFile }: Found, table: LockTable | undefined) {
  const isNamed = path.endsWith(".lock");
  try {
    if (reading instanceof SystemError) throw reading;
    const kernel = reading &&
      (judgeKernel(sys, path, reading, table, () => read(sys, path)) ?? inspectKernel(sys, path));
    // A PID file is its lock's, unless some program locks it itself.
    const isLocked = reading !== undefined && (table?.flocks(reading.stat).length ?? 0) > 0;
    if (path.endsWith(".pid") && !hasPidFile && !isLocked) return undefined;
    const isLock = isNamed || reading?.holder?.nonce !== undefined || kernel?.state === "held";
    if (kernel?.state === "held") return kernel;
    const pidFile = hasPidFile ? inspectPidFile(sys, path) : undefined;
    if (!isLock && pidFile?.holder?.nonce === undefined) return undefined;
    return kernel ? either(kernel, pidFile) : pidFile;
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
    const unknown: LockStatus = { path, state: "unknown", complete: false, holders: [], reason: reasonOf(error) };
    return isNamed ? unknown : undefined;
  }
}

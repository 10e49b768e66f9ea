/** What LOCK means on a command line. */
import { existsSync } from "node:fs";
import { basename, dirname, join, resolve, sep } from "node:path";
import { Lock, lockDirectory, type LockOptions } from "../../mod.ts";
import { isInexact } from "../sys/bytes.ts";
import { preference } from "../sys/environment.ts";
import { quote, shown } from "../sys/printable.ts";
import { UsageError } from "./args.ts";

/** What is said of LOCK wherever it is an argument. */
export const LOCK_HELP = 'LOCK is a path if it contains a "/" or begins with a "."; ' +
  'any other is the name of a lock in the lock directory ("holdfast list" shows that), whose file is NAME.lock.';

/** Whether a LOCK is a path. */
export const isPath = (given: string): boolean => given.includes("/") || given.includes(sep) || given.startsWith(".");

/** Calls, and says in words of the command line what a LOCK is that is neither a name nor a path. */
export function checked<T>(given: string, call: () => T): T {
  if (!isPath(given) && given.endsWith(".lock")) {
    const name = given.slice(0, -".lock".length);
    throw new UsageError(`${given} is the file of the lock ${quote(name)}; a file here is "./${given}"`);
  }
  try {
    return call();
  } catch (error) {
    if (!(error instanceof TypeError || error instanceof RangeError)) throw error;
    if (given === "") throw new UsageError("LOCK is empty");
    const hint = isPath(given) || /^[\w.-]{1,200}$/.test(given) || isInexact(given)
      ? ""
      : `; a path contains a "/": ${quote(`./${given}`)}`;
    throw new UsageError(`${error.message}${hint}`);
  }
}

/** The lock that is meant. */
export const openLock = (given: string, options: LockOptions): Lock =>
  checked(given, () => isPath(given) ? new Lock(given, options) : Lock.named(given, options));

/** A path that is no LOCK, absolute. */
export function fullPath(given: string): string {
  let path: string;
  try {
    path = resolve(given);
  } catch {
    path = "\ufffd"; // a current directory that was deleted, or is not UTF-8
  }
  if (!isInexact(path)) return path;
  throw new UsageError(`${shown(given)} cannot be used: it, or the current directory, is not UTF-8`);
}

/** Its path. Makes nothing, not even the directory. */
export const lockPath = (given: string): string =>
  checked(given, () => isPath(given) ? new Lock(given).path : Lock.named(given).path);

/** The path of the lock directory's locks as people call them: by their names. */
export function lockName(path: string): string {
  const name = /^([\w.-]+)\.lock$/.exec(basename(path));
  return name && join(dirname(path)) === lockDirectory() ? name[1] : path;
}

/** What stands in no place: the file, or the directory that it should be in. */
export const whatIsMissing = (path: string): string =>
  existsSync(dirname(path)) ? shown(path) : `directory ${shown(dirname(path))}`;

/** What may be wrong where a lock has no file: "free" must not calm a user that has mistyped its name. */
export function whyMissing(path: string): string {
  if (lockName(path) === path) return "it was never locked, or its path is another";
  const users = preference("HOLDFAST_DIR")
    ? ""
    : "; each user has a lock directory of their own, unless HOLDFAST_DIR names one for all";
  return `it was never locked, or its name is another ("holdfast list" shows those in the lock directory)${users}`;
}

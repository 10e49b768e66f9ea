/** The directory where `Lock.named` keeps its files. */
import { nodePath } from "../sys/builtin.ts";
import { LockError } from "./errors.ts";
import { isInexact } from "../sys/bytes.ts";
import { env, system } from "../sys/mod.ts";
import { quote } from "../sys/printable.ts";
import { SystemError } from "../sys/contract.ts";

/** Mode of the lock directory: no other user may list it, or plant files. */
export const DIRECTORY_MODE = 0o700;

/**
 * Returns the directory of `Lock.named`: `$HOLDFAST_DIR`; as root
 * `/var/lib/holdfast`; else `$XDG_STATE_HOME/holdfast` or
 * `~/.local/state/holdfast`, on macOS `~/Library/Application Support/holdfast`,
 * on Windows `%LOCALAPPDATA%\holdfast`.
 * Never `/tmp`: its cleaners delete lock files, and a deleted lock file is two
 * locks. It is made with mode 0700 when the first lock in it is acquired.
 *
 * The trap: another user has another directory, and so another lock of the same
 * name. Where several users must exclude each other, set `HOLDFAST_DIR` for all
 * of them, to a directory that all may write. Bun reads it from a `.env` of the
 * current directory too, so that a program may set it for itself; the command
 * line takes no variable from there.
 *
 * @example
 * ```ts
 * import { lockDirectory, scan } from "@holdfast/lock";
 * import { existsSync } from "node:fs";
 *
 * if (existsSync(lockDirectory())) console.log(scan(lockDirectory()));
 * ```
 *
 * @returns Its path, absolute.
 * @throws {LockError} If it is not known: `EINVAL` where `HOLDFAST_DIR` is not an absolute path (on Windows with a drive or server) in UTF-8, or neither it nor `HOME` (`LOCALAPPDATA`) is set; `EACCES` where Deno may not read them (`--allow-env=HOLDFAST_DIR,XDG_STATE_HOME,HOME` and `--allow-sys=uid`; on Windows `--allow-env=HOLDFAST_DIR,LOCALAPPDATA`).
 */
export function lockDirectory(): string {
  try {
    return resolveDirectory();
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
    const message =
      `Cannot find the directory of named locks: ${error.message}. Set HOLDFAST_DIR to a directory, or lock a path instead`;
    throw new LockError(message, { code: error.code, path: "", cause: error });
  }
}

/** Resolves the directory, and guesses nothing: in another directory it would be another lock. */
function resolveDirectory(): string {
  const given = env("HOLDFAST_DIR");
  if (given !== undefined) return absolute("HOLDFAST_DIR", given);
  if (process.platform === "win32") return nodePath().join(absolute("LOCALAPPDATA", env("LOCALAPPDATA")), "holdfast");
  const { uid } = system().self();
  if (uid === undefined) throw new SystemError("EACCES", "this process may not ask for its user (--allow-sys=uid)");
  if (uid === 0) return "/var/lib/holdfast";
  const home = () => absolute("HOME", env("HOME"));
  if (process.platform === "darwin") return nodePath().join(home(), "Library/Application Support/holdfast");
  const state = env("XDG_STATE_HOME");
  // A relative one is to be ignored (XDG Base Directory Specification).
  return nodePath().join(
    state && nodePath().isAbsolute(state) ? absolute("XDG_STATE_HOME", state) : nodePath().join(home(), ".local/state"),
    "holdfast",
  );
}

function absolute(name: string, path: string | undefined): string {
  // On Windows `\\locks` is one too, but of the drive that happens to be the current one.
  if (path !== undefined && isInexact(path)) throw new SystemError("EINVAL", `${name} is not UTF-8: ${path}`);
  const rooted = path !== undefined && (process.platform !== "win32" || /^(?:[A-Za-z]:|[\\/])[\\/]/.test(path));
  if (rooted && nodePath().isAbsolute(path)) return path.replace(/(.)\/+$/, "$1"); // `..` is for the kernel to resolve
  throw new SystemError(
    "EINVAL",
    path === undefined ? `${name} is not set` : `${name} is not an absolute path: ${path}`,
  );
}

/** The file of a name. The suffix keeps names apart from what stands beside lock files, and from `.` and `..`. */
export function namedPath(name: string): string {
  if (typeof name !== "string" || !/^[A-Za-z0-9._-]{1,200}$/.test(name)) {
    const shown = typeof name === "string" ? quote(name) : String(name);
    throw new TypeError(`Cannot create a lock as its name must be 1 to 200 of A-Z a-z 0-9 . _ -: received ${shown}`);
  }
  return `${lockDirectory()}/${name}.lock`;
}

/** A path that a program gives: checked, and made absolute. */
import { nodePath, url } from "../sys/builtin.ts";
import { isInexact } from "../sys/bytes.ts";
import { isWindows } from "../sys/mod.ts";
import { quote } from "../sys/printable.ts";

/** A value as it was received, for a message. */
export const show = (value: unknown): string => typeof value === "string" ? quote(value) : String(value);

/**
 * Checks a path and makes it absolute, so that a later `chdir` does not make it
 * another lock. Where the runtime hides the current directory (Deno without
 * `--allow-read`), a relative path stays relative.
 */
export function resolvePath(path: string | URL, mayAskDirectory: () => boolean, operation = "create a lock"): string {
  if (path instanceof URL) {
    if (path.protocol !== "file:") {
      throw new TypeError(`Cannot ${operation} as its URL must be a file: received ${path}`);
    }
    path = pathOf(path, operation);
  }
  if (typeof path !== "string") {
    throw new TypeError(`Cannot ${operation} as its path must be a string or a file URL: received ${show(path)}`);
  }
  if (path === "") throw new TypeError(`Cannot ${operation} as its path must not be empty`);
  if (path.endsWith("/") || (path.endsWith("\\") && isWindows())) {
    throw new TypeError(`Cannot ${operation} as its path names a directory: received ${show(path)}`);
  }
  // Another file than the one that was meant is another lock: two at once.
  if (isInexact(path)) {
    const why = "its path must be UTF-8, and without U+FFFD, which stands for bytes that are not";
    throw new TypeError(`Cannot ${operation} as ${why}: received ${show(path)}`);
  }
  // To a C function the path would end there, and be another file's.
  if (path.includes("\0")) {
    throw new TypeError(`Cannot ${operation} as its path must not hold a NUL: received ${show(path)}`);
  }
  // As it is already: `node:path` need not be loaded.
  if (/^(?:\/[^/.][^/]*)+$/.test(path) && process.platform !== "win32") return path;
  if (!nodePath().isAbsolute(path)) {
    const directory = currentDirectory(mayAskDirectory, operation);
    if (directory === undefined) return path;
    path = `${directory}/${path}`;
  }
  // `a/../b` is not `b` where `a` is a symlink; that is for the kernel to resolve.
  return path.split("/").includes("..") ? path.replace(/\/+$/, "") : nodePath().resolve(path);
}

/** Of a file URL. */
function pathOf(file: URL, operation: string): string {
  let path = "";
  try {
    path = url().fileURLToPath(file);
  } catch (error) {
    if (!(error instanceof URIError)) throw error;
  }
  // Of `%E9`, which is not UTF-8, Bun makes nothing; the others throw.
  if (path === "") throw new TypeError(`Cannot ${operation} as its URL must be UTF-8: received ${file}`);
  return path;
}

/** undefined where it may not be asked for, and where it was deleted: acquiring says so. */
function currentDirectory(mayAskDirectory: () => boolean, operation: string): string | undefined {
  let directory: string;
  try {
    if (!mayAskDirectory()) return undefined;
    directory = process.cwd();
  } catch (error) {
    // Deno's word for one that is not UTF-8. The cast: every runtime throws Errors here.
    if ((error as Error).name !== "InvalidData") return undefined;
    directory = "\ufffd";
  }
  if (!isInexact(directory)) return directory;
  throw new TypeError(`Cannot ${operation} as the current directory must be UTF-8 for a path that begins there`);
}

/** The same for a directory. */
export function resolveDirectory(directory: string | URL, mayAskDirectory: () => boolean): string {
  const operation = "scan a directory";
  const path = directory instanceof URL && directory.protocol === "file:" ? pathOf(directory, operation) : directory;
  const whole = typeof path === "string" && path !== "" ? `${path}/.` : path;
  return resolvePath(whole, mayAskDirectory, operation);
}

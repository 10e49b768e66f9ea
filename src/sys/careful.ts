/**
 * Opening a file where the runtime resolves symlinks itself, so that O_NOFOLLOW does nothing. Deno does, unless every
 * permission of its is granted without an exception; and a program may give one up while it runs.
 */
import { type FileStat, type OpenFile, SystemError } from "./contract.ts";

/** What open(2) answers for what is no regular file, given our flags. */
const REFUSED: Partial<Record<FileStat["kind"], string>> = { symlink: "ELOOP", directory: "EISDIR", socket: "ENXIO" };

/** Maximum number of attempts: a path that changes between every two looks is changed on purpose. */
const ATTEMPTS = 100;

/** Whether it must not exist, may be made, or must exist. */
export type Making = "must" | "may" | "never";

/** How a runtime looks at a path, and opens a file: one that exists, or with O_EXCL, which follows no symlink. */
export interface Opener {
  lstat(path: string): FileStat | undefined;
  open(how: "existing" | "new"): OpenFile;
}

/**
 * Opens the regular file that stands at a path. The path is looked at first. A missing file is made with O_EXCL. An
 * existing one must be, once it is open, the one that was looked at. Nothing is written or truncated before that.
 * Throws {@linkcode SystemError}: ELOOP for a symlink, and for all else what open(2) answers.
 */
export function openAsItStands(path: string, making: Making, { lstat, open }: Opener): OpenFile {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const before = lstat(path);
    if (before && before.kind !== "file") {
      throw new SystemError(REFUSED[before.kind] ?? "EINVAL", `${JSON.stringify(path)} is a ${before.kind}`);
    }
    if (before ? making === "must" : making === "never") {
      throw new SystemError(
        before ? "EEXIST" : "ENOENT",
        `${JSON.stringify(path)} ${before ? "exists" : "is missing"}`,
      );
    }
    let file: OpenFile;
    try {
      file = open(before ? "existing" : "new");
    } catch (error) {
      // Another process has made or deleted it since the look.
      if (error instanceof SystemError && error.code === (before ? "ENOENT" : "EEXIST") && making === "may") continue;
      throw error;
    }
    if (!before) return file;
    let same = false;
    try {
      same = file.stat().identity === before.identity;
    } finally {
      if (!same) file.close();
    }
    if (same) return file;
  }
  throw new SystemError("ESTALE", `${JSON.stringify(path)} is being replaced again and again`);
}

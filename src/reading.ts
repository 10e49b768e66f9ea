/** What stands in a lock file, as far as it may be read. */
import { isLeased, readContent, Unread } from "./backend/entry.ts";
import { explain } from "./explain.ts";
import type { Content, LockHolder } from "./record.ts";
import { type FileStat, type System, SystemError } from "./sys/sys.ts";

/** A lock file that was read. */
export interface Reading {
  readonly stat: FileStat;
  readonly holder: LockHolder | undefined;
  /** It may not be opened, or it was and could not be read, or not now; the kernel can still be asked about it. */
  readonly hidden?: "unopened" | "unread" | "leased";
}

/** Reads a lock file; undefined where there is none. */
export function read(sys: System, path: string): Reading | undefined {
  try {
    return reading(sys, path);
  } catch (error) {
    throw error instanceof SystemError ? explain(sys, path, error) : error;
  }
}

function reading(sys: System, path: string): Reading | undefined {
  let found: { content: Content; stat: FileStat } | undefined;
  try {
    found = readContent(sys, path);
  } catch (error) {
    const leased = isLeased(error);
    if (!leased && !(error instanceof SystemError && error.code === "EACCES")) throw error;
    const stat = sys.stat(path);
    if (stat?.kind !== "file") throw error;
    return { stat, holder: undefined, hidden: leased ? "leased" : error instanceof Unread ? "unread" : "unopened" };
  }
  return found && { stat: found.stat, holder: "holder" in found.content ? found.content.holder : undefined };
}

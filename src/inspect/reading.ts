/** What stands in a lock file, as far as it may be read. */
import { isKept, isLeased, readContent, Unread } from "../backend/entry.ts";
import { explain } from "../record/explain.ts";
import { barePid, type Content, type LockHolder } from "../record/record.ts";
import { type FileStat, type System, SystemError } from "../sys/contract.ts";

/** A lock file that was read. */
export interface Reading {
  readonly stat: FileStat;
  readonly holder: LockHolder | undefined;
  /** It holds a PID alone: another program's PID file. */
  readonly bare?: boolean;
  /**
   * Why it was not read: it may not be opened; it was, and may not be read; a lease keeps others from it, or a lock does,
   * as on Windows. The kernel can still be asked about it.
   */
  readonly hidden?: "unopened" | "unread" | "leased" | "kept";
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
    const hidden = isLeased(error)
      ? "leased"
      : isKept(error)
      ? "kept"
      : error instanceof Unread
      ? "unread"
      : "unopened";
    const isDenied = error instanceof SystemError && error.code === "EACCES";
    if (!isDenied && hidden !== "leased" && hidden !== "kept") throw error;
    const stat = sys.stat(path);
    if (stat?.kind !== "file") throw error;
    return { stat, holder: undefined, hidden };
  }
  if (!found) return undefined;
  const { content, stat } = found;
  return { stat, holder: "holder" in content ? content.holder : undefined, bare: barePid(content) !== undefined };
}

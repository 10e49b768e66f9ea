/** What stands in a lock file, as far as it may be read. */
import { isLeased, readContent, Unread } from "./backend/entry.ts";
import { explain } from "./explain.ts";
import { barePid, type Content, type LockHolder } from "./record.ts";
import { type FileStat, type System, SystemError } from "./sys/sys.ts";

/** A lock file that was read. */
export interface Reading {
  readonly stat: FileStat;
  readonly holder: LockHolder | undefined;
  /** It holds a PID alone: another program's PID file. */
  readonly bare?: boolean;
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
  if (!found) return undefined;
  const { content, stat } = found;
  return { stat, holder: "holder" in content ? content.holder : undefined, bare: barePid(content) !== undefined };
}

/** What went wrong, in a line and an exit status. */
import { LockError, LockUnsupportedError } from "../../mod.ts";
import { UsageError } from "./args.ts";
import { STATUS } from "./version.ts";

/** What flock(1) says of an open that failed: a lack of memory or descriptors, of room or right to make it, or the rest. */
const SYSTEM = new Set(["ENOMEM", "EMFILE", "ENFILE"]);
const NOT_MADE = new Set(["EROFS", "ENOSPC", "EDQUOT"]);

/** What cannot be opened: because of its name, its kind or its rights. */
const NOT_OPENED = new Set([
  ..."ENOENT EACCES EPERM ELOOP EISDIR ENOTDIR EINVAL ENXIO ENAMETOOLONG ETXTBSY ESTALE".split(" "),
]);

/** The exit status for an error; undefined for one that is a fault of this program. */
export function failureStatus(error: unknown): number | undefined {
  if (error instanceof UsageError) return STATUS.usage;
  if (error instanceof LockUnsupportedError) return STATUS.unavailable;
  if (!(error instanceof LockError)) return undefined;
  if (SYSTEM.has(error.code)) return STATUS.system;
  if (NOT_MADE.has(error.code)) return STATUS.cannotCreate;
  return NOT_OPENED.has(error.code) ? STATUS.noInput : STATUS.system;
}

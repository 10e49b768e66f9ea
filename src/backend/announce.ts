/** Steps 4 and 5 of the kernel lock (docs/protocol.md): the record of a hold, written into the file and taken back. */
import type { Request } from "./contract.ts";
import type { Named } from "../record/in_the_way.ts";
import { judgeNumber } from "../record/owner.ts";
import { barePid, type LockHolder, parse, RECORD_LIMIT, sameBytes } from "../record/record.ts";
import { type OpenFile, type System, SystemError } from "../sys/contract.ts";
import { isOfThisThread } from "../record/owner_thread.ts";
import { recordOf } from "./entry.ts";

/** Where a record finds no room the lock still holds: a full disk must not stop the job that cleans it. */
const NO_ROOM = new Set(["ENOSPC", "EDQUOT", "EFBIG"]);

/** The record of a hold, in the file. */
export interface Announcement {
  /** The last holder, if it died without releasing. */
  readonly stale: LockHolder | undefined;
  /** Another program's PID that stood there: its process is alive and has not locked the file. */
  readonly named?: Named;
  /** Not held after all: puts back what stood there, so that a dead holder is still reported. */
  takeBack(): void;
  /** Clears our record, and nothing that another process wrote over it; whether it was there. */
  clear(): boolean;
}

/** Of a hold that has no record: a shared one, or on a file that is not ours to write. */
export const NOTHING: Announcement = { stale: undefined, takeBack() {}, clear: () => false };

/** Writes the record, where that may be. */
export function announce(sys: System, file: OpenFile, writable: boolean, request: Request): Announcement {
  const before = file.read(RECORD_LIMIT + 1); // 4
  const content = parse(before);
  const pid = barePid(content);
  const owner = pid === undefined ? undefined : judgeNumber(pid, undefined, sys);
  // A process that lives has not died. (Without the right to ask, it is taken for the last holder, as every record is.)
  const named = pid !== undefined && owner?.state === "alive" ? { pid, reason: owner.reason } : undefined;
  // Nor has this thread: an earlier load of its program wrote that (a watcher).
  const died = "holder" in content && !named && !isOfThisThread(content.holder, sys);
  const stale = died ? content.holder : undefined;
  // People lock their data files: what we did not write stays as it is (filelock#591).
  if (!writable || content.kind === "foreign") return { ...NOTHING, stale, named };
  const record = recordOf(sys, request, sys.nonce());
  const replace = (bytes: Uint8Array) => {
    file.empty(); // first, so that a reader sees nothing rather than half of each
    if (bytes.length > 0) file.write(bytes);
  };
  try {
    if (before.length > 0) file.empty();
    file.write(record); // 5
  } catch (error) {
    ignoringFailure(() => file.empty());
    if (error instanceof SystemError && NO_ROOM.has(error.code)) return { ...NOTHING, stale, named };
    throw error;
  }
  return {
    stale,
    named,
    takeBack: () => ignoringFailure(() => replace(before)),
    clear() {
      let found = false;
      ignoringFailure(() => {
        // The user may have written data into the file that is locked: it is theirs now.
        found = sameBytes(file.read(RECORD_LIMIT + 1), record);
        if (found) file.empty();
      });
      return found;
    },
  };
}

/** For a record that could not be cleared: the lock is released all the same, and the next holder gets a stale report. */
function ignoringFailure(call: () => void): void {
  try {
    call();
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
  }
}

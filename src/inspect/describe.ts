/** Describes the holder of a lock that was refused, for a message or a signal. */
import type { Entry, Refusal } from "../backend/contract.ts";
import type { InTheWay } from "../record/in_the_way.ts";
import { BY_US, inspectKernel } from "./inspect.ts";
import { partOfUs } from "./ourselves.ts";
import { pidPath } from "../backend/entry.ts";
import { isThisProcess } from "../record/identity.ts";
import { judge } from "../record/owner.ts";
import { proofOfLock, proofOfOwner } from "./proof.ts";
import { inPlace, type LockStatus, viewOf } from "./status.ts";
import { type System, SystemError } from "../sys/contract.ts";

/** Finds the holder that a refusal met at a path. */
export function describe(sys: System, given: string, refusal: Refusal): InTheWay {
  if (refusal.here) return { here: true };
  const path = sys.resolveParents(given);
  const inTheWay = refusal.entry ? whoOwns(sys, path, refusal.entry, refusal.yet) : whoHolds(sys, path);
  const { holder } = inTheWay;
  const isOurs = holder && isThisProcess(sys, inTheWay);
  return isOurs ? { ...inTheWay, part: partOfUs(holder, refusal.token) } : inTheWay;
}

/** By the PID file that is in the way. */
function whoOwns(sys: System, path: string, entry: Entry, yet: string | undefined): InTheWay {
  const { holder, owner, unread } = entry;
  const doubt = owner.state === "alive" && holder ? yet : owner.reason;
  const proof = holder && (doubt ?? proofOfOwner(sys, path, holder));
  const fileSystem = sys.fileSystem(pidPath(path));
  return { holder, fileSystem, unread, doubt, breakable: owner.state === "unknown", proof };
}

/** By the kernel: the record may be a dead holder's, while a program without a record has the lock. */
function whoHolds(sys: System, path: string): InTheWay {
  let status: LockStatus;
  try {
    status = inPlace(inspectKernel(sys, path), viewOf(sys, path));
  } catch (error) {
    if (error instanceof SystemError) {
      return { unread: true, doubt: `the kernel refuses it, and who has it cannot be seen: ${error.message}` };
    }
    throw error;
  }
  const { state, holder, unread, holders, reason } = status;
  if (state === "free" || state === "stale") {
    return status.complete ? {} : { unread, unseen: true, doubt: `the kernel refuses it, and ${reason}` };
  }
  if (!holder) return { unread, doubt: reason };
  if (state === "unknown") return { holder, doubt: reason };
  const others = holders.length - 1;
  if (reason === BY_US) return { holder, others }; // Deno without FFI could not judge itself
  const fileSystem = sys.fileSystem(path);
  const owner = judge(holder, sys, fileSystem);
  const doubt = owner.state === "alive" ? undefined : `the kernel refuses it; of that process, ${owner.reason}`;
  return { holder, fileSystem, others, doubt, proof: doubt ?? proofOfLock(sys, path, holder) };
}

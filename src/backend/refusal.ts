/** A PID file that is in the way: whom it names, and whether that is proven. */
import type { Refusal } from "../backend.ts";
import type { LockHolder } from "../record.ts";
import { type Proof, whyNotIdentified } from "../proof.ts";
import { whoElseMayChange } from "../trust.ts";
import { type System, SystemError } from "../sys/sys.ts";
import { type Entry, pidPath, readContent } from "./entry.ts";

/** What is in the way, and why, where that is not plain from its being alive. `yet`: it does not hold it yet. */
export function refusalBy(sys: System, path: string, { nonce, holder, owner }: Entry, yet?: string): Refusal {
  const doubt = owner.state === "alive" && holder ? yet : owner.reason;
  const proof = () => holder && (doubt ?? proofOfOwner(sys, path, holder));
  return { token: nonce, who: () => ({ holder, doubt, breakable: owner.state === "unknown", proof: proof() }) };
}

/**
 * Whether the process that a lock's PID file names made it: the record fits that process, and no other user can have
 * written it. Anybody can find out the start time of a process, and the rest of what a record says.
 */
export function proofOfOwner(sys: System, path: string, holder: LockHolder): Proof {
  const file = pidPath(path);
  try {
    const there = readContent(sys, file);
    const named = there?.content.kind === "record" ? there.content.holder : undefined;
    if (!there || named?.nonce !== holder.nonce || named?.pid !== holder.pid) {
      return "its PID file is another one by now";
    }
    return whyNotIdentified(sys, holder, sys.fileSystem(file)) ?? whoElseMayChange(sys, file, there.stat) ?? true;
  } catch (error) {
    if (error instanceof SystemError) return `its PID file cannot be read: ${error.message}`;
    throw error;
  }
}

/** Removes a dead owner's PID file: by taking it over (docs/protocol.md, A2 to A6), never by a bare unlink. */
import type { Attempt, Refusal, Request } from "./contract.ts";
import { isThere } from "../record/explain.ts";
import type { LockHolder } from "../record/record.ts";
import { type System, SystemError } from "../sys/contract.ts";
import { pidPath } from "./entry.ts";
import { releaseQuietly } from "./pid_held.ts";
import { advance, type Step, STEPS_LIMIT } from "./pidfile.ts";

/**
 * Removes a dead owner's PID file for the holder of the kernel lock, and returns
 * that owner: left there, it would be in the way for good once its PID is reused.
 */
export function removeDead(sys: System, request: Request): LockHolder | undefined {
  try {
    const outcome = breakStale(sys, request);
    return "stale" in outcome ? outcome.stale : undefined; // else another process takes it over, and will find us
  } catch (error) {
    if (error instanceof SystemError) return undefined; // it may not be removed: it stays, and stays dead
    throw error;
  }
}

/** Takes a dead owner's PID file over and removes it; nothing that belongs to another process. */
export function breakStale(
  sys: System,
  request: Request,
): { stale: LockHolder | undefined } | { refusal: Refusal } | { gone: true } {
  if (!isThere(sys, pidPath(request.path))) return { gone: true };
  let step: Step = { at: "A2" };
  for (let steps = 0; steps < STEPS_LIMIT; steps++) {
    if (step.at === "A1") return { gone: true }; // another process removed it: what is not there is not made
    if (step.at === "B") {
      releaseQuietly(sys, request.path, step.nonce);
      return { stale: step.stale };
    }
    const next: Step | Attempt = advance(sys, request, step);
    if ("refusal" in next) return { refusal: next.refusal };
    if (!("at" in next)) break; // never: only step B grants
    step = next;
  }
  throw new SystemError("ESTALE", `${pidPath(request.path)} comes and goes again and again`);
}

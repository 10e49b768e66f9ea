/**
 * Breaking a lock that only a person can judge: a PID file whose owner is on
 * another host or in another container, or that is damaged. The person sees
 * what is known and declares the owner dead; then it is taken over as any dead
 * owner's is, so a process that took the lock in the meantime keeps it.
 */
import type { Entry, Refusal } from "./contract.ts";
import { linkPath, pidPath, readEntry } from "./entry.ts";
import { LONGEST_CHAIN } from "./pidfile.ts";
import { breakStale } from "./remove.ts";
import { systemFailure } from "../record/errors.ts";
import { validateOptions } from "../record/options.ts";
import { mayAskDirectory, system } from "../sys/mod.ts";
import { SystemError } from "../sys/contract.ts";

/** The PID file of a lock, and the takeovers of it that are under way or died; the first is the owner. Writes nothing. */
export function pidFiles(path: string): Entry[] {
  return failing(path, (sys, physical) => {
    const found: Entry[] = [];
    for (let file = pidPath(physical); found.length < LONGEST_CHAIN;) {
      const entry = readEntry(sys, physical, file, false);
      if (!entry) break;
      found.push(entry);
      file = linkPath(physical, entry.nonce);
    }
    return found;
  });
}

/**
 * Removes the PID file of a lock whose owner is dead, or was declared dead by
 * its nonce. An owner that is known to be alive is never removed.
 */
export function breakPidFile(path: string, declaredDead: ReadonlySet<string>): "removed" | "gone" | Refusal {
  return failing(path, (sys, physical) => {
    const { mode, fileMode, label } = validateOptions({ label: "holdfast break" }, path, mayAskDirectory);
    const outcome = breakStale(sys, { path: physical, mode, fileMode, label, declaredDead });
    return "refusal" in outcome ? outcome.refusal : "gone" in outcome ? "gone" : "removed";
  });
}

function failing<T>(path: string, call: (sys: ReturnType<typeof system>, physical: string) => T): T {
  const sys = system();
  try {
    return call(sys, sys.resolveParents(path));
  } catch (error) {
    throw error instanceof SystemError ? systemFailure("break", path, error) : error;
  }
}

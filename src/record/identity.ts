/** Whether a record is proven to be of the process that has its number now. */
import type { InTheWay } from "./in_the_way.ts";
import { isElsewhere, judge } from "./owner.ts";
import { isOfThisProcess } from "./owner_thread.ts";
import type { LockHolder } from "./record.ts";
import type { System } from "../sys/contract.ts";

/** Why a record is not proven to be of the process that has its number now; undefined if it is. `fileSystem`: what the record lies on. */
export function whyNotIdentified(sys: System, holder: LockHolder, fileSystem?: string): string | undefined {
  const self = sys.self();
  const { state, reason } = judge(holder, sys, fileSystem);
  if (state !== "alive") return reason;
  for (const name of ["startTime", "bootId", "pidNamespace", "host"] as const) {
    if (holder[name] === undefined) return `its record has no ${name}, so it cannot be verified`;
    // The start time was compared with the process' own.
    if (name !== "startTime" && self[name] === undefined) return `the ${name} of this process is not known`;
  }
  return undefined;
}

/**
 * Whether the holder is this very process. Without doubt it is alive here, and so is its number; a process of another
 * PID namespace may have the same one.
 */
export function isThisProcess(sys: System, { holder, doubt }: InTheWay): boolean {
  const self = sys.self();
  if (holder?.pid !== self.pid || isElsewhere(holder, self)) return false;
  return !doubt || isOfThisProcess(holder, sys);
}

/** Which part of this very process holds a lock, in words: what a person can do about it depends on that. */
import { isHeldByThisCopy } from "../hold/loss_watcher.ts";
import type { HolderFields } from "../record/record.ts";
import { holdsHere } from "../backend/registry.ts";
import { system } from "../sys/mod.ts";

/** Of a holder that has this process's id. `token`: of the hold that is in the way, where it is known. */
export function partOfUs(holder: HolderFields, token: string | undefined): string {
  if (token !== undefined && isHeldByThisCopy(token)) return "by another Lock object";
  if (token !== undefined && holdsHere(token)) return APART;
  const sys = system();
  const own = sys.thread();
  if (own === undefined || holder.nonce === undefined) {
    return "by another of its threads, or by an earlier load of the program. If nothing there releases it, start the program anew";
  }
  const { pid, thread = pid } = holder;
  if (thread === own) return APART;
  if (thread === pid) return "by its main thread";
  if (sys.hasThread(pid, thread) !== false) return `by its thread ${thread} (a Worker)`;
  return `by its thread ${thread}, a Worker that has ended: this runtime frees such a lock when the process ends`;
}

const APART =
  "by other code in it: an earlier load of the program, which goes on (bun --hot), or another copy of this " +
  "library. Release it there, keep the Lock object on globalThis, or start the program anew";

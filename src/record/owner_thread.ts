/** Threads: a Worker can end while its process goes on, and a program can be replaced within its thread. */
import type { HolderFields } from "./record.ts";
import type { Processes } from "../sys/contract.ts";

/**
 * Why a record's owner is dead although its process is alive: its thread has ended. undefined if it has not, or if that
 * cannot be seen. Of an owner in this process's own PID namespace only.
 */
export function whyThreadIsDead({ pid, thread }: HolderFields, processes: Processes): string | undefined {
  if (thread === undefined || processes.hasThread(pid, thread) !== false) return undefined;
  return `its thread ${thread} (a Worker?) has ended, while process ${pid} is alive`;
}

/** Whether a record was written in this process. False where not all of it is known: another namespace has our number too. */
export function isOfThisProcess(holder: HolderFields, processes: Processes): boolean {
  const self = processes.self();
  return holder.pid === self.pid &&
    (["startTime", "bootId", "pidNamespace"] as const)
      .every((fact) => self[fact] !== undefined && holder[fact] === self[fact]);
}

/**
 * Whether a record was written in the very thread that asks: by this program, or by an earlier load of it (a watcher
 * that starts the next version in the same process). False where not all of it is known.
 */
export function isOfThisThread(holder: HolderFields, processes: Processes): boolean {
  return isOfThisProcess(holder, processes) && (holder.thread ?? holder.pid) === processes.thread();
}

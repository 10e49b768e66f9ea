/**
 * What this thread holds, so that a wait for oneself is seen, and so that a
 * normal exit leaves no record behind. Nothing is installed before the first
 * lock is held.
 */
import type { Hold } from "./contract.ts";
import { isMainThread, onEnd } from "../sys/mod.ts";
import { perThread } from "../sys/thread.ts";

/** What is held, and what to do about each when the process, or this Worker, ends in order. */
const holds = (): Map<Hold, () => void> => perThread("holds", install);

function install(): Map<Hold, () => void> {
  const holds = new Map<Hold, () => void>();
  let crashed = false;
  // Events, not signal handlers: a signal's default death stays as it is (proper-lockfile#111).
  onEnd(() => {
    // The record stays, and the next holder is told. But a Worker's process goes on, and would keep the lock.
    if (crashed && isMainThread()) return;
    const failures: unknown[] = [];
    for (const [hold, onExit] of [...holds]) {
      // One event may follow another (Deno's "unload" and "exit"). It counts as held all the same, until it is forgotten.
      if (holds.has(hold)) holds.set(hold, () => {});
      try {
        onExit();
      } catch (error) {
        failures.push(error); // the others are left all the same
      }
    }
    if (failures.length > 0) throw failures[0];
  }, () => crashed = true);
  return holds;
}

/** From now on it is held, and `onExit` is called at a normal exit. */
export function remember(hold: Hold, onExit: () => void): void {
  holds().set(hold, onExit);
}

/** It is no longer held. */
export function forget(hold: Hold): void {
  holds().delete(hold);
}

/** Whether this thread holds it still. A task may outlive the `run` that it was started in. */
export const isHeld = (hold: Hold): boolean => holds().has(hold);

/**
 * The process is about to become another program, which keeps the locks that it
 * is given: what would report a crash to the next holder goes now, because no
 * exit event will come.
 */
export function leaveAll(): void {
  for (const onExit of holds().values()) onExit();
}

/** Whether this thread holds what goes by that token. */
export function holdsHere(token: string): boolean {
  return [...holds().keys()].some((hold) => hold.token === token);
}

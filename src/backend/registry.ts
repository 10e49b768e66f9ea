/**
 * What this thread holds, so that a wait for oneself is seen, and so that a
 * normal exit leaves no record behind. Nothing is installed before the first
 * lock is held.
 */
import { isMainThread, onEnd } from "../sys/mod.ts";
import { perThread } from "../sys/thread.ts";

/** A hold, as far as the registry cares. */
export interface Registered {
  readonly token: string;
  /** The process ends in order. */
  leave(): void;
}

const holds = (): Set<Registered> => perThread("holds", install);

function install(): Set<Registered> {
  const holds = new Set<Registered>();
  let crashed = false;
  // Events, not signal handlers: a signal's default death stays as it is (proper-lockfile#111).
  onEnd(() => {
    // The record stays, and the next holder is told. But a Worker's process goes on, and would keep the lock.
    if (crashed && isMainThread()) return;
    const failures: unknown[] = [];
    for (const hold of [...holds]) {
      try {
        hold.leave();
      } catch (error) {
        failures.push(error); // the others are left all the same
      }
    }
    holds.clear();
    if (failures.length > 0) throw failures[0];
  }, () => crashed = true);
  return holds;
}

/** From now on it is given up at a normal exit. */
export function remember(hold: Registered): void {
  holds().add(hold);
}

/** It is no longer held. */
export function forget(hold: Registered): void {
  holds().delete(hold);
}

/**
 * The process is about to become another program, which keeps the locks that it
 * is given: what would report a crash to the next holder goes now, because no
 * exit event will come.
 */
export function leaveAll(): void {
  for (const hold of holds()) hold.leave();
}

/** Whether this thread holds what goes by that token. */
export function holdsHere(token: string): boolean {
  return [...holds()].some((hold) => hold.token === token);
}

/**
 * What this thread holds, so that a wait for oneself is seen, and so that a
 * normal exit leaves no record behind. Two copies of the package in one program
 * share it. Nothing is installed before the first lock is held.
 */

import { onCrash } from "./sys/mod.ts";

/** A hold, as far as the registry cares. */
export interface Registered {
  readonly token: string;
  release(): unknown;
}

interface Registry {
  readonly holds: Set<Registered>;
}

const KEY = Symbol.for("@holdfast/lock:registry:1");

function registry(): Registry {
  const home = globalThis as { [KEY]?: Registry }; // our own property, under a symbol of our own
  return home[KEY] ??= install();
}

function install(): Registry {
  const holds = new Set<Registered>();
  let crashed = false;
  const leave = () => {
    if (crashed) return; // the record stays, and the next holder is told
    for (const hold of holds) {
      try {
        hold.release();
      } catch {
        // The process ends and the kernel frees the lock; a record left behind is only reported.
      }
    }
    holds.clear();
  };
  // Events, not signal handlers: a signal's default death stays as it is (proper-lockfile#111).
  process.on("exit", leave);
  onCrash(() => crashed = true);
  // Deno.exit() fires only this one.
  (globalThis as { addEventListener?: (type: string, listener: () => void) => void }).addEventListener?.(
    "unload",
    leave,
  );
  return { holds };
}

/** From now on it is given up at a normal exit. */
export function remember(hold: Registered): void {
  registry().holds.add(hold);
}

/** It is no longer held. */
export function forget(hold: Registered): void {
  registry().holds.delete(hold);
}

/** Whether this thread holds what goes by that token. */
export function holdsHere(token: string): boolean {
  return [...registry().holds].some((hold) => hold.token === token);
}

/** A function that runs while the lock is held. */
import type { Hold } from "../backend/contract.ts";
import { under } from "./context.ts";
import type { State } from "./state.ts";
import { quote } from "../sys/printable.ts";

/** What a function that runs under a lock is given. */
export interface Held {
  /** Aborts with LockLostError when the lock is lost; never on release. */
  readonly signal: AbortSignal;
}

/** Calls `fn` under what was granted, and gives that back. */
export async function run<T>(state: State, fn: (held: Held) => T | Promise<T>, granted: Hold): Promise<T> {
  state.enter(granted);
  const { signal } = state;
  let result: T;
  try {
    result = await under(granted, state.path, () => fn({ signal }));
  } catch (error) {
    throw state.leave(granted, error);
  }
  state.leave(granted);
  return result;
}

/** The same for a function that is not asynchronous. */
export function runSync<T>(state: State, fn: () => T, granted: Hold): T {
  state.enter(granted);
  let result: T;
  try {
    result = under(granted, state.path, fn);
    // The cast: it may be anything, and is only asked for a property.
    if (typeof (result as { then?: unknown } | undefined)?.then === "function") {
      throw new TypeError(`Cannot run an asynchronous function under ${quote(state.path)} with runSync(): use run()`);
    }
  } catch (error) {
    throw state.leave(granted, error);
  }
  state.leave(granted);
  return result;
}

/** Asked before anything is acquired. */
export function mustBeFunction(name: string, fn: unknown): void {
  if (typeof fn !== "function") throw new TypeError(`Cannot ${name}() as its first argument must be a function`);
}

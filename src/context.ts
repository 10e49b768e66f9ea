/**
 * Which holds a task runs under: what `run` has acquired around the current
 * asynchronous context. It tells a nested call from another task's.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Hold } from "./backend.ts";

interface Frame {
  readonly hold: Hold;
  readonly outer: Frame | undefined;
}

let storage: AsyncLocalStorage<Frame> | undefined;

/** Calls `fn` under a hold. */
export function under<T>(hold: Hold, fn: () => T): T {
  storage ??= new AsyncLocalStorage();
  return storage.run({ hold, outer: storage.getStore() }, fn);
}

/** Whether the current task runs under a hold like that. */
export function isUnder(matches: (hold: Hold) => boolean): boolean {
  for (let frame = storage?.getStore(); frame; frame = frame.outer) {
    if (matches(frame.hold)) return true;
  }
  return false;
}

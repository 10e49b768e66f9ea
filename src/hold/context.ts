/**
 * Which holds a task runs under: what `run` has acquired around the current
 * asynchronous context. It tells a nested call from another task's.
 */
import type { AsyncLocalStorage } from "node:async_hooks";
import type { Hold } from "../backend/contract.ts";
import { isHeld } from "../backend/registry.ts";
import { asyncHooks } from "../sys/builtin.ts";
import { perThread } from "../sys/thread.ts";

interface Frame {
  readonly hold: Hold;
  readonly path: string;
  readonly outer: Frame | undefined;
}

/** Loads `node:async_hooks` at the first `run()` of the thread, and not before. */
const frames = () => perThread<{ storage?: AsyncLocalStorage<Frame> }>("frames", () => ({}));

/** Calls `fn` under a hold. */
export function under<T>(hold: Hold, path: string, fn: () => T): T {
  const storage = frames().storage ??= new (asyncHooks().AsyncLocalStorage<Frame>)();
  return storage.run({ hold, path, outer: storage.getStore() }, fn);
}

/** Whether the current task runs under a hold like that. */
export function isUnder(matches: (hold: Hold, path: string) => boolean): boolean {
  for (let frame = frames().storage?.getStore(); frame; frame = frame.outer) {
    if (isHeld(frame.hold) && matches(frame.hold, frame.path)) return true;
  }
  return false;
}

/** What a user reads at 3 a.m.: who holds it, since when, and what to do. */
import type { Refusal } from "./backend.ts";
import { LockDeadlockError, LockLostError, LockNotHeldError, LockTimeoutError, quote } from "./errors.ts";
import type { LockOptions } from "./options.ts";
import type { LockHolder } from "./record.ts";

/** The time was up. */
export function timeoutError(path: string, timeout: number, refusal: Refusal): LockTimeoutError {
  const { holder, doubt } = refusal.who();
  const by = holder ? `held by ${holder}` : "held by a process that left no record";
  const when = timeout === 0 ? "at once" : `within ${timeout} ms`;
  // Whoever is told to end a process must be told of the right one: only where it is known to be alive, here.
  const advice = doubt ? `. It counts as held because ${doubt}` : holder?.nonce // without a record of ours a child may share the lock, and keep it when its parent ends
    ? `. It is free as soon as that process releases it or ends ("kill ${holder.pid}" ends it)`
    : `. "fuser -v ${path}" names the processes that have it open`;
  return new LockTimeoutError(`Cannot acquire ${quote(path)} ${when}: ${by}${advice}`, {
    code: "ETIMEDOUT",
    path,
    holder,
  });
}

/** The wait could never end. */
export function deadlockError(path: string): LockDeadlockError {
  const message = `Cannot acquire ${quote(path)}: this thread holds it already, and would wait for itself`;
  return new LockDeadlockError(message, { code: "EDEADLK", path });
}

/** There is nothing to release. */
export function notHeldError(path: string): LockNotHeldError {
  const message = `Cannot release ${quote(path)}: this object does not hold it`;
  return new LockNotHeldError(message, { code: "ENOTHELD", path });
}

/** It is gone. */
export function lostError(path: string, cause?: unknown): LockLostError {
  const message =
    `Cannot release ${quote(path)}: it was lost, because its file was deleted or replaced while it was held. ` +
    "Another process may have held it at the same time; look for what deletes files there (a tmp cleaner?)";
  return new LockLostError(message, { code: "ELOST", path, cause });
}

/** The last holder died: told to the user's function or, without one, on standard error. Never silent. */
export function reportStale(path: string, holder: LockHolder, onStale: LockOptions["onStale"]): void {
  if (onStale) onStale(holder);
  else console.error(`holdfast: the last holder of ${quote(path)} died without releasing it: ${holder}`);
}

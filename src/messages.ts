/** What a user reads at 3 a.m.: who holds it, since when, and what to do. */
import type { InTheWay, Named, Refusal } from "./backend.ts";
import { LockDeadlockError, LockHeldError, LockLostError, LockNotHeldError, LockTimeoutError } from "./errors.ts";
import type { LockOptions } from "./options.ts";
import type { LockHolder } from "./record.ts";
import { printable, quote, shown } from "./sys/printable.ts";

/** A holder that cannot be named. */
export const unnamed = ({ unread }: Pick<InTheWay, "unread">): string =>
  unread ? "a holder whose record cannot be read" : "a process that left no record";

/** The time was up. */
export function timeoutError(path: string, timeout: number, refusal: Refusal, remark = ""): LockTimeoutError {
  const inTheWay = refusal.who();
  const { holder, others, doubt, here } = inTheWay;
  const when = timeout === 0 ? "at once" : `within ${timeout} ms`;
  const by = here
    ? "this very Lock object holds it: release() it first, or use reentrant: true"
    : holder?.pid === process.pid
    ? `held by ${holder}, which is this very process, by another Lock object`
    : holder
    ? `held by ${holder}${others ? ` and ${others} other${others > 1 ? "s" : ""}` : ""}`
    : `held by ${unnamed(inTheWay)}`;
  return new LockTimeoutError(
    `Cannot acquire ${quote(path)} ${when}: ${by}${remark}${here ? "" : advice(path, holder, doubt)}`,
    {
      code: "ETIMEDOUT",
      path,
      holder,
    },
  );
}

/** Whoever is told to end a process must be told of the right one: only where it is known to be alive, here. */
function advice(path: string, holder: LockHolder | undefined, doubt: string | undefined): string {
  if (doubt) return `. It counts as held because ${doubt}`;
  if (holder?.pid === process.pid) return "";
  // Without a record of ours a child may share the lock, and keep it when its parent ends.
  return holder?.nonce
    ? `. It is free as soon as that process releases it or ends ("kill ${holder.pid}" ends it)`
    : `. "fuser -v ${shown(path)}" names the processes that have it open`;
}

/** The wait could never end. */
export function deadlockError(path: string): LockDeadlockError {
  const message = `Cannot acquire ${quote(path)}: this thread holds it already, and would wait for itself ` +
    "(a run() inside run()? see reentrant. A shared hold cannot become exclusive)";
  return new LockDeadlockError(message, { code: "EDEADLK", path });
}

/** There is nothing to release. */
export function notHeldError(path: string): LockNotHeldError {
  const message = `Cannot release ${quote(path)}: this object does not hold it`;
  return new LockNotHeldError(message, { code: "ENOTHELD", path });
}

/** Given up before its caller had it. */
export function releasedError(path: string): LockNotHeldError {
  const message = `Cannot acquire ${quote(path)}: it was acquired, and released at once by onStale or a listener`;
  return new LockNotHeldError(message, { code: "ENOTHELD", path });
}

/** It is gone. */
export function lostError(path: string, reason: string): LockLostError {
  const message = `Cannot keep ${quote(path)}: it was lost, because ${reason}. ` +
    "Another process may have held it at the same time; look for what deletes files there (a tmp cleaner?)";
  return new LockLostError(message, { code: "ELOST", path });
}

/** The holder cannot be asked to hand it over. */
export function notSignalledError(path: string, signal: string, inTheWay: InTheWay, reason: string): LockHeldError {
  const { holder } = inTheWay;
  const by = holder ?? unnamed(inTheWay);
  const message = `Cannot acquire ${quote(path)}: held by ${by}, which was not sent ${signal}, because ${reason}`;
  return new LockHeldError(message, { code: "ELOCKED", path, holder });
}

/** The last holder died: told to the user's function or, without one, on standard error. Never silent. */
export function reportStale(path: string, holder: LockHolder, onStale: LockOptions["onStale"]): void {
  if (onStale) onStale(holder);
  else warn(`the last holder of ${quote(path)} died without releasing it: ${holder}; this process has taken over`);
}

/** Another program's PID file was locked, and its owner lives: nobody died, but the number is gone. */
export function warnOfNumber(path: string, { pid, reason }: Named): void {
  if (pid === process.pid) return; // a daemon's own
  warn(
    `${quote(path)} named pid ${pid}, which had no flock(2) lock on it: ${reason}. Another program's PID file? ` +
      "This process has the lock now",
  );
}

/** Tells on standard error. In Deno that throws where it is a file on a full disk: no reason to go without the lock. */
export function warn(words: string): void {
  try {
    console.error(`holdfast: ${printable(words)}`);
  } catch {
    // Nobody can be told, and the job that makes room must not be stopped by that.
  }
}

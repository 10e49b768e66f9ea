/** The messages that a user reads at 3 a.m.: the holder, since when, and what to do. */
import { LockDeadlockError, LockHeldError, LockLostError, LockNotHeldError, LockTimeoutError } from "./errors.ts";
import type { InTheWay, Named } from "./in_the_way.ts";
import type { LockOptions } from "./options.ts";
import type { LockHolder } from "./record.ts";
import { printable, quote, shown } from "../sys/printable.ts";

/** A holder that cannot be named. */
export function unnamed({ unread, unseen }: Pick<InTheWay, "unread" | "unseen">): string {
  if (unread) return "a holder whose record cannot be read";
  return unseen ? "a process that cannot be seen from here" : "a process that left no record";
}

/** The time was up. */
export function timeoutError(path: string, timeout: number, inTheWay: InTheWay, remark = ""): LockTimeoutError {
  const { holder, others, here, part } = inTheWay;
  const when = timeout === 0 ? "at once" : `within ${timeout} ms`;
  const by = here
    ? "this very Lock object holds it, and its owner has to release() it first"
    : part
    ? `held by ${holder}, which is this very process, ${part}`
    : holder
    ? `held by ${holder}${others ? ` and ${others} other${others > 1 ? "s" : ""}` : ""}`
    : `held by ${unnamed(inTheWay)}`;
  return new LockTimeoutError(
    `Cannot acquire ${quote(path)} ${when}: ${by}${remark}${here ? "" : advice(path, inTheWay)}`,
    {
      code: "ETIMEDOUT",
      path,
      holder,
    },
  );
}

/** Advice names a process to end only if that is proven to have the lock: a person may follow it. */
function advice(path: string, { holder, doubt, breakable, proof }: InTheWay): string {
  if (doubt) {
    const how = breakable
      ? `. If no process holds it any more, "holdfast break ${shown(path)}" removes its PID file`
      : "";
    return `. It counts as held because ${doubt}${how}`;
  }
  if (holder?.pid === process.pid) return "";
  // Without a record of ours a child may share the lock, and keep it when its parent ends.
  if (!holder?.nonce) return `. "fuser -v ${shown(path)}" names the processes that have it open`;
  if (proof !== true) return `. That this process holds it is not proven: ${proof ?? "nothing shows it"}`;
  // With the first process of a system or a container all others in it end.
  const how = holder.pid === 1 ? "" : ` ("kill ${holder.pid}" ends it)`;
  return `. It is free as soon as that process releases it or ends${how}`;
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

/** Why a lock is lost: another file has the number of its descriptor, or none. */
export const CLOSED = "its descriptor was closed by other code in this process";

/** It is gone. */
export function lostError(path: string, reason: string): LockLostError {
  const culprit = reason.startsWith(CLOSED)
    ? "look for what closes descriptors that it has not opened (a second close of one number?)"
    : "look for what deletes files there (a tmp cleaner?)";
  const message = `Cannot keep ${quote(path)}: it was lost, because ${reason}. ` +
    `Another process may have held it at the same time; ${culprit}`;
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

/** Another program's PID file was locked, and its owner lives: there was no death, but the number is gone. */
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
    // There is no way to report it, and the job that makes room must not be stopped by that.
  }
}

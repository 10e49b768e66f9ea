/** Acquisitions of which a journal has no end: the holder has the lock now, or died, and no holder has come since. */
import { Lock, LockError, type LockHolder, type LockStatus } from "../../mod.ts";
import type { LockEvent } from "../events/event.ts";
import { system } from "../sys/mod.ts";

/** The acquisitions that were neither released, lost, nor found stale; the oldest first. */
export function unended(all: readonly LockEvent[]): LockEvent[] {
  const open: LockEvent[] = [];
  for (const each of all) {
    if (each.event === "acquired") {
      open.push(each);
      continue;
    }
    const { pid, host } = each.event === "stale" ? each.holder ?? each : each;
    // A torn record has no host.
    const i = open.findLastIndex((begun) =>
      begun.pid === pid && (host === undefined || begun.host === host) && begun.path === each.path
    );
    if (i >= 0) open.splice(i, 1);
  }
  return open;
}

/** Whether the very process that acquired it has it now, as far as can be seen. */
export function holdsNow(path: string): (event: LockEvent) => boolean {
  let status: LockStatus | undefined;
  try {
    status = Lock.inspect(path);
  } catch (error) {
    if (!(error instanceof LockError)) throw error; // not known: then it was not released so far
  }
  const held = status?.state === "held" || status?.state === "unknown";
  const own = system().self().host;
  // A record and an event of one process say the same of its host, be it nothing; what was found without a record is here.
  const isOn = (holder: LockHolder, host: string | undefined) =>
    holder.nonce === undefined ? own !== undefined && own === host : holder.host === host;
  return ({ pid, host }) =>
    held && (status?.holders.some((holder) => holder.pid === pid && isOn(holder, host)) ?? false);
}

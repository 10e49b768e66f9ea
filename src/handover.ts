/**
 * Asks the holder to hand the lock over: one signal, to the one process that is
 * known to hold it. A number alone is never signalled: it may be a browser's by now.
 */
import type { InTheWay, Refusal } from "./backend.ts";
import { notSignalledError } from "./messages.ts";
import { judge } from "./owner.ts";
import type { LockHolder } from "./record.ts";
import { type System, SystemError } from "./sys/sys.ts";

/** A holder that was refused a signal for so long, in milliseconds, will not do better: it may have come a moment ago. */
const PATIENCE = 1_000;

/** To find out who holds it may cost as much as many tries: not more often, in milliseconds. */
const PAUSE = 20;

/** Why a process must not be signalled as the holder; undefined if it may. */
export function whyNotToSignal(sys: System, { holder, doubt, here }: InTheWay): string | undefined {
  const self = sys.self();
  if (here || holder?.pid === self.pid) return "it is this very process";
  if (!holder) return doubt ?? "nobody can be named";
  if (doubt) return doubt;
  if (holder.nonce === undefined) return "it left no record of this library, so it cannot be verified";
  const unknown = verifyIdentity(sys, holder);
  if (unknown) return unknown;
  const { uid } = sys.look(holder.pid) ?? {};
  if (uid === undefined || self.uid === undefined) return "its user cannot be told";
  return uid === self.uid ? undefined : `it belongs to another user (uid ${uid}, and this process is ${self.uid}'s)`;
}

/** Not just the same number: started at the same time, in the same boot and PID namespace of the same host. */
function verifyIdentity(sys: System, holder: LockHolder): string | undefined {
  const self = sys.self();
  const { state, reason } = judge(holder, sys);
  if (state !== "alive") return reason;
  for (const name of ["startTime", "bootId", "pidNamespace", "host"] as const) {
    if (holder[name] === undefined) return `its record has no ${name}, so it cannot be verified`;
    // The start time was compared with the process' own.
    if (name !== "startTime" && self[name] === undefined) return `the ${name} of this process cannot be told`;
  }
  return sys.look(holder.pid)?.startTime === holder.startTime ? undefined : `process ${holder.pid} cannot be looked at`;
}

/** One wait that began with the wish for a signal. */
export class HandOver {
  readonly #sys: System;
  readonly #path: string;
  readonly #signal: string;
  #since: number | undefined;
  #sent = false;
  #asked = -Infinity;

  /** Nothing is sent yet. */
  constructor(sys: System, path: string, signal: string) {
    this.#sys = sys;
    this.#path = path;
    this.#signal = signal;
  }

  /** A try was refused: signals the holder, once. Throws LockHeldError where that must not be. */
  ask(refusal: Refusal): void {
    const now = performance.now();
    if (this.#sent || now - this.#asked < PAUSE) return;
    this.#asked = now;
    const inTheWay = refusal.who();
    const { holder } = inTheWay;
    let reason = whyNotToSignal(this.#sys, inTheWay);
    if (reason === undefined && holder) {
      const answer = this.#sys.signal(holder.pid, this.#signal);
      if (answer === "sent") return void (this.#sent = true);
      // "gone": it has ended since, and the next try may be granted.
      reason = answer instanceof SystemError ? answer.message : `there is no process ${holder.pid}`;
    }
    if (now - (this.#since ??= now) < PATIENCE) return;
    throw notSignalledError(this.#path, this.#signal, inTheWay, reason ?? "nobody can be named");
  }

  /** What to add to the message when the time is up. */
  get remark(): string {
    return this.#sent ? `; it was sent ${this.#signal}` : `; no ${this.#signal} was sent`;
  }
}

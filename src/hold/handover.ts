/**
 * Asks the holder to hand the lock over: one signal, to the one process that is
 * proven to hold it. A number alone is never signalled, for it may be a browser's
 * by now; nor is a process because a record names it (`proof.ts`).
 */
import type { Describe, Refusal } from "../backend/contract.ts";
import { notSignalledError } from "../record/messages.ts";
import { isThisProcess, whyNotIdentified } from "../record/identity.ts";
import type { InTheWay } from "../record/in_the_way.ts";
import { type System, SystemError } from "../sys/contract.ts";

/** How long a holder may stay unverified before the wait ends, in milliseconds: it may have come a moment ago. */
const PATIENCE = 1_000;

/** Shortest time between two searches for the holder, in milliseconds: one may cost as much as many tries. */
const PAUSE = 20;

/** Why a process must not be signalled as the holder; undefined if it may. */
export function whyNotToSignal(sys: System, inTheWay: InTheWay): string | undefined {
  const { holder, fileSystem, doubt, here, proof } = inTheWay;
  const self = sys.self();
  if (here || isThisProcess(sys, inTheWay)) return "it is this very process";
  if (!holder) return doubt ?? "no process can be named";
  if (doubt) return doubt;
  if (holder.nonce === undefined) return "it left no record of this library, so it cannot be verified";
  const unknown = whyNotIdentified(sys, holder, fileSystem);
  if (unknown) return unknown;
  // Last, so that as little time as can be is left for the number to become another process's.
  const { startTime, uid } = sys.processInfo(holder.pid) ?? {};
  if (startTime !== holder.startTime) return `process ${holder.pid} cannot be looked at`;
  if (uid === undefined || self.uid === undefined) return "its user is not known";
  if (uid !== self.uid) return `it belongs to another user (uid ${uid}, and this process is ${self.uid}'s)`;
  if (proof === true) return undefined;
  return `that it holds the lock is not proven: ${proof ?? "nothing shows it"}`;
}

/** One wait that began with the wish for a signal. */
export class HandOver {
  readonly #sys: System;
  readonly #path: string;
  readonly #signal: string;
  readonly #describe: Describe;
  #since: number | undefined;
  #sent = false;
  #asked = -Infinity;

  /** Nothing is sent yet. */
  constructor(sys: System, path: string, signal: string, describe: Describe) {
    this.#sys = sys;
    this.#path = path;
    this.#signal = signal;
    this.#describe = describe;
  }

  /** A try was refused: signals the holder, once. Throws LockHeldError where that must not be. */
  ask(refusal: Refusal): void {
    const now = performance.now();
    if (this.#sent || now - this.#asked < PAUSE) return;
    this.#asked = now;
    const inTheWay = this.#describe(refusal);
    const { holder } = inTheWay;
    let reason = whyNotToSignal(this.#sys, inTheWay);
    if (reason === undefined && holder) {
      const answer = this.#sys.signal(holder.pid, this.#signal);
      if (answer === "sent") return void (this.#sent = true);
      // "gone": it has ended since, and the next try may be granted.
      reason = answer instanceof SystemError ? answer.message : `there is no process ${holder.pid}`;
    }
    if (now - (this.#since ??= now) < PATIENCE) return;
    throw notSignalledError(this.#path, this.#signal, inTheWay, reason ?? "no process can be named");
  }

  /** What to add to the message when the time is up. */
  get remark(): string {
    return this.#sent ? `; it was sent ${this.#signal}` : `; no ${this.#signal} was sent`;
  }
}

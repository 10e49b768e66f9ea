/** Times, names and signals in words, for people. */
import type { LockStatus } from "../../mod.ts";
import { isUncertain } from "../inspect/status.ts";
import { signals } from "../sys/mod.ts";
import { quote } from "../sys/printable.ts";
import { UsageError } from "./args.ts";

const UNITS = [["day", 86_400], ["hour", 3_600], ["minute", 60], ["second", 1]] as const;

/** A span in words, such as `3 minutes`: the largest unit, and the next one below it where that says much. */
export function span(milliseconds: number): string {
  const seconds = milliseconds / 1000;
  if (!Number.isFinite(seconds)) return "for ever";
  if (seconds < 1) return seconds <= 0 ? "0 seconds" : `${Math.max(1, Math.round(milliseconds))} ms`;
  const i = UNITS.findIndex(([, size]) => seconds >= size);
  const [[name, size], next] = [UNITS[i], UNITS[i + 1]];
  const count = Math.floor(seconds / size);
  const rest = next && count < 3 ? Math.floor((seconds - count * size) / next[1]) : 0;
  const plural = (count: number, name: string) => `${count} ${name}${count === 1 ? "" : "s"}`;
  return plural(count, name) + (rest > 0 ? ` ${plural(rest, next[0])}` : "");
}

/** How long ago that was by the wall clock, in milliseconds; undefined where it is no time. */
export function age(at: string | undefined): number | undefined {
  const milliseconds = at === undefined ? NaN : Date.now() - Date.parse(at); // shown to people, and decides nothing
  return Number.isNaN(milliseconds) ? undefined : milliseconds;
}

/** How long ago that was, in words. */
export function ago(at: string | undefined): string | undefined {
  const milliseconds = age(at);
  // Another machine's clock, or this one set back.
  if (milliseconds !== undefined && milliseconds < -1000) return "in the future";
  return milliseconds === undefined ? undefined : `${span(Math.max(milliseconds, 0))} ago`;
}

/** A lock's state in a word: `free?` and `stale?` where it may be held, because a holder would not be seen from here. */
export const stateOf = (status: LockStatus): string => `${status.state}${isUncertain(status) ? "?" : ""}`;

/** A signal by its name, with or without `SIG`, or by its number. */
export function signalName(given: string): NodeJS.Signals {
  const upper = given.toUpperCase();
  const name = Object.entries(signals())
    .find(([name, number]) => name === upper || name === `SIG${upper}` || String(number) === given)?.[0];
  if (!name) throw new UsageError(`there is no signal ${quote(given)}`);
  return name as NodeJS.Signals; // a key of the very table of signals
}

/** 128 and the number of the signal, as a shell has it. */
export const signalStatus = (signal: string): number =>
  // The cast: any name may be looked up; one that is not there counts as none.
  128 + ((signals() as Record<string, number | undefined>)[signal] ?? 0);

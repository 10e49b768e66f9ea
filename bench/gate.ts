/** Which ratios a later run is compared by, and how. */

import type { Spread } from "./record.ts";

/** A ratio counts as slower from here on: so much the best of three runs moves on a shared machine. */
export const MARGIN = 1.6;

/** The ratios that are compared, those whose spread over the recorded runs stays within the margin; and the others. */
export function candidates({ of }: Spread) {
  const stable = (key: string) => of[key][2] / of[key][0] < MARGIN;
  const keys = Object.keys(of);
  return { gate: keys.filter(stable), unstable: keys.filter((key) => !stable(key)) };
}

/** The compared ratios that are slower now than the margin allows; one that was not measured any more counts as such. */
export function slower(run: ReadonlyMap<string, number>, spread: Spread): string[] {
  const within = (key: string) => (run.get(key) ?? Infinity) <= spread.of[key][1] * MARGIN;
  return candidates(spread).gate.filter((key) => !within(key));
}

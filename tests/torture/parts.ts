/** The parts of the torture: a line each. */
import { deliberate } from "./deliberate.ts";
import { faults } from "./faults.ts";
import { fuzz } from "./fuzz.ts";
import { leaks } from "./leaks.ts";
import type { Part } from "./part.ts";
import { places } from "./places.ts";
import { soak } from "./soak.ts";

/** In the order in which they run. Of the time that is left each gets its share, beside those that come after it. */
export const PARTS: Readonly<Record<string, readonly [part: Part, share: number]>> = {
  deliberate: [deliberate, 1],
  places: [places, 3],
  faults: [faults, 8],
  fuzz: [fuzz, 5],
  leaks: [leaks, 5],
  soak: [soak, 12],
};

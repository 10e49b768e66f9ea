/** The parts, by the numbers that they have in the issue. */
import type { Part } from "./part.ts";
import { acquirePart } from "./acquire.ts";
import { refusalPart } from "./refusal.ts";
import { handoverPart } from "./handover.ts";
import { counterPart } from "./counter.ts";
import { waitingPart } from "./waiting.ts";
import { importCostPart } from "./import_cost.ts";
import { inspectionPart } from "./inspection.ts";
import { growthPart } from "./growth.ts";

export const PARTS: ReadonlyMap<number, Part> = new Map(
  [acquirePart, refusalPart, handoverPart, counterPart, waitingPart, importCostPart, inspectionPart, growthPart].map((
    part,
    i,
  ) => [i + 1, part]),
);

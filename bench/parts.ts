/** The parts, by the numbers that they have in the issue. */
import type { Part } from "./part.ts";
import { part1 } from "./part1.ts";
import { part2 } from "./part2.ts";
import { part3 } from "./part3.ts";
import { part4 } from "./part4.ts";
import { part5 } from "./part5.ts";
import { part6 } from "./part6.ts";
import { part7 } from "./part7.ts";
import { part8 } from "./part8.ts";

export const PARTS: ReadonlyMap<number, Part> = new Map(
  [part1, part2, part3, part4, part5, part6, part7, part8].map((part, i) => [i + 1, part]),
);

/** Parts 1 and 2: short batches of everybody's, in turns, so that whatever else the machine does is shared by all. */
import { join } from "node:path";
import type { Member, Worker } from "./crew.ts";
import { quantile, ratioInTurns } from "./numbers.ts";

/** One of those who take turns. */
export interface Contestant {
  readonly worker: Worker;
  readonly form: string;
  readonly path: string;
  /** What each deed of each batch took, in microseconds; a batch is a list. */
  readonly batches: number[][];
  /** Who is measured right before it, each time: the floor of the same form. */
  readonly beside?: Contestant;
  /** Why it gave up. */
  failed?: string;
}

/** A path of its own: the peers leave different things there. */
export function pathFor(dir: string, { name, where }: Member, form: string): string {
  return join(dir, `${name}-${where}-${form}`.replace(/[^\w-]/g, "") + ".lock");
}

export const contestant = (worker: Worker, form: string, path: string, beside?: Contestant): Contestant => ({
  worker,
  form,
  path,
  batches: [],
  beside,
});

/** How many times the floor it is: the middle one of the turns' ratios, so that a turn that was disturbed counts once. */
export const ratio = ({ batches, beside }: Contestant): number => ratioInTurns(batches, beside?.batches ?? []);

async function turn(each: Contestant, milliseconds: number): Promise<number[]> {
  try {
    return await each.worker.ask<number[]>("batch", each.form, milliseconds, each.path);
  } catch (error) {
    // Whatever a peer threw: the table has it in words.
    each.failed ??= error instanceof Error ? error.message : String(error);
    return [];
  }
}

/**
 * The same of the quick tenth of all deeds: what is left where nothing came between. It hardly moves with the load,
 * and says nothing of how it usually is.
 */
export const quickRatio = ({ batches, beside }: Contestant): number =>
  quantile(batches.flat(), 0.1) / quantile(beside?.batches.flat() ?? [], 0.1);

/** The key of its row. */
export const keyOf = (part: number, { worker: { member }, form }: Contestant): string =>
  `${part} ${member.where}: ${member.name} ${form}`;

export interface Plan {
  readonly rounds: number;
  /** How long a batch is, in milliseconds. */
  readonly slice: number;
  /** How long each is run before, in milliseconds: it loads, and is compiled. */
  readonly warmup: number;
}

export async function takeTurns(
  all: readonly Contestant[],
  { rounds, slice, warmup }: Plan,
): Promise<void> {
  for (const each of all) await turn(each, warmup);
  for (let round = 0; round < rounds; round++) {
    for (const each of all) {
      if (each.failed) continue;
      const beside = each.beside && { ...each.beside, batches: [] };
      const before = beside && await turn(beside, slice / 3);
      each.batches.push(await turn(each, slice));
      if (before) each.beside?.batches.push(before);
    }
  }
}

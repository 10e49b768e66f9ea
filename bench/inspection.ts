/** Part 7: who has it: inspect of one lock, and scan of a directory. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { command, type Crew, type Member, type Runtime, RUNTIMES, withWorkers, type Worker } from "./crew.ts";
import { median, time } from "./numbers.ts";
import type { Part, Row } from "./part.ts";

const here = (file: string) => fileURLToPath(new URL(file, import.meta.url));

export const CROWDS = [1, 100, 10_000];
/** So often each is done; more does not fit into the time. */
export const TIMES: Record<number, number> = { 1: 15, 100: 7, 10_000: 2 };

/** A process of grow.mjs. */
export const grower = (crew: Crew, runtime: Runtime): Member => ({
  name: "holdfast",
  where: runtime,
  ours: true,
  argv: [...command(runtime), here("grow.mjs"), crew.module(runtime)],
});

/** A directory with so many lock files that were used and are free. */
export function directoryOf(n: number, dir: string): string {
  const directory = join(dir, `of-${n}`);
  mkdirSync(directory);
  for (let i = 0; i < n; i++) writeFileSync(join(directory, `${i}.lock`), "");
  return directory;
}

export const inspectionPart: Part = ({ crew, quick, dir }) => {
  const crowds = quick ? CROWDS.slice(0, 2) : CROWDS;
  return withWorkers(
    [crew.floor, ...RUNTIMES.map((runtime) => grower(crew, runtime))],
    async ([holder, ...workers]) => {
      const rows: Row[] = [];
      for (const crowd of crowds) {
        const directory = directoryOf(crowd, dir);
        const path = join(directory, "0.lock");
        await holder.ask("acquire", path);
        for (const worker of workers) rows.push(...await measure(worker, crowd, directory, path));
        await holder.ask("release");
      }
      return {
        title: "inspect() and scan()",
        notes: [
          "A directory of so many lock files, of which another process holds one. scan() has the directory, and inspect() " +
          "the one that is held. The floor is a loop of the same runtime that looks at and reads each file.",
        ],
        rows,
        verdicts: [],
      };
    },
  );
};

async function measure(worker: Worker, crowd: number, directory: string, path: string): Promise<Row[]> {
  const { where, name } = worker.member;
  const base = { who: `${name}, ${where}`, ours: true, to: "each file looked at and read" };
  const row = (what: string, own: number[], bare: number[], n: number): Row => ({
    ...base,
    key: `7 ${where}: ${what} ${crowd}`,
    what: `${what}, ${crowd} ${crowd === 1 ? "lock" : "locks"}`,
    ratio: median(own) / (median(bare) / n),
    to: n === 1 ? base.to : "one file looked at and read",
    figure: time(median(own)),
  });
  const ask = (what: string, of: string, times: number) => worker.ask<number[]>(what, of, times);
  await ask("scan", directory, 1);
  await ask("inspect", path, 5);
  const bare = await ask("bare", directory, TIMES[crowd]);
  return [
    row("scan()", await ask("scan", directory, TIMES[crowd]), bare, 1),
    row("inspect()", await ask("inspect", path, 20), bare, crowd),
  ];
}

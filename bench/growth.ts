/** Part 8: how the costs grow. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type Runtime, RUNTIMES, withWorkers, type Worker } from "./crew.ts";
import { exponent, median, time } from "./numbers.ts";
import { CROWDS, directoryOf, grower, TIMES } from "./inspection.ts";
import type { Part, Row, Verdict } from "./part.ts";

/** 1 is linear; this much more is what a line through three or four points is out by on a shared machine. */
const LINEAR = 1.15;

const WAITERS = [1, 10, 100, 1000];
const HELD = [1, 100, 1000];

interface Growth {
  readonly runtime: Runtime;
  readonly what: string;
  readonly points: (readonly [n: number, cost: number])[];
  /** Descriptors that the most of them have. */
  readonly descriptors?: number;
}

/** Without FFI Deno may not list its descriptors. */
const MEASURED = RUNTIMES.filter((runtime) => runtime !== "Deno, no FFI");

export const growthPart: Part = ({ crew, quick, dir }) =>
  withWorkers([crew.flock, ...MEASURED.map((runtime) => grower(crew, runtime))], async ([holder, ...workers]) => {
    const crowds = quick ? CROWDS.slice(0, 2) : CROWDS;
    const directories = new Map(crowds.map((n) => [n, directoryOf(n, dir)]));
    const all: Growth[] = [];
    for (const worker of workers) {
      all.push(await waiters(worker, holder, dir), await held(worker, dir), await directory(worker, directories));
    }
    return {
      title: "How it grows",
      notes: [
        "The exponent of the cost of all of them together, from a line through the logarithms: 1 is linear. " +
        `Up to ${LINEAR} counts as linear.`,
        "Waiters: N Lock objects of one process wait for a lock that another process holds; the time to queue them, and " +
        "from the first grant until each has had the lock.",
      ],
      rows: all.map(row),
      verdicts: all.flatMap(verdicts),
    };
  });

async function waiters(worker: Worker, holder: Worker, dir: string): Promise<Growth> {
  const points: [number, number][] = [];
  let descriptors = 0;
  const path = join(dir, `waiters-${worker.pid}.lock`);
  for (const n of [1, ...WAITERS]) { // the first loads and learns
    const costs: number[] = [];
    for (let i = 0; i < 3; i++) {
      await holder.ask("acquire", path);
      ({ descriptors } = await worker.ask<{ descriptors: number }>("wait", n, path));
      await holder.ask("release");
      costs.push(await worker.ask<number>("drain"));
    }
    points.push([n, median(costs)]);
  }
  return {
    runtime: worker.member.where as Runtime,
    what: "waiters in one process",
    points: points.slice(1),
    descriptors,
  };
}

async function held(worker: Worker, dir: string): Promise<Growth> {
  const folder = join(dir, `held-${worker.pid}`);
  mkdirSync(folder);
  const points: [number, number][] = [];
  let descriptors = 0;
  for (const n of [HELD[1], ...HELD]) { // the first makes the files
    const costs: number[] = [];
    for (let i = 0; i < 3; i++) {
      const answer = await worker.ask<{ took: number; descriptors: number }>("hold", n, folder);
      costs.push(answer.took);
      ({ descriptors } = answer);
    }
    points.push([n, median(costs)]);
  }
  return {
    runtime: worker.member.where as Runtime,
    what: "locks held in one process",
    points: points.slice(1),
    descriptors,
  };
}

async function directory(worker: Worker, directories: ReadonlyMap<number, string>): Promise<Growth> {
  const points: [number, number][] = [];
  for (const [n, path] of directories) {
    await worker.ask("scan", path, 1);
    points.push([n, median(await worker.ask<number[]>("scan", path, TIMES[n]))]);
  }
  return { runtime: worker.member.where as Runtime, what: "locks in a directory, scan()", points };
}

function row({ runtime, what, points, descriptors }: Growth): Row {
  const [n, cost] = points.at(-1)!; // `!`: there are several
  const first = points[0];
  return {
    key: `8 ${runtime}: ${what}`,
    what: `${what}, ${n} for 1`,
    who: `holdfast, ${runtime}`,
    ours: true,
    to: "the cost of one",
    ratio: cost / first[1],
    figure: `exponent ${exponent(points).toFixed(2)}; ` +
      points.map(([n, cost]) => `${n}: ${time(cost)}`).join(", ") +
      (descriptors === undefined ? "" : `; ${descriptors} descriptors`),
  };
}

function verdicts({ runtime, what, points, descriptors }: Growth): Verdict[] {
  const slope = exponent(points);
  const found: Verdict[] = [{
    claim: `8: not faster than linear in ${runtime}: ${what}`,
    found: `exponent ${slope.toFixed(2)}`,
    met: slope <= LINEAR,
  }];
  if (what.startsWith("waiters")) {
    const most = points.at(-1)?.[0] ?? 0;
    found.push({
      claim: `8: waiters in one process cost no descriptor each, in ${runtime}`,
      found: `${descriptors} descriptors more with ${most} waiters`,
      met: descriptors! < 10, // `!`: waiters have it. The lock file, a watch, and what the runtime opens for them
    });
  }
  return found;
}

/** Runs by time instead of rounds: the mixed counter, and the tight loop of CASES row 5. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Kind } from "../../support/harness.ts";
import { Crew } from "./crew.ts";
import type { Modules } from "./modules.ts";

/** Four that the kernel locks for, in each of the ways in which they can ask it; and four with PID files. */
export const KERNEL: readonly Kind[] = ["deno", "deno-no-ffi", "bun", "node26"];
export const PID_FILE: readonly Kind[] = ["deno", "bun", "node26", "node20"];

/** After so long without the lock a worker counts as stuck. */
const LIMIT = 20_000;

export interface MixedResult {
  /** What each worker added, by its runtime and back end. */
  readonly times: Record<string, number>;
  /** What the counter file says. */
  readonly counter: number;
  /** How often somebody found another inside. */
  readonly doubles: number;
  /** The longest wait of all, in milliseconds. */
  readonly longest: number;
  readonly stuck: string[];
}

/** Both back ends on one path: a number in a file, read, incremented and written back under the lock. */
export async function runMixed(
  modules: Modules,
  seconds: number,
  dir: string,
  pidFile: readonly Kind[] = PID_FILE,
): Promise<MixedResult> {
  const inside = join(dir, "inside");
  mkdirSync(inside, { recursive: true });
  const [path, counter] = [join(dir, "lock"), join(dir, "counter")];
  writeFileSync(counter, "0");
  const places = [
    ...KERNEL.map((kind) => ({ kind, backend: "flock" })),
    ...pidFile.map((kind) => ({ kind, backend: "pidfile" })),
  ];
  const crew = await Crew.start(places.map(({ kind }) => ({ kind, modules, dir })));
  try {
    const answers = await Promise.all(crew.workers.map((worker, place) => {
      const options = { backend: places[place].backend };
      return worker.call("count", { path, options, inside, counter, milliseconds: seconds * 1000, limit: LIMIT });
    }));
    const names = places.map(({ kind, backend }) => `${kind} ${backend}`);
    return {
      times: Object.fromEntries(names.map((name, place) => [name, answers[place].times])),
      counter: Number(readFileSync(counter, "utf8")),
      doubles: answers.reduce((sum, { doubles }) => sum + doubles, 0),
      longest: Math.max(...answers.map(({ longest }) => longest)),
      stuck: names.filter((_, place) => answers[place].stuck || answers[place].times === 0),
    };
  } finally {
    await crew.end();
  }
}

export interface LoopResult {
  readonly times: Record<string, number>;
  readonly stuck: string[];
  /** What the directory holds afterwards. */
  readonly left: string[];
}

/** Four processes that acquire and release in a tight loop; what one of them throws, this throws. */
export async function runLoop(
  modules: Modules,
  backend: "flock" | "pidfile",
  seconds: number,
  dir: string,
): Promise<LoopResult> {
  mkdirSync(dir, { recursive: true });
  const crew = await Crew.start(PID_FILE.map((kind) => ({ kind, modules, dir })));
  try {
    const args = { path: join(dir, "lock"), options: { backend }, milliseconds: seconds * 1000, limit: LIMIT };
    const answers = await Promise.all(crew.workers.map((worker) => worker.call("loop", args)));
    return {
      times: Object.fromEntries(PID_FILE.map((kind, place) => [kind, answers[place].times])),
      stuck: PID_FILE.filter((_, place) => answers[place].stuck || answers[place].times === 0),
      left: readdirSync(dir).sort(),
    };
  } finally {
    await crew.end();
  }
}

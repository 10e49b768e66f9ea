/**
 * `deno task bench:check`: whether ours has become slower than record.json has it. Ends with 1 and names what did.
 *
 * What is compared is the ratio of the quick tenth of ours to the quick tenth of the floor's: the middle moves with the
 * load of the machine.
 *
 *   check.ts [--runs N]    takes N runs, and records their spread, which is what later ones are compared with
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { ownModules } from "../tests/torture/contention/modules.ts";
import { Crew } from "./crew.ts";
import { candidates, MARGIN, slower } from "./gate.ts";
import { median, short } from "./numbers.ts";
import { acquisitions } from "./acquire.ts";
import { refusals } from "./refusal.ts";
import { readRecord, type Spread, writeRecord } from "./record.ts";
import { keyOf, quickRatio } from "./turns.ts";

const { values } = parseArgs({ options: { runs: { type: "string" } } });

const FORMS = ["tryAcquire-new", "tryAcquire-again", "acquire-new", "acquire-again"];
const PLAN = { rounds: 15, slice: 3, warmup: 120 };
/** The best of so many is compared: noise only ever makes slower. */
const TRIES = 3;

const dir = mkdtempSync(join(process.env.HOLDFAST_TEST_DIR ?? tmpdir(), "holdfast-bench-"));
try {
  const crew = new Crew(ownModules(join(dir, "own")), dir, true);
  const runs: Map<string, number>[] = [];
  for (let i = 0; i < Number(values.runs ?? 1); i++) {
    runs.push(await bestOf(crew));
    if (values.runs) console.error(`run ${i + 1} of ${values.runs}`);
  }
  if (values.runs) record(runs);
  else compare(runs[0]);
} finally {
  rmSync(dir, { recursive: true, force: true });
}

async function bestOf(crew: Crew): Promise<Map<string, number>> {
  const best = new Map<string, number>();
  for (let i = 0; i < TRIES; i++) {
    for (
      const [part, all] of [
        [1, await acquisitions(crew, crew.ours, () => FORMS, PLAN, dir)],
        [2, await refusals(crew, crew.ours, PLAN, dir)],
      ] as const
    ) {
      for (const each of all) {
        if (each.failed) throw new Error(each.failed);
        const key = keyOf(part, each);
        best.set(key, Math.min(quickRatio(each), best.get(key) ?? Infinity));
      }
    }
  }
  return best;
}

function record(runs: readonly Map<string, number>[]): void {
  const keys = [...runs[0].keys()];
  const of = keys.map((key) => {
    const all = runs.map((run) => run.get(key) ?? NaN);
    const three = [Math.min(...all), median(all), Math.max(...all)].map((value) => Number(value.toPrecision(4)));
    return [key, three];
  });
  const [load] = readFileSync("/proc/loadavg", "utf8").split(" ");
  const spread: Spread = { runs: runs.length, load, of: Object.fromEntries(of) };
  writeRecord({ ...readRecord(), spread });
  const { gate, unstable } = candidates(spread);
  console.log(`recorded: ${gate.length} ratios are stable; these are not: ${unstable.join(", ") || "none"}`);
}

function compare(run: ReadonlyMap<string, number>): void {
  const { spread } = readRecord();
  if (!spread) throw new Error("nothing is recorded yet: deno task bench:check --runs 10");
  const { gate, unstable } = candidates(spread);
  const slow = slower(run, spread);
  for (const [key, now] of run) {
    const [, before] = spread.of[key] ?? [];
    const word = unstable.includes(key) ? "not compared" : slow.includes(key) ? "SLOWER" : "ok";
    console.log(`${word.padEnd(12)}  ${key.padEnd(45)}  ${short(now)} × the floor, recorded ${short(before ?? NaN)} ×`);
  }
  for (const key of slow) console.error(`bench:check: ${key} has become slower`);
  if (slow.length > 0) process.exitCode = 1;
  else console.log(`${gate.length} ratios are within ${MARGIN} × of what was recorded`);
}

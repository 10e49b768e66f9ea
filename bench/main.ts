/**
 * `deno task bench`: ours and every peer on the same work in one go, one table of ratios.
 *
 *   main.ts [--only 1,2,…] [--quick] [--report]
 *
 * A run of everything writes README.md, bench.svg and record.json, and the few figures in the package's README; one
 * with `--only` or `--quick` writes nothing, unless it is told to by `--report`.
 */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { ownModules } from "../tests/torture/contention/modules.ts";
import { floorDiffers, oursByRuntime } from "./calls.ts";
import { Crew } from "./crew.ts";
import type { Section } from "./part.ts";
import { PARTS } from "./parts.ts";
import { print } from "./print.ts";
import { type Recorded, recordIfAny, writeRecord } from "./record.ts";
import { report } from "./report.ts";
import { packageSize } from "./size.ts";
import type { Sequence } from "./strace.ts";

const { values } = parseArgs({
  options: {
    only: { type: "string" },
    quick: { type: "boolean", default: false },
    report: { type: "boolean", default: false },
  },
});

const only = values.only?.split(",").map(Number);
const reports = values.report || (!only && !values.quick);
const dir = mkdtempSync(join(process.env.HOLDFAST_TEST_DIR ?? tmpdir(), "holdfast-bench-"));
const sections = new Map<number, Section>();
try {
  const crew = new Crew(ownModules(join(dir, "own")), dir);
  // A floor that does other work than ours would make every ratio to it a lie.
  const calls = await oursByRuntime(crew, dir);
  const differences = await floorDiffers(crew, dir, calls.get("Bun") ?? new Map());
  for (const each of differences) console.error(`bench/floor.c is not the floor: ${each}`);
  if (differences.length > 0) process.exit(1);
  for (const [number, part] of PARTS) {
    if (only && !only.includes(number)) continue;
    const from = performance.now();
    const own = join(dir, String(number));
    mkdirSync(own);
    sections.set(number, await part({ crew, quick: values.quick, dir: own }));
    rmSync(own, { recursive: true, force: true });
    console.error(`part ${number}: ${((performance.now() - from) / 1000).toFixed(1)} s`);
  }
  print(sections);
  if (reports) {
    const record = recorded(calls);
    writeRecord(record);
    report(sections, record, values.quick);
    console.error("written: bench/README.md, bench/bench.svg, bench/record.json");
  }
} finally {
  rmSync(dir, { recursive: true, force: true });
}

/** What later runs are compared with; the spread is bench:check's to write. */
function recorded(calls: Map<string, Map<string, Sequence>>): Recorded {
  const rows = [...sections.values()].flatMap((section) => section.rows);
  const ratios = rows.flatMap(({ key, ratio }) => ratio === undefined ? [] : [[key, Number(ratio.toPrecision(4))]]);
  const plain = [...calls].map(([runtime, forms]) => [
    runtime,
    Object.fromEntries([...forms].map(([form, sequence]) => [form, sequence.calls])),
  ]);
  return {
    ratios: Object.fromEntries(ratios),
    calls: Object.fromEntries(plain),
    size: packageSize(dir),
    spread: recordIfAny()?.spread,
  };
}

/**
 * `deno task test:platforms`: every place that this machine can make or emulate,
 * a row for each runtime there. Ends with `N passed, N failed`.
 *
 *   main.ts [--long] [--only GROUP,…] [--place NAME]… [--report]
 *
 * Without --long only what CI has the time for. --place: only those whose names
 * begin so. --report puts what was found into report.json, REPORT.md and the README;
 * groups and places that were not run keep what they had.
 */
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { pack } from "../../tasks/pack.ts";
import { tool } from "../support/tools.ts";
import { table } from "../torture/report.ts";
import { GROUPS } from "./groups.ts";
import { cells, circumstances, COLUMNS, readReport, withRun, writeReport } from "./report.ts";
import type { Row } from "./row.ts";
import { folder } from "./suite.ts";

const { values: { long, only, place: places, report } } = parseArgs({
  options: {
    long: { type: "boolean", default: false },
    only: { type: "string" },
    place: { type: "string", multiple: true },
    report: { type: "boolean", default: false },
  },
});
if (report && !long) throw new RangeError("--report needs --long: the report is of the long form");
const chosen = only?.split(",") ?? Object.keys(GROUPS).filter((name) => long || GROUPS[name].short);
for (const name of chosen) {
  if (!Object.hasOwn(GROUPS, name)) throw new RangeError(`--only knows ${Object.keys(GROUPS).join(", ")}, not ${name}`);
}

const dir = mkdtempSync(join(tmpdir(), "holdfast-"));
chmodSync(dir, 0o755); // for the tests with another user

/** A group that throws is one failure, and the others are run all the same. */
async function run(name: string): Promise<Row[]> {
  try {
    return await GROUPS[name].run({ long, dir: folder(dir, name), places });
  } catch (error) {
    const remark = `broke off: ${error instanceof Error ? error.stack : error}`;
    return [{ place: GROUPS[name].title, runtime: "", passed: 0, failed: 1, remark }];
  }
}

const all: Row[] = [];
try {
  for (const kind of ["bun", "node26", "node20"] as const) tool(kind); // not two at a time
  pack();
  for (const name of Object.keys(GROUPS).filter((name) => chosen.includes(name))) {
    const now = report && circumstances();
    const began = performance.now();
    const rows = await run(name);
    const seconds = Math.round((performance.now() - began) / 1000);
    all.push(...rows);
    console.log(`\n${GROUPS[name].title}, ${seconds} s\n\n${table(COLUMNS, rows.map(cells))}`);
    if (!now) continue;
    const before = readReport();
    writeReport({ ...before, [name]: withRun(before[name] ?? [], { ...now, seconds, rows }, places === undefined) });
  }
} finally {
  rmSync(dir, { recursive: true, force: true });
}
const [passed, failed] = (["passed", "failed"] as const).map((what) => all.reduce((sum, row) => sum + row[what], 0));
console.log(`\n${passed} passed, ${failed} failed`);
process.exit(failed === 0 && passed > 0 ? 0 : 1);

/**
 * `deno task torture`: every claim has a machine that attacks it. Prints a table
 * for each part and ends with `N claims, N failed`.
 *
 *   main.ts [--minutes 30] [--seed N] [--only soak,…] [--short] [--report]
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { fingerprint, ownModules } from "./contention/modules.ts";
import { CLAIMS } from "./claims.ts";
import type { Section } from "./part.ts";
import { PARTS } from "./parts.ts";
import { circumstances, write } from "./report.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "30" },
    seed: { type: "string", default: String(Math.floor(Math.random() * 2 ** 31)) },
    only: { type: "string", default: Object.keys(PARTS).join(",") },
    short: { type: "boolean", default: false },
    report: { type: "boolean", default: false },
  },
});
const [minutes, seed] = [Number(values.minutes), Number(values.seed)];
if (!(minutes > 0)) throw new RangeError(`--minutes is a number above 0: ${values.minutes}`);
if (!Number.isInteger(seed) || seed < 0) throw new RangeError(`--seed is a whole number: ${values.seed}`);
const chosen = values.only.split(",");
for (const name of chosen) if (!PARTS[name]) throw new RangeError(`--only knows ${Object.keys(PARTS).join(", ")}`);
const order = Object.keys(PARTS).filter((name) => chosen.includes(name));

/** The short form of a part takes no longer, in milliseconds. */
const SHORT = 10_000;

const began = performance.now();
const dir = mkdtempSync(join(process.env.HOLDFAST_TEST_DIR ?? tmpdir(), "holdfast-torture-"));
const sections = new Map<string, Section>();

/** What is left of the time, divided among the parts that are still to come. */
function budgetOf(name: string): number {
  if (values.short) return SHORT;
  const left = minutes * 60_000 - (performance.now() - began);
  const shares = order.slice(order.indexOf(name)).map((each) => PARTS[each][1]);
  return Math.max(left * shares[0] / shares.reduce((a, b) => a + b), SHORT);
}

/** A part that throws is a failure of its own, and the others are run all the same. */
async function runPart(name: string): Promise<Section> {
  const own = join(dir, name);
  mkdirSync(own);
  try {
    return await PARTS[name][0]({ seed, budget: budgetOf(name), short: values.short, dir: own });
  } catch (error) {
    const failures = [`${name}, seed ${seed}, broke off: ${error instanceof Error ? error.stack : error}`];
    return { title: name, notes: [], columns: [], rows: [], failures };
  } finally {
    rmSync(own, { recursive: true, force: true });
  }
}

/** The claims, with what attacked each of them here, and whether one of these found anything. */
function claims(): { rows: string[][]; failed: number } {
  const rows = CLAIMS.map(([claim, attackers]) => {
    const parts = attackers.filter((name) => sections.has(name));
    const fallen = parts.filter((name) => sections.get(name)?.failures.length);
    const state = fallen.length > 0
      ? `**NO**: ${fallen.join(", ")}`
      : parts.length > 0
      ? "stands"
      : "not attacked here";
    return [claim, attackers.join(", "), state];
  });
  return { rows, failed: rows.filter(([, , state]) => state.startsWith("**NO**")).length };
}

try {
  const head = circumstances(seed, fingerprint(ownModules(join(dir, "source")).folder));
  console.log(head);
  for (const name of order) {
    const section = await runPart(name);
    sections.set(name, section);
    console.log(`\n${write(section)}`);
  }
  const { rows, failed } = claims();
  const took = `- ${order.join(", ")}: ${((performance.now() - began) / 60_000).toFixed(1)} minutes`;
  const claimed = write({
    title: "Claims",
    notes: ['Every row of "What is guaranteed" in the README, and what attacks it: a part above, or a test.'],
    columns: ["claim", "attacked by", "here"],
    rows,
    failures: [...sections.values()].flatMap(({ failures }) => failures),
  });
  console.log(`\n${claimed}`);
  if (values.report) {
    const text = [
      "# Torture",
      "Written by `deno task torture --report`.",
      `${head}\n${took}`,
      ...[...sections.values()].map(write),
      claimed,
    ];
    // Formatted, its tables would have lines of hundreds of blanks, or none.
    const file = fileURLToPath(new URL("REPORT.md", import.meta.url));
    writeFileSync(file, `<!-- deno-fmt-ignore-file -->\n\n${text.join("\n\n")}\n`);
  }
  const broken = [...sections.values()].some(({ failures }) => failures.length > 0);
  console.log(`\n${rows.length} claims, ${failed} failed`);
  process.exitCode = broken ? 1 : 0;
} finally {
  rmSync(dir, { recursive: true, force: true });
}
process.exit();

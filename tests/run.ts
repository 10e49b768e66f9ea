/**
 * `deno task test`: the behaviour tests in Deno, Bun and Node 26, and what needs
 * to be run in Deno only. `deno task test:long`: what takes minutes. Ends with
 * `N passed, N failed`, and how many were skipped because something is missing.
 *
 *   run.ts [--long] [--only deno|bun|node] [NAME…]
 *
 * NAME is a file's, such as lock, or a part of its path: only such files are run,
 * of all three kinds.
 */
import { readdirSync } from "node:fs";
import { availableParallelism } from "node:os";
import process from "node:process";
import { parseArgs, styleText } from "node:util";
import { pack } from "../tasks/pack.ts";
import { type Count, type Runner, RUNNERS, runTests, type Skip } from "./support/runners.ts";
import { skipReport } from "./support/skips.ts";
import { deno, tool } from "./support/tools.ts";

const { values: { only, long }, positionals: names } = parseArgs({
  options: { only: { type: "string" }, long: { type: "boolean", default: false } },
  allowPositionals: true,
});
if (only !== undefined && !RUNNERS.some((each) => each === only)) {
  throw new RangeError(`--only knows ${RUNNERS.join(", ")}, not ${only}`);
}

const find = (folder: string) =>
  readdirSync(folder).filter((name) => name.endsWith("_test.ts")).sort().map((name) => `${folder}/${name}`);
const all = { behaviour: find("tests"), denoOnly: find("tests/deno_only"), long: find("tests/long") };
const isCalled = (name: string) => (file: string) =>
  [`${name}_test.ts`, name].some((each) => file.endsWith(`/${each}`) || file === each);
/** The files that a name means: those called so, or else those with it in their path. */
function meant(name: string): string[] {
  const files = Object.values(all).flat();
  const called = files.filter(isCalled(name));
  return called.length > 0 ? called : files.filter((file) => file.includes(name));
}
const chosen = new Set(names.flatMap(meant));
const wanted = (files: readonly string[], unnamed: boolean) =>
  files.filter((file) => names.length > 0 ? chosen.has(file) : unnamed);
const behaviour = wanted(all.behaviour, !long);
const denoOnly = wanted(all.denoOnly, !long);
const takesLong = wanted(all.long, long);

/** Online the JSR packages that deno.json names; else our stand-in. */
function importMap(): string[] {
  const { success } = new Deno.Command(deno(), {
    args: ["cache", "--quiet", "jsr:@std/assert@^1", "jsr:@std/path@^1"],
    stderr: "null",
  }).outputSync();
  console.log(
    success
      ? "@std/assert and @std/path: from JSR in Deno; tests/stand_in in Bun and Node, which read no deno.json"
      : "@std/assert and @std/path: JSR cannot be reached, so tests/stand_in takes their place",
  );
  return success ? [] : ["--import-map=tests/stand_in/import_map.json"];
}

/** A run of a runtime. */
interface Job {
  readonly runtime: Runner;
  readonly what: string;
  readonly files: readonly string[];
}

/** Every third file, so that files of one area, which take alike long, are in different ones. */
const third = (files: readonly string[], which: number) => files.filter((_, i) => i % 3 === which);
const parts = (what: string, files: readonly string[]): Job[] =>
  names.length > 0
    ? [{ runtime: "deno", what, files }]
    : [0, 1, 2].map((i) => ({ runtime: "deno", what: `${what}, part ${i + 1} of 3`, files: third(files, i) }));

/** What takes longest comes first. */
const jobs = [
  ...parts("deno, what takes long", takesLong),
  { runtime: "node", what: "node", files: behaviour },
  { runtime: "deno", what: "deno", files: behaviour },
  ...parts("deno, what is run there only", denoOnly),
  { runtime: "bun", what: "bun", files: behaviour },
].filter(({ runtime, files }) => (!only || only === runtime) && files.length > 0) as Job[]; // the cast: they are literals

let map: string[] | undefined; // unless given, our stand-in
if (names.length === 0) {
  // For all of them it takes a while, which is not to be within a test. A few need little of it.
  map = importMap();
  for (const kind of ["bun", "node26", "node20"] as const) tool(kind);
  pack();
}

let passed = 0, failed = 0;
const skips: Skip[] = [];
const results = jobs.map(() => Promise.withResolvers<Count & { readonly output: string }>());
const queue = [...jobs.entries()];
// What is not at the front is shown when its turn comes.
const work = async () => {
  for (let next; (next = queue.shift());) {
    const [i, { runtime, files }] = next;
    const onOutput = i === 0 ? (text: string) => void process.stdout.write(text) : undefined;
    results[i].resolve(await runTests(runtime, { files, flags: runtime === "deno" ? map : undefined, onOutput }));
  }
};
// Most of a test's time it waits, for a process that starts or for a deadline: two for each processor.
for (let i = 0; i < 2 * availableParallelism(); i++) work();
for (const [i, { what }] of jobs.entries()) {
  if (i > 0) await results[i].promise;
  console.log(styleText("bold", `\n── ${what} ──`));
  const result = await results[i].promise;
  if (i > 0) process.stdout.write(result.output);
  for (const failure of result.failures) console.log(styleText("red", `${what}: ${failure}`));
  passed += result.passed;
  failed += result.failed;
  skips.push(...result.skips);
}
if (jobs.length === 0) console.log(`no file of the tests has a name with ${names.join(" or ")} in it`);
const skipped = skipReport(skips);
if (skipped.length > 0) console.log(`\n${styleText("bold", "── skipped, because it needs what is not here ──")}`);
const alsoSkipped = skips.length > 0 ? `, ${skips.length} skipped` : "";
console.log(`${skipped.join("\n")}\n${passed} passed, ${failed} failed${alsoSkipped}`);
process.exit(failed === 0 && passed > 0 ? 0 : 1);

/**
 * `deno task test`: the behaviour suite in Deno, Bun and Node 26, and what needs
 * to be run only once in Deno. Ends with `N passed, N failed`, and how many were
 * skipped because something is missing on this machine.
 *
 *   run.ts [--only deno|bun|node] [FILE…]
 */
import { readdirSync } from "node:fs";
import process from "node:process";
import { parseArgs, styleText } from "node:util";
import { pack } from "../tasks/pack.ts";
import { type Count, type Runner, runTests, type Skip } from "./runners.ts";
import { skipReport } from "./skips.ts";
import { deno, tool } from "./tools.ts";

const { values, positionals } = parseArgs({ options: { only: { type: "string" } }, allowPositionals: true });

const find = (folder: string) =>
  readdirSync(folder).filter((name) => name.endsWith("_test.ts")).sort().map((name) => `${folder}/${name}`);
const chosen = (files: string[]) =>
  positionals.length === 0 ? files : files.filter((file) => positionals.some((part) => file.includes(part)));
const suite = chosen(find("tests"));
const once = chosen(find("tests/once"));

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

interface Suite {
  readonly name: Runner;
  readonly what: string;
  readonly files: readonly string[];
}

const map = importMap();
pack();
/** What takes long comes first. */
const suites: Suite[] = [
  { name: "deno", what: "deno, what is run once", files: once },
  { name: "node", what: "node", files: suite },
  { name: "deno", what: "deno", files: suite },
  { name: "bun", what: "bun", files: suite },
];
for (const kind of ["bun", "node26", "node20"] as const) tool(kind);

let passed = 0, failed = 0;
const skips: Skip[] = [];
const wanted = suites.filter(({ name, files }) => (!values.only || values.only === name) && files.length > 0);
// Two at a time: one waits while the other works. What is not at the front is shown when its turn comes.
const results = wanted.map(() => Promise.withResolvers<Count & { readonly output: string }>());
const queue = [...wanted.entries()];
const work = async () => {
  for (let next; (next = queue.shift());) {
    const [i, { name, files }] = next;
    const onOutput = i === 0 ? (text: string) => void process.stdout.write(text) : undefined;
    results[i].resolve(await runTests(name, { files, flags: name === "deno" ? map : undefined, onOutput }));
  }
};
work();
work();
for (const [i, each] of wanted.entries()) {
  if (i > 0) await results[i].promise;
  console.log(styleText("bold", `\n── ${each.what} ──`));
  const result = await results[i].promise;
  if (i > 0) process.stdout.write(result.output);
  for (const failure of result.failures) console.log(styleText("red", `${each.what}: ${failure}`));
  passed += result.passed;
  failed += result.failed;
  skips.push(...result.skips);
}
const skipped = skipReport(skips);
if (skipped.length > 0) console.log(`\n${styleText("bold", "── skipped, because it needs what is not here ──")}`);
console.log(
  `${skipped.join("\n")}\n${passed} passed, ${failed} failed${skips.length > 0 ? `, ${skips.length} skipped` : ""}`,
);
process.exit(failed === 0 && passed > 0 ? 0 : 1);

/**
 * `deno task test`: the behaviour suite in Deno, Bun and Node 26, and what needs
 * to be run only once in Deno. Ends with `N passed, N failed`.
 *
 *   run.ts [--only deno|bun|node] [FILE…]
 */
import { spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import process from "node:process";
import { parseArgs, styleText } from "node:util";
import { pack } from "../tasks/pack.ts";
import { deno, onPath, tool } from "./tools.ts";

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
  readonly name: "deno" | "bun" | "node";
  readonly what: string;
  readonly files: readonly string[];
  readonly command: string;
  readonly args: string[];
  /** Finds the number of passed and of failed tests in the output. */
  readonly passed: RegExp;
  readonly failed: RegExp;
}

const map = importMap();
pack();
onPath("strace", "strace");
onPath("python3", "python3");
onPath("flock", "util-linux");
const inDeno = (what: string, files: readonly string[]): Suite => ({
  name: "deno",
  what,
  files,
  command: deno(),
  args: ["test", "-A", "--no-check", ...map, ...files],
  passed: /(\d+) passed/,
  failed: /(\d+) failed/,
});
/** What takes long comes first. */
const suites: Suite[] = [
  inDeno("deno, what is run once", once),
  {
    name: "node",
    what: "node",
    files: suite,
    command: tool("node26"),
    args: [
      "--disable-warning=ExperimentalWarning",
      "--import",
      "./tests/stand_in/node.mjs",
      "--test",
      "--test-concurrency=1",
      "--test-reporter=spec",
      ...suite,
    ],
    passed: /^\S+ pass (\d+)$/m,
    failed: /^\S+ fail (\d+)$/m,
  },
  inDeno("deno", suite),
  {
    name: "bun",
    what: "bun",
    files: suite,
    command: tool("bun"),
    args: ["test", ...suite.map((file) => `./${file}`)],
    passed: /^\s*(\d+) pass$/m,
    failed: /^\s*(\d+) fail$/m,
  },
];
for (const kind of ["node20"] as const) tool(kind);

let passed = 0, failed = 0;
const wanted = suites.filter(({ name, files }) => (!values.only || values.only === name) && files.length > 0);
// Two at a time: one waits while the other works. What is not at the front is shown when its turn comes.
const results = wanted.map(() => Promise.withResolvers<{ output: string; code: number | null }>());
const queue = [...wanted.entries()];
const work = async () => {
  for (let next; (next = queue.shift());) results[next[0]].resolve(await run(next[1], next[0] === 0));
};
work();
work();
for (const [i, each] of wanted.entries()) {
  if (i > 0) await results[i].promise;
  console.log(styleText("bold", `\n── ${each.what} ──`));
  const { output, code } = await results[i].promise;
  if (i > 0) process.stdout.write(output);
  const [good, bad] = [each.passed, each.failed].map((pattern) => Number(pattern.exec(output)?.[1] ?? NaN));
  // A run that ended badly, or said nothing that can be counted, has failed, whatever it counted.
  const broken = Number.isNaN(good) || Number.isNaN(bad) || (code !== 0 && bad === 0) || good + bad === 0;
  if (broken) console.log(styleText("red", `${each.what} ended with ${code}, and its tests could not be counted`));
  passed += good || 0;
  failed += (bad || 0) + Number(broken);
}
console.log(`\n${passed} passed, ${failed} failed`);
process.exit(failed === 0 && passed > 0 ? 0 : 1);

function run({ command, args }: Suite, shown: boolean): Promise<{ output: string; code: number | null }> {
  const env = { ...process.env, NO_COLOR: "1", FORCE_COLOR: undefined, HOLDFAST_TEST_DENO: deno() };
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], env });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text) => {
      output += text;
      if (shown) process.stdout.write(text);
    });
  }
  return new Promise((resolve) => child.on("close", (code) => resolve({ output, code })));
}

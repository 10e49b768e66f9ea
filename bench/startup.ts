/**
 * `deno task bench:startup`: what `holdfast run LOCK true` costs, beside
 * `flock LOCK true` and an empty script of the same runtime, in one run. Bun and Node
 * run the package as npm has it, as JavaScript; make it and the executable
 * first: `deno task npm`, `deno task compile`.
 *
 *   startup.ts [--rounds N]
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { deno, tool } from "../tests/support/tools.ts";

const { values } = parseArgs({ options: { rounds: { type: "string", default: "30" } } });
const here = (file: string) => fileURLToPath(new URL(file, import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
const lock = join(folder, "a.lock");
const empty = join(folder, "empty.mjs");
writeFileSync(empty, "");
/** What no script can do without that opens a file and starts a program: the floor that the runtime sets. */
const floor = join(folder, "floor.mjs");
writeFileSync(
  floor,
  `import { openSync } from "node:fs";
import { spawnSync } from "node:child_process";
spawnSync("true", { stdio: ["inherit", "inherit", "inherit", openSync(process.argv[2], "a")] });
`,
);

const [source, packed, executable] = [
  here("../src/cli/main.ts"),
  here("../dist/package/bin/main.js"),
  here("../dist/holdfast"),
];
for (const each of [packed, executable]) {
  if (!existsSync(each)) throw new Error(`${each} is missing: deno task npm, deno task compile`);
}

const RUNTIMES = [
  { name: "Deno", command: [deno(), "run", "-A", "--quiet", "--no-check"], cli: source },
  { name: "Bun", command: [tool("bun")], cli: packed },
  { name: "Node 26", command: [tool("node26")], cli: packed },
  { name: "Node 20", command: [tool("node20")], cli: packed },
];

interface Case {
  readonly name: string;
  readonly argv: readonly string[];
  /** What its ratio is to. */
  readonly to: string;
}

const cases: readonly Case[] = [
  { name: "flock LOCK true", argv: ["flock", lock, "true"], to: "flock LOCK true" },
  ...RUNTIMES.flatMap(({ name, command, cli }) => {
    const to = `${name}: an empty script`;
    return [
      { name: to, argv: [...command, empty], to },
      { name: `${name}: open a file, start true`, argv: [...command, floor, lock], to },
      { name: `${name}: holdfast run LOCK true`, argv: [...command, cli, "run", lock, "true"], to },
      { name: `${name}: holdfast run -F LOCK true`, argv: [...command, cli, "run", "-F", lock, "true"], to },
    ];
  }),
  { name: "executable: holdfast run LOCK true", argv: [executable, "run", lock, "true"], to: "Bun: an empty script" },
  {
    name: "executable: holdfast run -F LOCK true",
    argv: [executable, "run", "-F", lock, "true"],
    to: "Bun: an empty script",
  },
];

const took = new Map<string, number[]>(cases.map(({ name }) => [name, []]));

function start({ name, argv: [command, ...args] }: Case): void {
  const from = performance.now();
  const { status, stderr } = spawnSync(command, args, { stdio: ["ignore", "ignore", "pipe"], encoding: "utf8" });
  took.get(name)?.push(performance.now() - from);
  if (status !== 0) throw new Error(`${name} ended with ${status}: ${stderr}`);
}

try {
  for (const each of cases) start(each); // caches
  for (const times of took.values()) times.length = 0;
  // In turns, so that whatever else the machine does is shared by all.
  for (let round = 0; round < Number(values.rounds); round++) cases.forEach(start);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

const median = (name: string) => {
  const sorted = (took.get(name) ?? []).toSorted((a, b) => a - b);
  return { least: sorted[0], half: sorted[Math.floor(sorted.length / 2)] };
};
const widest = Math.max(...cases.map(({ name }) => name.length));
console.log(`${"".padEnd(widest)}   least  median   ratio of the medians`);
for (const { name, to } of cases) {
  const { least, half } = median(name);
  const ratio = name === to ? "" : `${(half / median(to).half).toFixed(2)} × ${to}`;
  console.log(`${name.padEnd(widest)}  ${least.toFixed(1).padStart(6)}  ${half.toFixed(1).padStart(6)}   ${ratio}`);
}
console.log(`\nmilliseconds, ${values.rounds} rounds in turns`);

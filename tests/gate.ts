/**
 * `deno task ok`: everything that must hold before a commit. It stops at the
 * first step that fails, and names it. Ends with `N passed, N failed`: the tests'
 * own line, or one failure where a step before them failed.
 */
import { spawnSync } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import process from "node:process";
import { styleText } from "node:util";
import { deno } from "./support/tools.ts";

// Where JSR can be reached, this map would work too, but then the real packages are to be checked.
const { status } = spawnSync(deno(), ["cache", "--quiet", "jsr:@std/assert@^1", "jsr:@std/path@^1"]);
const map = status === 0 ? [] : ["--import-map=tests/stand_in/import_map.json"];

/** The entry points. */
const { exports }: { exports: Record<string, string> } = JSON.parse(readFileSync("deno.json", "utf8"));

const sources = ["mod.ts", ...globSync("src/**/*.ts").sort()];

const STEPS: readonly (readonly [name: string, ...args: string[]])[] = [
  ["fmt", "fmt", "--check"],
  ["lint", "lint"],
  ["check", "check", ...map, "mod.ts", "src", "examples", "tests", "bench", "tasks"],
  ["README examples", "check", "--doc-only", ...map, "README.md"],
  ["doc --lint", "doc", "--lint", ...Object.values(exports)],
  ["doc examples", "test", "--doc", "-A", ...map, ...sources],
  ["publish --dry-run", "publish", "--dry-run", "--allow-dirty"],
  ["tests", "run", "-A", "--no-check", "tests/run.ts"],
];

for (const [name, ...args] of STEPS) {
  console.log(styleText("bold", `── ${name}: deno ${args.slice(0, 6).join(" ")}${args.length > 6 ? " …" : ""}`));
  const { status, signal } = spawnSync(deno(), args, { stdio: ["ignore", "inherit", "inherit"] });
  if (status === 0) continue;
  if (name !== "tests") { // they have had the last word themselves
    const line = `the gate is shut: ${name} failed (${signal ?? status})`;
    console.error(styleText(["bold", "red"], line, { stream: process.stderr }));
    console.log("\n0 passed, 1 failed");
  }
  process.exit(1);
}

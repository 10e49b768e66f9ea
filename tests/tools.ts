/**
 * What the tests and the demo need beside the Deno that runs them: Bun, Node 26
 * and Node 20, from the npm registry into a cache outside the checkout,
 * and our own package packed as JavaScript for Node 20.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import process from "node:process";

/** The packages with the binaries, and where in them each lies. No install script has to run. */
const machine = `linux-${process.arch}`;
const TOOLS = {
  bun: [`@oven/bun-${machine.replace("arm64", "aarch64")}`, "1.4.5", "bin/bun"],
  node26: [`node-${machine}`, "26.12.1", "bin/node"],
  node20: [`node-${machine}`, "20.20.2", "bin/node"],
} as const;

export type Tool = keyof typeof TOOLS;

const cache = process.env.HOLDFAST_TEST_CACHE ??
  join(process.env.XDG_CACHE_HOME ?? join(homedir() || tmpdir(), ".cache"), "holdfast-tests");

/** The binary of a runtime, installed if need be. */
export function tool(name: Tool): string {
  const [packageName, version, file] = TOOLS[name];
  const home = join(cache, `${name}-${version}`);
  const binary = join(home, "node_modules", packageName, file);
  if (existsSync(binary)) return binary;
  console.error(`installing ${packageName}@${version} from the npm registry into ${home}`);
  const unfinished = `${home}.${process.pid}`;
  mkdirSync(unfinished, { recursive: true });
  execFileSync(
    "npm",
    ["install", "--prefix", unfinished, "--no-audit", "--no-fund", "--loglevel=error", `${packageName}@${version}`],
    { stdio: ["ignore", "ignore", "inherit"] },
  );
  rmSync(home, { recursive: true, force: true });
  renameSync(unfinished, home); // whole or not at all
  if (!existsSync(binary)) throw new Error(`${packageName}@${version} has no ${file}`);
  return binary;
}

/** Deno: the one that runs the test task, wherever npx has put it. */
export const deno = (): string => process.env.HOLDFAST_TEST_DENO ?? (process.versions.deno ? process.execPath : "deno");

/** Our package as the JavaScript that npm users get; made by `deno task test` before the tests run. */
export const packedModule = (): string => join(cache, "packed", "package", "mod.js");

/** Packs the package of this checkout. */
export function pack(): void {
  const folder = join(cache, "packed");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const tarball = join(folder, "holdfast.tgz");
  execFileSync(deno(), ["pack", "--quiet", "--allow-dirty", "--allow-slow-types", "-o", tarball], { stdio: "inherit" });
  execFileSync("tar", ["xzf", tarball, "-C", folder]);
}

/** A command on the PATH, or an error that says what to install. */
export function onPath(command: string, debianPackage: string): string {
  const found = (process.env.PATH ?? "").split(delimiter).map((folder) => join(folder, command)).find(existsSync);
  if (!found) throw new Error(`the tests need ${command}: apt-get install ${debianPackage}`);
  return found;
}

/**
 * What the tests and the demo need beside the Deno that runs them: Bun, Node 26
 * and Node 20, from the npm registry into a cache outside the checkout,
 * and our own package packed as JavaScript for Node 20.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
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

/** Where all of that is kept. */
export const cache = process.env.HOLDFAST_TEST_CACHE ??
  join(process.env.XDG_CACHE_HOME ?? join(homedir() || tmpdir(), ".cache"), "holdfast-tests");

/** The binary of a runtime, installed if need be; another one, such as an emulated, if `HOLDFAST_TEST_BUN` and so on name it. */
export function tool(name: Tool): string {
  const given = process.env[`HOLDFAST_TEST_${name.toUpperCase()}`];
  if (given) return given;
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

/** Our package as the JavaScript that npm users get; made by `pack()` of tasks/pack.ts before the tests run. */
export const packedModule = (): string => join(cache, "packed", "package", "mod.js");

/** A command on the PATH, or an error that says what to install. */
export function onPath(command: string, debianPackage: string): string {
  const found = (process.env.PATH ?? "").split(delimiter).map((folder) => join(folder, command)).find(existsSync);
  if (!found) throw new Error(`the tests need ${command}: apt-get install ${debianPackage}`);
  return found;
}

/**
 * util-linux's own test of flock(1), `tests/ts/misc/flock`, and what that needs, from Debian's source package.
 * apt is given a configuration of its own, so that the machine's is as before.
 */
export function utilLinuxTests(): string {
  const home = join(cache, "util-linux-bookworm");
  const script = join(home, "tests/ts/misc/flock");
  if (existsSync(script)) return script;
  console.error(`fetching Debian's source package of util-linux into ${home}`);
  const unfinished = `${home}.${process.pid}`;
  rmSync(unfinished, { recursive: true, force: true });
  for (const folder of ["apt/lists/partial", "apt/archives/partial"]) {
    mkdirSync(join(unfinished, folder), { recursive: true });
  }
  const keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
  const source = join(unfinished, "apt/sources.list");
  writeFileSync(source, `deb-src [signed-by=${keys}] http://deb.debian.org/debian bookworm main\n`);
  const configuration = [
    `Dir::Etc::SourceList=${source}`,
    "Dir::Etc::SourceParts=/dev/null",
    `Dir::State::Lists=${unfinished}/apt/lists`,
    `Dir::Cache=${unfinished}/apt`,
    "APT::Sandbox::User=root", // else it warns that _apt may not read our folder
    "Acquire::Retries=3",
  ].flatMap((line) => ["-o", line]);
  const run = (command: string, args: string[]) =>
    execFileSync(command, args, { cwd: unfinished, stdio: ["ignore", "ignore", "inherit"] });
  run("apt-get", [...configuration, "-qq", "update"]);
  run("apt-get", [...configuration, "-qq", "source", "--download-only", "util-linux"]);
  const tarball = readdirSync(unfinished).find((name) => name.endsWith(".orig.tar.xz"));
  if (!tarball) throw new Error("apt-get source fetched no util-linux_*.orig.tar.xz");
  const wanted = ["tests/functions.sh", "tests/commands.sh", "tests/ts/misc/flock", "tests/expected/misc/flock*"];
  const members = wanted.map((name) => `*/${name}`);
  run("tar", ["xJf", tarball, "--strip-components=1", "--wildcards", ...members]);
  for (const name of readdirSync(unfinished)) {
    if (name !== "tests") rmSync(join(unfinished, name), { recursive: true });
  }
  rmSync(home, { recursive: true, force: true });
  renameSync(unfinished, home); // whole or not at all
  return script;
}

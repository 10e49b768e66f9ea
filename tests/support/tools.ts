/**
 * What the tests and the demo need beside the Deno that runs them: Bun, Node 26
 * and Node 20, from the npm registry into a cache outside the checkout.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fetchPackages } from "./apt.ts";
import { missing, needs } from "./needs.ts";

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
  const home = cached(`${name}-${version}`, (folder) => {
    console.error(`installing ${packageName}@${version} from the npm registry into ${cache}`);
    const options = ["--no-audit", "--no-fund", "--loglevel=error"];
    const install = ["install", "--prefix", folder, ...options, `${packageName}@${version}`];
    execFileSync("npm", install, { stdio: ["ignore", "ignore", "inherit"] });
    if (!existsSync(join(folder, "node_modules", packageName, file))) {
      throw new Error(`${packageName}@${version} has no ${file}`);
    }
  });
  return join(home, "node_modules", packageName, file);
}

/** Deno: the one that runs the test task, wherever npx has put it. */
export const deno = (): string => process.env.HOLDFAST_TEST_DENO ?? (process.versions.deno ? process.execPath : "deno");

/** A folder of the cache, made if it is not there: whole, or not at all. */
export function cached(name: string, make: (folder: string) => void): string {
  const home = join(cache, name);
  if (existsSync(home)) return home;
  const unfinished = `${home}.${process.pid}`;
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(unfinished, { recursive: true });
  try {
    make(unfinished);
    try {
      renameSync(unfinished, home);
    } catch (error) {
      if (!existsSync(home)) throw error; // another process has made it meanwhile
    }
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
  return home;
}

/** util-linux's own test of flock(1), `tests/ts/misc/flock`, and what that needs, from Debian's source package. */
export function utilLinuxTests(): string {
  const home = cached("util-linux-tests", (folder) => {
    needs("tar", "xz");
    console.error("fetching Debian's source package of util-linux");
    try {
      fetchPackages(folder, ["util-linux"], { sources: true });
    } catch (error) {
      missing(
        `Debian's source package of util-linux, which cannot be fetched: ${
          error instanceof Error ? error.message : error
        }`,
      );
    }
    const tarball = readdirSync(folder).find((name) => name.endsWith(".orig.tar.xz"));
    if (!tarball) throw new Error("apt-get source fetched no util-linux_*.orig.tar.xz");
    const wanted = ["tests/functions.sh", "tests/commands.sh", "tests/ts/misc/flock", "tests/expected/misc/flock*"];
    const members = wanted.map((name) => `*/${name}`);
    execFileSync("tar", ["xJf", tarball, "--strip-components=1", "--wildcards", ...members], { cwd: folder });
    for (const name of readdirSync(folder)) if (name !== "tests") rmSync(join(folder, name), { recursive: true });
  });
  return join(home, "tests/ts/misc/flock");
}

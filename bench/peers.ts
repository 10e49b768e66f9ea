/** The peers: which, and how they get here; nothing of it is published or lies in the repository. */
import { execFileSync, spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { needs } from "../tests/support/needs.ts";
import { cache, tool } from "../tests/support/tools.ts";

const here = (file: string) => fileURLToPath(new URL(file, import.meta.url));

/** From npm. */
export const NPM = {
  "proper-lockfile": "4.1.2",
  lockfile: "1.0.4",
  "fs-ext": "2.1.1",
  "os-lock": "2.0.0",
  "@jujulego/pid-file": "2.2.2",
  pidlockfile: "1.1.1",
  "cross-process-lock": "2.2.0",
  rwlockfile: "2.0.25",
} as const;

/** Debian's packages, and the module in each. */
const DEBIAN = { filelock: "python3-filelock", portalocker: "python3-portalocker", fasteners: "python3-fasteners" };

/** Debian's own, which has Debian's packages. */
export const PYTHON = "/usr/bin/python3";
export const PYTHON_KINDS = ["fcntl", "filelock", "portalocker", "fasteners"] as const;

/** The folder with the npm packages, made if need be, and our workers in it, so that they import them by name. */
export function npmPeers(): string {
  const folder = join(cache, "bench-peers-1");
  if (!existsSync(folder)) {
    console.error(`installing ${Object.keys(NPM).join(", ")} from the npm registry into ${folder}`);
    const unfinished = `${folder}.${process.pid}`;
    mkdirSync(unfinished, { recursive: true });
    writeFileSync(join(unfinished, "package.json"), JSON.stringify({ private: true, dependencies: NPM }));
    // The headers for the two that are compiled are in Node's own package; node-gyp would go to nodejs.org for them.
    const node = tool("node26");
    const env = {
      ...process.env,
      PATH: `${dirname(node)}:${process.env.PATH}`,
      npm_config_nodedir: dirname(dirname(node)),
    };
    const install = (...options: string[]) =>
      spawnSync("npm", ["install", "--prefix", unfinished, "--no-audit", "--no-fund", "--loglevel=error", ...options], {
        stdio: ["ignore", "ignore", "inherit"],
        env,
      }).status === 0;
    // Without a compiler two of the peers are missing, and the table says so.
    if (!install() && !install("--ignore-scripts")) throw new Error("npm install of the peers failed");
    rmSync(folder, { recursive: true, force: true });
    renameSync(unfinished, folder); // whole or not at all
  }
  for (const file of ["worker.mjs", "locks.mjs"]) copyFileSync(here(file), join(folder, file));
  return folder;
}

/** The Debian packages, installed if need be. */
export function debianPeers(): void {
  const missing = Object.entries(DEBIAN)
    .filter(([module]) => spawnSync(PYTHON, ["-c", `import ${module}`], { stdio: "ignore" }).status !== 0)
    .map(([, name]) => name);
  if (missing.length === 0) return;
  console.error(`installing ${missing.join(", ")} from Debian`);
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  // What fails here is said in the table, where the worker cannot be started.
  spawnSync("apt-get", ["-qy", "install", "--no-install-recommends", ...missing], { stdio: "ignore", env });
}

/** The floor, compiled. */
export function floor(folder: string): string {
  needs("gcc", "/usr/include/stdio.h");
  const binary = join(folder, "floor");
  execFileSync("gcc", ["-O2", "-Wall", "-o", binary, here("floor.c")], { stdio: ["ignore", "ignore", "inherit"] });
  return binary;
}

const run = (command: string, ...args: string[]) => {
  const { stdout } = spawnSync(command, args, { encoding: "utf8" });
  return stdout?.trim().split("\n")[0] ?? "";
};

/** Names and versions, for the report. */
export function versions(): string[] {
  const debian = Object.values(DEBIAN).map((name) =>
    `${name} ${run("dpkg-query", "-W", "-f", "${Version}", name) || "missing"}`
  );
  return [
    ...Object.entries(NPM).map((each) => each.join(" ")),
    ...debian,
    run(PYTHON, "--version"),
    run("flock", "--version"),
    run("gcc", "--version"),
  ];
}

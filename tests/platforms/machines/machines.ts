/** Runtimes for another C library and another processor, set up once in the tests' cache. */
import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Runner } from "../../support/runners.ts";
import { fetchPackages } from "../../support/apt.ts";
import { command } from "../../support/needs.ts";
import { cached, deno, tool } from "../../support/tools.ts";

/** A runtime that is not this machine's own. */
export interface Machine {
  readonly name: string;
  readonly runtime: Runner;
  readonly binary: string;
  /** What it is started by. */
  readonly by?: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

const here = (file: string) => fileURLToPath(new URL(file, import.meta.url));

/** A folder of the cache. */
const once = (name: string, make: (folder: string) => void) => cached(join("emulated", name), make);

const run = (cwd: string, command: string, ...args: string[]) =>
  execFileSync(command, args, { cwd, stdio: ["ignore", "ignore", "pipe"] });

/** A package for another platform, which `npm install` would refuse. */
function unpack(packageName: string, version: string, file: string): string {
  const home = once(`${packageName.replace("/", "-")}-${version}`, (folder) => {
    run(folder, "npm", "pack", "--silent", `${packageName}@${version}`);
    const [tarball] = readdirSync(folder);
    run(folder, "tar", "xzf", tarball);
    rmSync(join(folder, tarball));
  });
  return join(home, "package", file);
}

/** Bun for musl, on the real musl and Debian's libstdc++. Throws what is missing. */
export function bunOnMusl(): Machine {
  command("musl-gcc", "musl musl-dev musl-tools gcc");
  const binary = unpack("@oven/bun-linux-x64-musl", "1.4.5", "bin/bun");
  const home = once("musl", (folder) => {
    mkdirSync(join(folder, "lib"));
    for (const library of ["/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "/lib/x86_64-linux-gnu/libgcc_s.so.1"]) {
      run(folder, "cp", "-L", library, "lib/");
    }
    run(folder, "musl-gcc", "-O2", "-shared", "-fPIC", "-o", "lib/ld-linux-x86-64.so.2", here("shim.c"));
  });
  const bun = join(home, "bun");
  writeFileSync(bun, `#!/bin/sh\nLD_LIBRARY_PATH='${home}/lib' exec '${binary}' "$@"\n`);
  chmodSync(bun, 0o755);
  return {
    name: "musl, x86-64: Bun 1.4.5",
    runtime: "bun",
    binary: bun,
    env: { HOLDFAST_TEST_BUN: bun, HOLDFAST_TEST_DENO: deno() },
  };
}

/** Debian's C library for arm64, by an apt with folders of its own, so that the machine's is as before. */
const arm64Root = () =>
  once("arm64", (folder) => {
    command("qemu-aarch64-static", "qemu-user-static");
    fetchPackages(folder, ["libc6", "libgcc-s1", "libstdc++6"], { architecture: "arm64" });
    for (const name of readdirSync(folder)) if (name.endsWith(".deb")) run(folder, "dpkg-deb", "-x", name, ".");
  });

/** Started where programs for arm64 run like any other; so is what they start. */
const onArm64 = () => ["sh", here("binfmt.sh")];

/** What both have. This machine's own Node: npm would not install another's. */
const arm64Env = () => ({
  HOLDFAST_TEST_SLOW: "10",
  HOLDFAST_TEST_NODE20: tool("node20"),
  HOLDFAST_TEST_NODE26: tool("node26"),
  QEMU_LD_PREFIX: arm64Root(),
});

/** Bun for arm64 in qemu-user. Throws what is missing. */
export function bunOnArm64(): Machine {
  const bun = unpack("@oven/bun-linux-aarch64", "1.4.5", "bin/bun");
  return {
    name: "arm64 (qemu-user): Bun 1.4.5",
    runtime: "bun",
    binary: bun,
    by: onArm64(),
    env: { ...arm64Env(), HOLDFAST_TEST_BUN: bun, HOLDFAST_TEST_DENO: deno() },
  };
}

/** Deno for arm64 in qemu-user. Throws what is missing. */
export function denoOnArm64(): Machine {
  const arm64 = unpack("@deno/linux-arm64-glibc", "2.9.6", "deno");
  return {
    name: "arm64 (qemu-user): Deno 2.9.6",
    runtime: "deno",
    binary: arm64,
    by: onArm64(),
    env: { ...arm64Env(), HOLDFAST_TEST_DENO: arm64, HOLDFAST_TEST_BUN: tool("bun") },
  };
}

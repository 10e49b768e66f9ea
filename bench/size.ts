/** How large the package is that a program carries: minified and gzipped, the command line not counted. */
import { execFileSync, spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { tool } from "../tests/support/tools.ts";

/** What it is to be, in bytes; it is not yet (bench/README.md says how much it is). */
export const SIZE_LIMIT = 20_000;

/** What it must not grow beyond unseen, in bytes. */
export const SIZE_NOW = 39_200;

const entry = fileURLToPath(new URL("../mod.ts", import.meta.url));

/** Bytes of everything that mod.ts can load, in one file, `gzip -9`. */
export function packageSize(folder: string): number {
  const out = join(folder, "bundle.js");
  const args = ["build", entry, "--minify", "--target=node", "--external", "node:*", "--outfile", out];
  const { status, stderr } = spawnSync(tool("bun"), args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`bun build: ${stderr}`);
  return execFileSync("gzip", ["-9", "-n", "-c", out]).length; // node:zlib compresses differently in each runtime
}

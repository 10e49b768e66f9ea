/** What one tryAcquire() runs through, measured in a process of its own. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { deno, tool } from "../../tests/support/tools.ts";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** What a probe prints: a JSON text on its last line. */
function probe(command: string, ...args: string[]): string[] {
  const { stdout, stderr, status } = spawnSync(command, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${args.join(" ")} ended with ${status}: ${stderr}`);
  return JSON.parse(stdout.trim().split("\n").at(-1)!); // `!`: split gives one part at least
}

/** The frames from tryAcquire() to flock(2), the outermost first: `name file`. */
export const framesOfTry = (): string[] => probe(deno(), "run", "-A", "--no-check", here("frames.ts"));

/** The files whose code runs in one acquire and release. */
export const filesTouched = (): string[] =>
  probe(tool("node26"), "--disable-warning=ExperimentalWarning", here("touched.ts"));

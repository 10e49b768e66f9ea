/** How the README's blocks of code, and the examples, are run in each runtime. */
import { assertEquals } from "@std/assert";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { finished } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import { packedModule } from "../../tasks/pack.ts";
import type { Child, Place } from "./harness.ts";
import { deno, tool } from "./tools.ts";

export const repository: string = fileURLToPath(new URL("../../", import.meta.url));

export const COMMANDS = {
  deno: () => [deno(), "run", "--quiet", "-A"],
  bun: () => [tool("bun"), "run"],
  node26: () => [tool("node26"), "--disable-warning=ExperimentalWarning"],
} as const;
export type Runtime = keyof typeof COMMANDS;
export const RUNTIMES = ["deno", "bun", "node26"] as const satisfies Runtime[];

/** All that it wrote to standard error has arrived: that can be later than its end. */
export async function closed({ process: { stderr } }: Child): Promise<void> {
  if (!stderr!.readableEnded) await finished(stderr!); // `!`: it is a pipe
}

/** Each block runs as it stands, where the package is installed. */
export async function readmeRuns({ dir, child }: Place, runtime: Runtime): Promise<void> {
  const readme = readFileSync(join(repository, "README.md"), "utf8");
  const blocks = [...readme.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) => code);
  assertEquals(blocks.length, 5);
  mkdirSync(join(dir, "node_modules/@holdfast"), { recursive: true });
  symlinkSync(dirname(packedModule()), join(dir, "node_modules/@holdfast/lock"));
  const { imports } = JSON.parse(readFileSync(join(repository, "deno.json"), "utf8"));
  const own = Object.entries(imports).filter(([name]) => name.startsWith("@holdfast/"));
  const map = Object.fromEntries(own.map(([name, file]) => [name, `${repository}${file}`]));
  writeFileSync(join(dir, "deno.json"), JSON.stringify({ imports: map }));
  for (const [i, code] of blocks.entries()) {
    writeFileSync(join(dir, `${i}.mts`), code);
    const [command, ...flags] = COMMANDS[runtime]();
    const block = child(command, [...flags, `${i}.mts`], { cwd: dir });
    assertEquals(await block.ended, { code: 0, signal: null }, block.errors);
    await closed(block);
    assertEquals(block.errors, "");
  }
  assertEquals(readFileSync(join(dir, "report.txt"), "utf8"), "done\n");
  assertEquals(readFileSync(join(dir, "nightly.lock"), "utf8"), "");
}

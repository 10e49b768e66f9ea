/** `holdfast flock` in each runtime, compiled, and the real flock(1), for the tests that compare them. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { makeExecutable } from "../../tasks/executable.ts";
import { command } from "./needs.ts";
import { deno, tool } from "./tools.ts";

/** The program, from the top of the repository, and what stands before flock's arguments. */
export const PROGRAM = ["src/cli/main.ts", "flock"] as const;

const repository = fileURLToPath(new URL("../../", import.meta.url));
const [main, ...before] = PROGRAM;
const program = [join(repository, main), ...before];

/** The commands: what stands before flock's arguments. */
export const FLOCKS: Readonly<Record<"deno" | "bun" | "node26" | "flock", () => string[]>> = {
  deno: () => [deno(), "run", "--quiet", "-A", ...program],
  bun: () => [tool("bun"), "run", ...program],
  node26: () => [tool("node26"), "--disable-warning=ExperimentalWarning", ...program],
  flock: () => [command("flock")],
};

/** An executable file made with `bun build --compile`, as a command like those above. */
export function compiled(directory: string): string[] {
  const file = join(directory, "holdfast");
  makeExecutable(file);
  return [file, ...before];
}

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** A file that becomes the command when it is run, so that the process is the command's. */
export function wrapper(directory: string, name: string, command: readonly string[]): string {
  const file = join(directory, name);
  writeFileSync(file, `#!/bin/sh\nexec ${command.map(quoted).join(" ")} "$@"\n`, { mode: 0o755 });
  return file;
}

/** `deno task compile`: the command line as one executable, dist/holdfast, for this machine. Tried before it is said to be done. */
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { makeExecutable } from "./executable.ts";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const executable = here("../dist/holdfast");

mkdirSync(here("../dist"), { recursive: true });
makeExecutable(executable, "--minify", "--bytecode", "--format=esm");
console.log(execFileSync(executable, ["version"], { encoding: "utf8" }).trim(), "in", executable);

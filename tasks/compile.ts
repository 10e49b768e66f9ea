/** `deno task compile`: the command line as one executable, dist/holdfast, for this machine. Tried before it is said to be done. */
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { tool } from "../tests/tools.ts";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const executable = here("../dist/holdfast");

mkdirSync(here("../dist"), { recursive: true });
execFileSync(tool("bun"), [
  "build",
  "--compile",
  "--minify",
  "--bytecode",
  "--format=esm",
  // Of the directory where it is started: a .env set HOLDFAST_DIR and LD_PRELOAD, a bunfig.toml ran a script.
  ...["dotenv", "bunfig", "tsconfig", "package-json"].map((file) => `--no-compile-autoload-${file}`),
  `--outfile=${executable}`,
  here("../src/cli/main.ts"),
], {
  stdio: ["ignore", "inherit", "inherit"],
  cwd: here("../dist"), // where it leaves what it needs while it builds
});
console.log(execFileSync(executable, ["version"], { encoding: "utf8" }).trim(), "in", executable);

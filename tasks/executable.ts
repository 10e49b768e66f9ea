/** The command line as one executable, made by `bun build --compile`. */
import { execFileSync } from "node:child_process";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { tool } from "../tests/support/tools.ts";

const main = fileURLToPath(new URL("../src/cli/main.ts", import.meta.url));

/**
 * Otherwise the executable reads these files of whatever directory it is started in: a `.env` set HOLDFAST_DIR and
 * LD_PRELOAD, and a `bunfig.toml` ran a script.
 */
const READS_NOTHING = ["dotenv", "bunfig", "tsconfig", "package-json"].map((file) => `--no-compile-autoload-${file}`);

/** Makes it for this machine. */
export function makeExecutable(file: string, ...options: string[]): void {
  execFileSync(tool("bun"), ["build", "--compile", ...READS_NOTHING, ...options, `--outfile=${file}`, main], {
    stdio: ["ignore", "ignore", "inherit"],
    cwd: dirname(file), // where it leaves what it needs while it builds
  });
}

/**
 * The package as npm users get it. `deno pack` makes JavaScript, types and the
 * package.json, but knows no `bin`; and Node takes longer to open some fifty
 * files (70 ms) than for all the rest of a start. So the module is one file
 * here, and the command few. The code of `journal.js` is in that file too, so
 * that there is one class `LockError`. `diagnostics.js` is a file of its own: it
 * finds the hooks of the thread by their symbol.
 */
import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { cache, deno, tool } from "../tests/tools.ts";

const repository = fileURLToPath(new URL("../", import.meta.url));

/** Makes it for the tests and the benchmark. */
export const pack = (): void => void packPackage(join(cache, "packed"));

/** Makes it in `folder`/package, which is emptied first, and returns that. */
export function packPackage(folder: string): string {
  const [made, packed] = [join(folder, "package"), join(folder, "packed.tgz")];
  rmSync(made, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const quiet = { cwd: repository, stdio: ["ignore", "ignore", "inherit"] as ("ignore" | "inherit")[] };
  execFileSync(deno(), ["pack", "--quiet", "--allow-dirty", "--no-source-maps", "-o", packed], quiet);
  execFileSync("tar", ["xzf", packed, "-C", folder], quiet);
  rmSync(packed);

  // Of the single files only the types stay: with the code there would be two copies of it.
  for (const name of readdirSync(join(made, "src"), { recursive: true, encoding: "utf8" })) {
    if (name.endsWith(".js")) rmSync(join(made, "src", name));
  }
  rmSync(join(made, "src/cli"), { recursive: true });
  const bundle = (file: string, ...options: string[]) =>
    void execFileSync(tool("bun"), ["build", "--target=node", ...options, join(repository, file)], quiet);
  bundle("tasks/module.ts", `--outfile=${join(made, "mod.js")}`);
  writeFileSync(join(made, "journal.js"), 'export { _history as history } from "./mod.js";\n');
  bundle("src/diagnostics.ts", `--outfile=${join(made, "diagnostics.js")}`);
  const bin = "bin/main.js";
  bundle(
    "src/cli/main.ts",
    ...["--splitting", "--minify-whitespace", "--minify-syntax", `--outdir=${join(made, "bin")}`],
  );
  chmodSync(join(made, bin), 0o755);
  const manifest = join(made, "package.json");
  const { exports, ...rest } = JSON.parse(readFileSync(manifest, "utf8"));
  const whole = {
    ...rest,
    exports: {
      ...exports,
      "./journal": { types: exports["./journal"].types, default: "./journal.js" },
      "./diagnostics": { types: exports["./diagnostics"].types, default: "./diagnostics.js" },
      "./cli": `./${bin}`,
    },
    bin: { holdfast: bin },
    engines: { node: ">=20" },
  };
  writeFileSync(manifest, JSON.stringify(whole, null, 2));
  return made;
}

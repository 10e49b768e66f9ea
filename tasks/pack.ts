/**
 * The package as npm users get it. `deno pack` makes JavaScript, types and the
 * package.json, but knows no `bin`; and Node takes longer to open some fifty
 * files (70 ms) than for all the rest of a start. So the module is one file
 * here, and the command few. The code of `journal.js` is in that file too, so
 * that there is one class `LockError`. `diagnostics.js` is a file of its own: it
 * finds the hooks of the thread by their symbol.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { cache, cached, deno, tool } from "../tests/support/tools.ts";

const repository = fileURLToPath(new URL("../", import.meta.url));

/** What it is made from. */
const SOURCES = ["mod.ts", "src", "README.md", "CHANGELOG.md", "LICENSE", "deno.json", "tasks/pack.ts"];

/** Differs if anything that the package is made from differs. */
function fingerprint(): string {
  const hash = createHash("sha256");
  const add = (name: string) => {
    const path = join(repository, name);
    if (!statSync(path).isDirectory()) return void hash.update(`${name}\n`).update(readFileSync(path));
    for (const each of readdirSync(path).sort()) add(`${name}/${each}`);
  };
  SOURCES.forEach(add);
  return hash.digest("hex").slice(0, 16);
}

/** Milliseconds, after which a package of other sources is removed from the cache: no run takes longer. */
const WEEK = 7 * 24 * 3600_000;

/** Where it is, once this process has asked: an edit in the middle of a run changes nothing for it. */
let packed: string | undefined;

/**
 * Makes it for the tests and the benchmark, unless it is there: in the cache, by what it is made from, so that two
 * checkouts on one machine do not take each other's away.
 */
export function pack(): string {
  return packed ??= join(
    cached(`packed-${fingerprint()}`, (folder) => {
      for (const name of readdirSync(cache).filter((name) => name.startsWith("packed-"))) {
        if (Date.now() - statSync(join(cache, name)).mtimeMs > WEEK) rmSync(join(cache, name), { recursive: true });
      }
      packPackage(folder);
    }),
    "package",
  );
}

/** Our package as the JavaScript that npm users get: its module. */
export const packedModule = (): string => join(pack(), "mod.js");

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

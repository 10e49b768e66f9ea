/**
 * The code that the workers load: our own as it is at this moment, a mutant of
 * it, or a package from npm. Ours is copied first, so that nobody's edit in the
 * middle of a long run gets into it.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { copySource, type Edit } from "../../support/edits.ts";
import { MUTANTS } from "../../explore/backends.ts";
import type { Kind } from "../../support/harness.ts";
import { packedModule } from "../../../tasks/pack.ts";
import { cache, cached } from "../../support/tools.ts";

const repository = fileURLToPath(new URL("../../..", import.meta.url));

/** What is locked with, and where it lies. */
export interface Modules {
  /** Its name in locks.mjs. */
  readonly lock: string;
  readonly folder: string;
  /** The file for a runtime; undefined where the lock is in locks.mjs itself. */
  readonly file: (kind: Kind) => string | undefined;
}

/** Our own code, for every runtime. */
export function ownModules(folder: string): Modules {
  copySource(folder);
  cpSync(dirname(packedModule()), join(folder, "packed"), { recursive: true });
  return {
    lock: "holdfast",
    folder,
    // Node 26 could strip the types itself, at four times the start-up time.
    file: (kind) => join(folder, kind.startsWith("node") ? "packed/mod.js" : "mod.ts"),
  };
}

/** One more fault than the explorer has: what a takeover leaves stays. */
const NO_SWEEP: typeof MUTANTS[string] = [["pidfile.ts", "sweep(sys, path, step.nonce);", ""]];

/** Our own code with a deliberate fault. Not for Node 20, which needs it compiled. */
export const mutantModules = (name: string, folder: string): Modules =>
  editedModules(name === "no sweep" ? NO_SWEEP : MUTANTS[name], folder);

/** Our own code with these edits: a file of src/backend, what stands in it, and what is to stand there instead. */
export function editedModules(edits: readonly Edit[], folder: string): Modules {
  copySource(folder, edits.map(([file, before, after]) => [`backend/${file}`, before, after]));
  return { lock: "holdfast", folder, file: () => join(folder, "mod.ts") };
}

/** A few characters that tell one state of the copied source from another. */
export function fingerprint(folder: string): string {
  const hash = createHash("sha256");
  for (const name of readdirSync(join(folder, "src"), { recursive: true, encoding: "utf8" }).sort()) {
    if (name.endsWith(".ts")) hash.update(name).update(readFileSync(join(folder, "src", name)));
  }
  return hash.digest("hex").slice(0, 12);
}

/** The locks in locks.mjs that everybody has written once. */
export const naiveModules: Modules = { lock: "naive", folder: repository, file: () => undefined };
export const markerModules: Modules = { ...naiveModules, lock: "marker" };

/** The peers, with the file in the package that is loaded. */
export const PEERS = {
  "proper-lockfile": ["4.1.2", "index.js"],
  pidlockfile: ["1.1.1", "pidlockfile.js"],
} as const;

/** A package from npm, for Node 26; installed into the tests' cache, never into the repository. */
export function peerModules(name: keyof typeof PEERS): Modules {
  const [version, file] = PEERS[name];
  const folder = cached(`${name}-${version}`, (folder) => {
    console.error(`installing ${name}@${version} from the npm registry into ${cache}`);
    const options = ["--prefix", folder, "--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts"];
    execFileSync("npm", ["install", ...options, `${name}@${version}`], { stdio: ["ignore", "ignore", "inherit"] });
  });
  return { lock: name, folder, file: () => join(folder, "node_modules", name, file) };
}

/** The back ends to explore: the project's own, or with one deliberate fault. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { tryFlock } from "../../src/backend/flock.ts";
import { advance } from "../../src/backend/pidfile.ts";
import { type Edit as BareEdit, edited } from "../support/edits.ts";
import type { Backends } from "./explore.ts";

/** The code that ships. */
export const own: Backends = { tryFlock, advance };

/** An edit of a file of src/backend, or of the judge of owners. */
type Edit = BareEdit<"flock.ts" | "pidfile.ts" | "record/owner.ts">;

/** The protocol's faults, as edits of the code that ships. */
export const MUTANTS: Record<string, Edit[]> = {
  "unlink and recreate": [[
    "pidfile.ts",
    `? { at: "A3", root, cur: root.nonce, hops: 0 }`,
    `? (discard(sys, pidPath(path)), { at: "A1" })`,
  ]],
  "no second read": [[
    "pidfile.ts",
    `found?.nonce === step.root.nonce ? { ...step, at: "A6" }`,
    `true ? { ...step, at: "A6" }`,
  ]],
  "look before announce": [
    [
      "flock.ts",
      `const announcement = mode`,
      `const before = lookAtPidFile(sys, path);\n    const announcement = mode`,
    ],
    ["flock.ts", `const { refusal, dead } = lookAtPidFile(sys, path); // 6`, `const { refusal, dead } = before;`],
  ],
  "what is not known agrees": [[
    "record/owner.ts",
    "a !== undefined && a === b;",
    "a === undefined || b === undefined || a === b;",
  ]],
  "another boot is a restart": [[
    "record/owner.ts",
    "[owner, self].every(({ pidNamespace }) => pidNamespace === INITIAL_PID_NAMESPACE) &&",
    "",
  ]],
  "no look at P": [["pidfile.ts", `refusal = kernelHolder(sys, path);`, `refusal = undefined;`]],
};

/** Loads the back ends with these edits; all that they import stays the project's own. */
export async function mutant(edits: readonly Edit[]): Promise<Backends> {
  const source = new URL("../../src/", import.meta.url);
  const copy = mkdtempSync(join(tmpdir(), "holdfast-mutant-"));
  try {
    const load = (name: string) => import(pathToFileURL(join(copy, name)).href);
    for (const folder of ["backend", "record"]) {
      mkdirSync(join(copy, folder));
      for (const name of folder === "backend" ? readdirSync(new URL("backend/", source)) : ["owner.ts"]) {
        const file = `${folder}/${name}`;
        let text = readFileSync(new URL(file, source), "utf8").replaceAll(/from "(\.\.?\/[^"]*)"/g, (_, from) => {
          const { href } = new URL(from, new URL(file, source));
          const kept = href.startsWith(`${source}backend/`) || href === `${source}record/owner.ts`;
          return `from "${kept ? from : href}"`;
        });
        for (const edit of edits) if (edit[0] === name || edit[0] === file) text = edited(text, edit);
        writeFileSync(join(copy, file), text);
      }
    }
    const [{ tryFlock }, { advance }] = [await load("backend/flock.ts"), await load("backend/pidfile.ts")];
    return { tryFlock, advance };
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

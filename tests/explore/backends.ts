/** The back ends to explore: the project's own, or with one deliberate fault. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { tryFlock } from "../../src/backend/flock.ts";
import { advance } from "../../src/backend/pidfile.ts";
import { type Edit as BareEdit, edited } from "../edits.ts";
import type { Backends } from "./explore.ts";

/** The code that ships. */
export const own: Backends = { tryFlock, advance };

/** An edit of a file of src/backend, or of the judge of owners. */
type Edit = BareEdit<"flock.ts" | "pidfile.ts" | "owner.ts">;

/** The protocol's faults, as edits of the code that ships. */
export const MUTANTS: Record<string, Edit[]> = {
  "unlink and recreate": [[
    "pidfile.ts",
    `isDead(root, request) ? { at: "A3", root, cur: root.nonce, hops: 0 }`,
    `isDead(root, request) ? (discard(sys, pidPath(path)), { at: "A1" })`,
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
    "owner.ts",
    "a !== undefined && a === b;",
    "a === undefined || b === undefined || a === b;",
  ]],
  "another boot is a restart": [[
    "owner.ts",
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
    const names = [...readdirSync(new URL("backend/", source)), "owner.ts"];
    for (const name of names) {
      const folder = new URL(name === "owner.ts" ? "." : "backend/", source);
      let text = readFileSync(new URL(name, folder), "utf8").replaceAll(`from "../owner.ts"`, `from "./owner.ts"`)
        .replaceAll(`from "../`, `from "${source}`);
      if (name === "owner.ts") text = text.replaceAll(`from "./`, `from "${source}`);
      for (const edit of edits) if (edit[0] === name) text = edited(text, edit);
      writeFileSync(join(copy, name), text);
    }
    const [{ tryFlock }, { advance }] = [await load("flock.ts"), await load("pidfile.ts")];
    return { tryFlock, advance };
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

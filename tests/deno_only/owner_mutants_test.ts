/** The table of facts finds a fault in every judge that takes what is not known for agreement, or for proof. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { assert } from "@std/assert";
import { edited } from "../support/edits.ts";
import { test } from "../support/harness.ts";
import { faults } from "../support/owner_table.ts";

/** What stands in src/record/owner.ts, and the mistake. */
const MUTANTS: Record<string, readonly [before: string, after: string]> = {
  "what is not known agrees": ["a !== undefined && a === b;", "a === undefined || b === undefined || a === b;"],
  "what is unknown on both sides agrees": ["a !== undefined && a === b;", "a === b;"],
  "what is not known differs": ["a !== undefined && b !== undefined && a !== b;", "a !== b;"],
  "another boot is a restart in any namespace": [
    "[owner, self].every(({ pidNamespace }) => pidNamespace === INITIAL_PID_NAMESPACE) &&",
    "",
  ],
  "another boot is a restart on any disk": [
    "differ(owner.bootId, self.bootId) && isLocal &&",
    "differ(owner.bootId, self.bootId) &&",
  ],
  "another boot is a restart in a shared folder": [
    `(owner.fileSystem === undefined || owner.fileSystem === "local")`,
    "true",
  ],
  "another boot is a restart of any host": ["agree(owner.host, self.host) &&", ""],
  "the boot does not matter": ["if (linux && !agree(owner.bootId, self.bootId)) return false;", ""],
  "the host never matters": ["(linux && isLocal) || agree(owner.host, self.host)", "true"],
  "the host always matters": ["(linux && isLocal) || agree(owner.host, self.host)", "agree(owner.host, self.host)"],
  "the PID namespace does not matter": [
    "if (!sameNamespace(owner.pidNamespace, self.pidNamespace)) return false;",
    "",
  ],
  "the time namespace does not matter": [
    "if (agree(owner.timeNamespace, self.timeNamespace)) return byStart;",
    "return byStart;",
  ],
  "a time namespace that is not known is the same": [
    "if (agree(owner.timeNamespace, self.timeNamespace)) return byStart;",
    "if (!differ(owner.timeNamespace, self.timeNamespace)) return byStart;",
  ],
};

for (const [name, [before, after]] of Object.entries(MUTANTS)) {
  test(`faults() finds one in a judge by which ${name}`, async () => {
    const source = new URL("../../src/", import.meta.url);
    const copy = mkdtempSync(join(tmpdir(), "holdfast-judge-"));
    try {
      const text = readFileSync(new URL("record/owner.ts", source), "utf8")
        .replaceAll(`from "./`, `from "${source}record/`).replaceAll(`from "../`, `from "${source}`);
      writeFileSync(join(copy, "owner.ts"), edited(text, ["record/owner.ts", before, after]));
      const { judge } = await import(pathToFileURL(join(copy, "owner.ts")).href);
      const [first] = faults(judge);
      assert(first);
      console.log(`${name}: ${first}`);
    } finally {
      rmSync(copy, { recursive: true, force: true });
    }
  });
}

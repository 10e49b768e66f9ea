/** The short form of the search for leaks, and that it finds what it looks for. `deno task torture` has the long one. */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { type Kind, test } from "../support/harness.ts";
import { copySource, type Edit } from "../support/edits.ts";
import { leaks, runLeaks } from "../torture/leaks.ts";

test("leaks() finds nothing after 300 of each in Deno without FFI, Bun and Node 26", async ({ dir }) => {
  const { failures, rows } = await leaks({ seed: 1, budget: 0, short: true, dir });
  console.log(rows.map((row) => row.join(" | ")).join("\n"));
  assertEquals(failures, []);
  assertEquals(rows.length, 3);
  for (const [, , ...times] of rows) {
    for (const count of times.slice(0, 3)) assert(Number(count) >= 300, String(rows));
  }
}, { timeout: 600_000 });

/** Faults, and what is said of each. */
const FAULTS: Record<string, { edits: Edit[]; found: RegExp; kind?: Kind; end?: number }> = {
  "the file that a refused try leaves open": {
    edits: [[
      "backend/flock.ts",
      "if (!kept) return { refusal };",
      "if (!kept) return (staysOpen = true, { refusal });",
    ]],
    found: /after 200 refused: \d+ descriptors, where there were \d+: more are .*a\.lock/,
  },
  "a listener that stays on a signal": {
    edits: [["wait/wait.ts", 'signal.removeEventListener("abort", listener);', ""]],
    found: /listeners are left on a signal/,
  },
  "a watcher that is not closed": {
    edits: [["wait/line.ts", "watcher?.close();", ""]],
    found: /inotify watches are left/,
    kind: "node26", // Bun may collect one that nobody can reach
  },
  "a hold that is never forgotten": {
    edits: [["backend/registry.ts", "holds().delete(hold);", "void hold;"]],
    found: /holds are left in the registry/,
  },
  "a few kilobytes for each Lock": {
    edits: [[
      "hold/state.ts",
      "    this.settings = settings;",
      "    this.settings = settings;\n    ((globalThis as any).kept ??= []).push(new Array(10_000).fill(0.5));",
    ]],
    found: /the heap grew by/,
  },
  "a timer that keeps the process alive": {
    edits: [["backend/registry.ts", "let crashed = false;", "let crashed = false;\n  setInterval(() => {}, 1000);"]],
    found: /it did not end by itself/,
    end: 1_000,
  },
};

for (const [fault, { edits, found, kind = "bun", end }] of Object.entries(FAULTS)) {
  test(`runLeaks() finds ${fault}`, async ({ dir }) => {
    const module = copySource(join(dir, "modules"), edits);
    const times = { cycles: 200, refused: 200, waits: 150 };
    const { failures } = await runLeaks({ dir: join(dir, "run"), kind, backend: "flock", times, module, end });
    assert(failures.some((each) => found.test(each)), failures.join("\n") || "nothing was found");
  }, { timeout: 300_000 });
}

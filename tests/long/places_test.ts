/** The torture's places, in their short form; and that their trials find a lock that is none. */
import { assert, assertEquals } from "@std/assert";
import { test } from "../support/harness.ts";
import { inPlaces, places } from "../torture/places.ts";
import { ALL } from "../torture/places/trials.ts";
import { GROUNDS } from "../torture/places/grounds.ts";

test(
  "Lock does on a read-only and a full file system, and as another user than root, what it does elsewhere",
  async ({ dir }) => {
    const { rows, failures } = await places({ seed: 1, budget: 0, short: true, dir });
    assertEquals(failures, []);
    assertEquals(rows.length, GROUNDS.filter(({ short }) => short).length);
    for (const [place, ...cells] of rows) {
      for (const cell of cells.slice(0, 2)) assert(/^(\d+) of \1$/.test(cell), `${place}: ${cell}`); // nothing was left out
    }
  },
  { timeout: 400_000 },
);

test("places() reports every behaviour as wrong where flock(2) only says that it locks", async ({ dir }) => {
  const lie = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", "trace=flock"];
  const tmpfs = GROUNDS.filter(({ name }) => name === "tmpfs");
  const [outcome] = await inPlaces("bun", tmpfs, dir, "", [...lie, "-e", "inject=flock:retval=0"]);
  const found = Object.entries(outcome.behaviours).filter(([, wrong]) => wrong.length > 0).map(([what]) => what);
  assertEquals(found, Object.keys(ALL));
}, { timeout: 400_000 });

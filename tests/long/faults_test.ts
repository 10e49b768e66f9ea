/** The short form of the faults, and that it finds what is wrong. `deno task torture` has all of them. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import process from "node:process";
import { attack, faults } from "../torture/faults.ts";
import type { Case, Scene } from "../torture/faults/stage.ts";
import { copySource, type Edit } from "../support/edits.ts";
import { type Place, test } from "../support/harness.ts";

/** Another run has another seed, and says which. */
const seed = Number(process.env.HOLDFAST_TEST_SEED ?? Math.floor(Math.random() * 2 ** 31));
console.log(`faults: HOLDFAST_TEST_SEED=${seed}`);

const sum = (rows: readonly (readonly string[])[], column: number) =>
  rows.reduce((total, row) => total + Number(row[column]), 0);

test("faults() finds nothing in its short form, and reaches what it wants to reach", async ({ dir }) => {
  const { failures, rows, notes } = await faults({ seed, budget: 10_000, short: true, dir });
  assertEquals(failures, []);
  const [reached, missed] = [sum(rows, 3), sum(rows, 4)];
  assert(reached >= 8 && missed * 3 <= reached, `${reached} reached, ${missed} not: ${notes.join(" ")}`);
});

/** Our own code with a deliberate fault, attacked in one runtime. */
async function mutant(
  { dir, path }: Place,
  edit: Edit,
  scene: Scene,
  only: (one: Case) => boolean,
): Promise<readonly string[]> {
  copySource(dir, [edit]);
  const { failures, rows } = await attack({
    ...{ kinds: ["bun"], scenes: [scene], seed, budget: 60_000, dir },
    module: path("mod.ts"),
    only,
  });
  assert(sum(rows, 3) > 0, "nothing was reached");
  return failures;
}

test("attack() finds a flock(2) whose EIO is taken for success", async (place) => {
  const failures = await mutant(
    place,
    [
      "sys/linux.ts",
      'return contention(errnoName("linux", number));',
      'return number === 5 ? "locked" : contention(errnoName("linux", number)); // EIO',
    ],
    { operation: "acquire", backend: "flock" },
    ({ call, errno }) => call === "flock" && errno === "EIO",
  );
  assertEquals(failures.length, 3);
  for (const failure of failures) assertMatch(failure, /it holds .*, and (another process|flock\(2\))/);
});

test("attack() finds a failure that is taken for contention", async (place) => {
  const failures = await mutant(
    place,
    ["sys/primitives.ts", 'code === "EAGAIN") return "held"', 'code === "EAGAIN" || code === "EINVAL") return "held"'],
    { operation: "acquire", backend: "flock" },
    ({ call, errno }) => call === "flock" && errno === "EINVAL",
  );
  assertEquals(failures.length, 3);
  for (const failure of failures) assertMatch(failure, /false, although nobody holds it/);
});

test("attack() finds a descriptor that is not closed after an error", async (place) => {
  const failures = await mutant(
    place,
    ["backend/flock.ts", "    if (!staysOpen) file.close();", "    void file;"],
    { operation: "acquire", backend: "flock" },
    ({ call, errno, nth }) => call === "flock" && errno === "EIO" && nth === 1,
  );
  assertEquals(failures.length, 1);
  assertMatch(failures[0], /2 descriptors while held, not 1; 1 descriptors after release, not 0/);
});

test("attack() finds an error that is a runtime's own", async (place) => {
  const failures = await mutant(
    place,
    [
      "backend/choice.ts",
      "throw error instanceof SystemError ? systemFailure",
      "throw error instanceof Map ? systemFailure",
    ],
    { operation: "acquire", backend: "pidfile" },
    ({ call, errno, nth }) => call === "pwrite64" && errno === "EIO" && nth === 1,
  );
  assertEquals(failures.length, 1);
  assertMatch(failures[0], /an error that is not typed: SystemError EIO/);
});

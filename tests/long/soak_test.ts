/** `deno task torture` in its short form: the soak, and whether it finds what was put there to be found. */
import { assert, assertEquals } from "@std/assert";
import process from "node:process";
import { test } from "../support/harness.ts";
import { attack, FAULTS, first, LIMIT } from "../torture/deliberate.ts";
import { EVERYBODY, soak } from "../torture/soak.ts";

/** Another run has another seed, and says which. */
const seed = Number(process.env.HOLDFAST_TEST_SEED ?? Math.floor(Math.random() * 2 ** 31));
console.log(`torture: HOLDFAST_TEST_SEED=${seed}`);

test("soak() finds no overlap, no lost update and nobody stuck, and everybody had the lock", async ({ dir }) => {
  const { rows, failures } = await soak({ seed, budget: 6_000, short: true, dir });
  for (const row of rows) console.log(row.join(" | "));
  assertEquals(failures, []);
  for (const kind of EVERYBODY) assert(rows[0][3].includes(`${kind} `), `${kind} never had it`);
  for (const row of rows) assert(Number(row[2]) > 20, row[0]);
}, { timeout: 300_000 });

for (const name of Object.keys(FAULTS)) {
  test(`attack() finds the deliberate fault: ${name}`, async ({ dir }) => {
    const result = await attack(name, true, seed, LIMIT, dir);
    console.log(`${name}: ${((result.found ?? Infinity) / 1000).toFixed(1)} s, ${first(result)}`);
    assert(result.overlaps.length > 0, String(first(result)));
  });

  test(`attack() finds nothing without the deliberate fault: ${name}`, async ({ dir }) => {
    const result = await attack(name, false, seed, 1_500, dir);
    assertEquals(first(result), undefined);
    assert(result.entered > 20);
  });
}

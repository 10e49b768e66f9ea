/** Every row of the README's table of guarantees has a machine that attacks it. */
import { assert, assertEquals } from "@std/assert";
import { existsSync, readFileSync } from "node:fs";
import { test } from "../support/harness.ts";
import { CLAIMS, claimsOf } from "../torture/claims.ts";
import { PARTS } from "../torture/parts.ts";

const here = (file: string) => new URL(`../../${file}`, import.meta.url);
const readme = readFileSync(here("README.md"), "utf8");

test("CLAIMS has every row of the README's guarantees, and none beside", () => {
  assert(claimsOf(readme).length > 10);
  assertEquals(CLAIMS.map(([claim]) => claim), claimsOf(readme));
});

test("claimsOf() finds a row that was added", () => {
  const more = readme.replace("| A signal keeps", "| A new promise | luck | none |\n| A signal keeps");
  assertEquals(claimsOf(more).filter((claim) => !CLAIMS.some(([known]) => known === claim)), ["A new promise"]);
});

test("CLAIMS names attackers that exist: a part of the torture, or a test", () => {
  for (const [claim, attackers] of CLAIMS) {
    assert(attackers.length > 0, claim);
    for (const attacker of attackers) {
      if (attacker.includes("/")) assert(existsSync(here(attacker)), attacker);
      else assert(PARTS[attacker], `${claim}: there is no part ${attacker}`);
    }
  }
});

/** util-linux's own test of flock(1), as Debian ships its source, run on `holdfast flock`. */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { mkdirSync } from "node:fs";
import process from "node:process";
import { compiled, FLOCKS, wrapper } from "../support/flocks.ts";
import { type Place, test, within } from "../support/harness.ts";
import { needs } from "../support/needs.ts";
import { utilLinuxTests } from "../support/tools.ts";

/** Runs the script, unchanged, on a command; what it printed. It writes only into the test's folder. */
async function suite({ dir, child }: Place, name: string, command: readonly string[]): Promise<string> {
  const script = utilLinuxTests();
  needs("pgrep"); // without it the script says SKIPPED
  const home = `${dir}/${name}`;
  mkdirSync(`${home}/tests/output`, { recursive: true });
  const NODE_COMPILE_CACHE = `${dir}/cache`; // Node starts in half the time
  const env = { ...process.env, NODE_COMPILE_CACHE, TS_CMD_FLOCK: wrapper(home, "flock", command) };
  // Before all other work of the machine, where that is allowed (see assertPasses). The builddir is not first, because
  // the script looks for a blank before it.
  const args = ["-n", "-15", "bash", script, "--show-diff", `--builddir=${home}`];
  const run = child("nice", args, { env, cwd: home });
  let output = "";
  run.process.stdout!.on("data", (text) => output += text); // `!`: it is a pipe
  await within(60_000, run.ended);
  return output + run.errors;
}

const SUBTESTS = ["non-block", "no-fork", "shared", "exclusive", "timeout", "time-check"];

/**
 * Asserts that it passes. The script gives a command one second to start another, and has three for four of them: on a
 * machine with much else to do flock(1) itself fails now and then. A lock that does not hold fails every time.
 */
async function assertPasses(place: Place, name: string, command: readonly string[]): Promise<void> {
  let output = "";
  for (let attempt = 1; attempt <= 8 && !output.includes("PASSED"); attempt++) {
    output = await suite(place, `${name}-${attempt}`, command);
  }
  for (const subtest of SUBTESTS) assertMatch(output, new RegExp(`: ${subtest} +\\.\\.\\. OK`), output);
  assertMatch(output, /OK \(all \d+ sub-tests PASSED\)/);
}

test("util-linux's test of flock passes on flock(1), and not on one that shares all", async (place) => {
  await assertPasses(place, "flock", FLOCKS.flock());
  const sharing = [...FLOCKS.flock(), "--shared"];
  let output = "";
  for (let attempt = 1; attempt <= 8 && !output.includes("misc/flock-non-block"); attempt++) {
    output = await suite(place, `wrong-${attempt}`, sharing);
    assertEquals(output.includes("PASSED"), false, output);
  }
  assertStringIncludes(output, "FAILED (misc/flock-non-block)");
});

for (const kind of ["compiled", "deno", "bun", "node26"] as const) {
  test(`util-linux's test of flock passes on holdfast flock in ${kind}`, async (place) => {
    await assertPasses(place, kind, kind === "compiled" ? compiled(place.dir) : FLOCKS[kind]());
  });
}

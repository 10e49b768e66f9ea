/** The README in the runtimes that the gate leaves out. */
import { test } from "../support/harness.ts";
import { readmeRuns } from "../support/readme.ts";

for (const runtime of ["deno", "bun"] as const) {
  test(`README.md: every block of code runs as it stands in ${runtime}, with the package installed`, (place) =>
    readmeRuns(place, runtime));
}

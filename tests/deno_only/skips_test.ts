/** A test that needs what is not there is skipped: by its name, with the package that has it, and counted as such. */
import { assertEquals } from "@std/assert";
import { test } from "../support/harness.ts";
import { RUNNERS, runTests } from "../support/runners.ts";
import { skipReport } from "../support/skips.ts";

const files = ["tests/fixtures/skipped.ts"];
const name = "one: it needs a tool (or not)";
const skip = { name, needs: "strace (apt-get install strace)", packages: ["strace"] };

for (const kind of RUNNERS) {
  test(`needs() in ${kind} skips a test whose tool is missing, which is neither passed nor failed`, async ({ dir }) => {
    const { passed, failed, failures, skips } = await runTests(kind, {
      files,
      env: { PATH: dir, NO_COLOR: "1", HOLDFAST_TEST_INSTALLED: "" },
    });
    assertEquals({ passed, failed, failures, skips }, { passed: 2, failed: 0, failures: [], skips: [skip] });
  });

  test(`needs() in ${kind} fails a test whose package is missing where all are said to be installed`, async ({ dir }) => {
    const env = { PATH: dir, NO_COLOR: "1", HOLDFAST_TEST_INSTALLED: "1" };
    const { passed, failed, failures, skips } = await runTests(kind, { files, env });
    assertEquals({ passed, failed, failures, skips }, { passed: 2, failed: 1, failures: [name], skips: [] });
  });

  test(`runTests() in ${kind} counts a failure beside a test that is skipped`, async ({ dir }) => {
    const env = { PATH: dir, NO_COLOR: "1", HOLDFAST_TEST_INSTALLED: "", HOLDFAST_FIXTURE_FAILS: "1" };
    const { passed, failed, skips } = await runTests(kind, { files, env });
    assertEquals({ passed, failed, skips }, { passed: 1, failed: 1, skips: [skip] });
  });
}

test("skipReport() names each test that was skipped, and in its last line how many, and how to run them too", () => {
  assertEquals(skipReport([]), []);
  const root = { name: "two", needs: "root", packages: [] };
  assertEquals(skipReport([skip, root, root]), [
    "root",
    "  two (2 times)",
    "strace (apt-get install strace)",
    `  ${name}`,
    "3 tests were skipped. To run them too: apt-get install strace; as root, on a machine that allows what else is named above",
  ]);
});

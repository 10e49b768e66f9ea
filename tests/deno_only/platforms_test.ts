/** What is written from the platform matrix, and how its runs are counted. */
import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "../support/harness.ts";
import { FILES, inReadme, markdown, readmeTable, readReport, type Report, withRun } from "../platforms/report.ts";
import { count, RUNNERS } from "../support/runners.ts";

test("REPORT.md of the platforms and README's table are what report.json gives", () => {
  const report = readReport();
  assertEquals(readFileSync(FILES.markdown, "utf8"), markdown(report), "deno task test:platforms --long --report");
  const readme = readFileSync(FILES.readme, "utf8");
  assertEquals(readme, inReadme(readme, readmeTable(report)), "deno task test:platforms --long --report");
});

const GROUPS = Object.fromEntries(
  ["one", "two"].map((name) => [name, { title: `Group ${name}`, platform: "Here, ", run: () => Promise.resolve([]) }]),
);
const found = { date: "2026-01-02", revision: "abc", versions: "deno 1", seconds: 90 };
const row = { place: "NFS v4, soft", runtime: "Deno", passed: 7, failed: 0 };

test("readmeTable() and markdown() say of a group that is not in the report that it was not run", () => {
  const report: Report = { one: [{ ...found, rows: [row] }] };
  assertMatch(readmeTable(report, GROUPS), /^\| Here, group two +\| not run +\|$/m);
  assertMatch(readmeTable(report, GROUPS), /^\| Here, NFS v4 +\| 7 passed: Deno +\|$/m);
  assertMatch(markdown(report, GROUPS), /## Group two\n\nNot run: /);
  assertMatch(markdown(report, GROUPS), /## Group one\n\n`--only one`: 2026-01-02, commit abc, 1.5 minutes; deno 1\./);
});

test("readmeTable() says where two may hold one lock", () => {
  const groups = { one: { ...GROUPS.one, unsafe: (place: string) => place === "NFS v4" } };
  const report: Report = { one: [{ ...found, rows: [row, { ...row, place: "NFS v3" }] }] };
  assertMatch(readmeTable(report, groups), /NFS v4 +\| 7 passed: Deno; two may hold one lock there, and are told so/);
  assertMatch(readmeTable(report, groups), /NFS v3 +\| 7 passed: Deno +\|/);
});

test("readmeTable() shows failures, and what was not run, and counts neither as passed", () => {
  const rows = [
    { ...row, failed: 2 },
    { ...row, place: "NFS v4, hard", runtime: "Bun, Deno", passed: 5, notRun: "one test, because" },
    { ...row, place: "xfs", passed: 0, notRun: "there is no mkfs.xfs here" },
  ];
  const report: Report = { one: [{ ...found, rows }] };
  const table = readmeTable(report, GROUPS);
  assertMatch(table, /^\| Here, NFS v4 +\| 12 passed, \*\*2 failed\*\*, some not run: Deno, Bun +\|$/m);
  assertMatch(table, /^\| Here, xfs +\| not run +\|$/m);
  assertStringIncludes(markdown(report, GROUPS), "there is no mkfs.xfs here");
});

test("withRun() keeps the places that were not run, in the run that they are from, and no place twice", () => {
  const [first, second] = [["tmpfs", "ext4"], ["ext4", "xfs"]].map((places, i) => ({
    ...found,
    revision: String(i),
    rows: places.map((place) => ({ ...row, place, passed: i + 1 })),
  }));
  const kept = { ...first, rows: [{ ...row, place: "tmpfs", passed: 1 }] };
  assertEquals(withRun([first], second, false), [kept, second]);
  assertEquals(withRun([kept, second], first, false), [{ ...second, rows: second.rows.slice(1) }, first]);
  assertEquals(withRun([first], second, true), [second]);
  assertEquals(withRun([], first, false), [first]);
});

test("inReadme() changes what is between the marks, and throws where they are missing", () => {
  const readme = readFileSync(FILES.readme, "utf8");
  const changed = inReadme(readme, "| another |");
  assertStringIncludes(changed, "\n\n| another |\n\n<!-- /platforms -->");
  assertEquals(inReadme(changed, readmeTable(readReport())), readme);
  assertThrows(() => inReadme("# nothing", "| a |"));
});

test("count() takes a run that ended badly, or said nothing that can be counted, for a failure", () => {
  const said = {
    deno: (passed: number, failed: number) => `${failed ? "FAILED" : "ok"} | ${passed} passed | ${failed} failed (1s)`,
    bun: (passed: number, failed: number) => ` ${passed} pass\n ${failed} fail\nRan`,
    node: (passed: number, failed: number) => `ℹ pass ${passed}\nℹ fail ${failed}\n`,
  };
  for (const kind of RUNNERS) {
    const of = (...args: Parameters<typeof count>) => {
      const { passed, failed, broken } = count(...args);
      return [passed, failed, broken !== undefined];
    };
    assertEquals(of(kind, said[kind](3, 0), 0), [3, 0, false]);
    assertEquals(of(kind, said[kind](3, 2), 1), [3, 2, false]);
    assertEquals(of(kind, said[kind](3, 0), 1), [3, 1, true], "it ended badly");
    assertEquals(of(kind, said[kind](0, 0), 0), [0, 1, true], "nothing was run");
    assertEquals(of(kind, "Segmentation fault", "SIGSEGV"), [0, 1, true]);
    assert(count(kind, "Segmentation fault", "SIGSEGV").failures[0].includes("SIGSEGV"));
  }
});

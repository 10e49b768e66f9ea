/** What the groups found, each when it was run last: report.json; and all that is written from it. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { release } from "node:os";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { deno, tool } from "../support/tools.ts";
import { table } from "../torture/report.ts";
import { type Entry, GROUPS } from "./groups.ts";
import type { Row } from "./row.ts";

const here = (file: string) => fileURLToPath(new URL(file, import.meta.url));
export const FILES = {
  report: here("report.json"),
  markdown: here("REPORT.md"),
  readme: here("../../README.md"),
} as const;

/** One run of a group. */
export interface Found {
  readonly date: string;
  readonly revision: string;
  readonly versions: string;
  readonly seconds: number;
  readonly rows: readonly Row[];
}

/** By the groups' names: the runs, if not all of its places were in one. */
export type Report = Readonly<Record<string, readonly Found[]>>;

export const readReport = (): Report => existsSync(FILES.report) ? JSON.parse(readFileSync(FILES.report, "utf8")) : {};

const run = (command: string, ...args: string[]) =>
  execFileSync(command, args, { cwd: here("."), encoding: "utf8" }).trim();

/** When, of what, and with what a group is run. */
export function circumstances(): Pick<Found, "date" | "revision" | "versions"> {
  const changed = run("git", "status", "--porcelain", "--", "../../src", "../../mod.ts") !== "";
  return {
    date: new Date().toISOString().slice(0, 10),
    revision: run("git", "rev-parse", "--short", "HEAD") + (changed ? ", changed" : ""),
    versions: `${/deno (\S+)/.exec(run(deno(), "--version"))?.[0]}, bun ${run(tool("bun"), "--version")}, ` +
      `node ${run(tool("node26"), "--version")} and ${run(tool("node20"), "--version")}; ` +
      `${process.platform} ${release()} ${process.arch}`,
  };
}

export const COLUMNS = ["place", "runtime", "passed", "failed", "not run, and why", "remarks"];

export const cells = (row: Row): string[] => {
  const run = row.passed + row.failed > 0;
  const numbers = run ? [row.passed, row.failed].map(String) : ["", ""];
  return [row.place, row.runtime, ...numbers, row.notRun ?? "", row.remark ?? ""];
};

/** REPORT.md. */
export function markdown(report: Report, groups: Readonly<Record<string, Entry>> = GROUPS): string {
  const sections = Object.entries(groups).map(([name, { title }]) => {
    const runs = report[name] ?? [];
    if (runs.length === 0) {
      return `## ${title}\n\nNot run: \`deno task test:platforms --long --report --only ${name}\` does it.`;
    }
    const parts = runs.map(({ date, revision, versions, seconds, rows }) => {
      const minutes = (seconds / 60).toFixed(1);
      return `\`--only ${name}\`: ${date}, commit ${revision}, ${minutes} minutes; ${versions}.\n\n` +
        table(COLUMNS, rows.map(cells));
    });
    return `## ${title}\n\n${parts.join("\n\n")}`;
  });
  // Formatted, its tables would have lines of hundreds of blanks.
  return `<!-- deno-fmt-ignore-file -->
<!-- Written by \`deno task test:platforms --long --report\` from report.json; never edited. -->

# Platforms

What became of the behaviour tests (tests/*_test.ts), or of checks of the group's own, in every place that a Linux
machine can make or emulate. In file systems those tests are left out that a file system has no part in (PLACELESS in
suite.ts). What was not run is not counted as passed. Not run at all: macOS, FreeBSD, Android, Windows itself, Alpine.

${sections.join("\n\n")}
`;
}

/** A place without its circumstances, which come after a comma: one line of the README. */
const family = ({ place }: Row) => place.split(", ")[0];

/** What a line of the README says of its rows: how many tests passed, in which runtimes. */
function summary(rows: readonly Row[]): string {
  const [passed, failed] = (["passed", "failed"] as const).map((what) => rows.reduce((sum, row) => sum + row[what], 0));
  if (passed + failed === 0) return "not run";
  const tried = rows.filter((row) => row.passed + row.failed > 0).flatMap(({ runtime }) => runtime.split(", "));
  const words = [`${passed} passed`, ...(failed > 0 ? [`**${failed} failed**`] : [])];
  if (rows.some(({ notRun }) => notRun !== undefined)) words.push("some not run");
  return `${words.join(", ")}: ${[...new Set(tried)].join(", ")}`;
}

/** The README's table. */
export function readmeTable(report: Report, groups: Readonly<Record<string, Entry>> = GROUPS): string {
  const rows = Object.entries(groups).flatMap(([name, { title, platform, unsafe }]) => {
    const found = (report[name] ?? []).flatMap(({ rows }) => rows);
    if (found.length === 0) return [[platform + title[0].toLowerCase() + title.slice(1), "not run"]];
    return [...new Set(found.map(family))].map((each) => [
      `${platform}${each}`,
      summary(found.filter((row) => family(row) === each)) +
      (unsafe?.(each) ? "; two may hold one lock there, and are told so" : ""),
    ]);
  });
  return table(["platform", ""], [...ALWAYS, ...rows, ...NEVER]);
}

/** What the gate itself runs. */
const ALWAYS = [["Linux x86-64", "tested: Deno 2.9.6, Bun 1.4.5, Node 26.12.1 and 20.20.2"]];
/** What no group runs. */
const NEVER = [
  ["macOS, FreeBSD, Android", "names and numbers are from their headers; not run"],
];

const MARKS = [
  "<!-- platforms: written by deno task test:platforms --long --report -->",
  "<!-- /platforms -->",
] as const;

/** The README with this table in place of the one that it has. */
export function inReadme(readme: string, table: string): string {
  const [from, to] = MARKS.map((mark) => readme.indexOf(mark));
  if (from < 0 || to < from) throw new Error(`README.md has no ${MARKS.join(" … ")}`);
  return `${readme.slice(0, from)}${MARKS[0]}\n\n${table}\n\n${readme.slice(to)}`;
}

/** A group's runs with one more; `whole`: of all its places. Of a place and runtime only the last run counts. */
export function withRun(runs: readonly Found[], run: Found, whole: boolean): Found[] {
  const name = ({ place, runtime }: Row) => `${place}\n${runtime}`;
  const again = new Set(run.rows.map(name));
  const others = runs.map((each) => ({ ...each, rows: each.rows.filter((row) => !again.has(name(row))) }));
  return [...whole ? [] : others.filter(({ rows }) => rows.length > 0), run];
}

/** Writes all that is written from a report. */
export function writeReport(report: Report): void {
  writeFileSync(FILES.report, `${JSON.stringify(report, null, 2)}\n`);
  writeFileSync(FILES.markdown, markdown(report));
  writeFileSync(FILES.readme, inReadme(readFileSync(FILES.readme, "utf8"), readmeTable(report)));
}

/** README.md of this folder: what was found, and with what; generated whole. */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { deno, tool } from "../tests/support/tools.ts";
import { numbered, why } from "./calls.ts";
import { candidates, MARGIN } from "./gate.ts";
import type { Section } from "./part.ts";
import { versions } from "./peers.ts";
import type { Recorded } from "./record.ts";
import { summary, writeSummary } from "./summary.ts";
import { svg } from "./svg.ts";
import { merged, remarks, times } from "./table.ts";

const here = (file: string) => fileURLToPath(new URL(file, import.meta.url));
const run = (command: string, ...args: string[]) => execFileSync(command, args, { encoding: "utf8" }).trim();

/** A table in Markdown; a bar in a cell would end it. */
export function markdown(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(head), `|${head.map(() => "---").join("|")}|`, ...rows.map(line)].join("\n");
}

/** When, where and with what. */
function circumstances(): string[] {
  const [load] = readFileSync("/proc/loadavg", "utf8").split(" ");
  return [
    `${new Date().toISOString().slice(0, 10)}, commit ${run("git", "-C", here("."), "rev-parse", "--short", "HEAD")}.`,
    `${/deno \S+/.exec(run(deno(), "--version"))?.[0]}, bun ${run(tool("bun"), "--version")}, node ${
      run(tool("node26"), "--version")
    }.`,
    `${run("uname", "-srm")}, ${navigator.hardwareConcurrency} cores, load ${load} at the end; ` +
    `files on ${run("df", "--output=fstype", process.env.HOLDFAST_TEST_DIR ?? tmpdir()).split("\n")[1]}.`,
    `Peers: ${versions().filter(Boolean).join(", ")}.`,
  ];
}

/** The calls of each runtime, beside each other. */
function callsTable({ calls }: Recorded): string {
  const blocks = Object.entries(calls).map(([runtime, forms]) => {
    const [first, ...others] = Object.entries(forms);
    const same = others.filter(([, each]) => each.join() === first[1].join()).map(([name]) => name);
    const different = others.filter(([, each]) => each.join() !== first[1].join());
    return [[runtime, [first[0], ...same], first[1]], ...different.map(([name, each]) => [runtime, [name], each])] as [
      string,
      string[],
      string[],
    ][]; // the cast: a literal of arrays is no tuple
  }).flat();
  const groups = new Map<string, { who: string[]; calls: readonly string[] }>();
  for (const [runtime, forms, each] of blocks) {
    const group = groups.get(each.join()) ?? { who: [], calls: each };
    group.who.push(`${runtime} (${forms.join(", ")})`);
    groups.set(each.join(), group);
  }
  return [...groups.values()].map(({ who, calls: each }) =>
    [
      `### ${each.length} calls: ${who.join("; ")}`,
      "",
      markdown(
        ["", "call", "what for"],
        numbered(each).map((
          call,
          i,
        ) => [String(i + 1), `\`${each[i]}\``, why(call) ?? "**not explained in calls.ts**"]),
      ),
    ].join("\n")
  ).join("\n\n");
}

function spreadTable({ spread }: Recorded): string {
  if (!spread) return "Not taken yet: `deno task bench:check --runs 10` does it.";
  const { gate, unstable } = candidates(spread);
  const rows = Object.entries(spread.of).map(([key, [least, middle, most]]) => [
    key,
    ...[least, middle, most].map((value) => value.toFixed(2)),
    `${(most / least).toFixed(2)} ×`,
    gate.includes(key) ? "yes" : "no",
  ]);
  return `The ratio of the quick tenth of ours to the quick tenth of the floor's is taken three times, and the least of ` +
    `the three is compared with the middle one recorded here: more than ${MARGIN} × of it is slower, and bench:check ends with 1 and names it. Only ratios whose largest ` +
    `was less than ${MARGIN} times their smallest over ${spread.runs} runs (load ${spread.load}) are compared: ` +
    `${gate.length} of ${gate.length + unstable.length}.\n\n` +
    markdown(["ratio", "least", "middle", "most", "most / least", "compared"], rows);
}

/** Writes README.md and bench.svg, and the few figures in the package's README. */
export function report(sections: ReadonlyMap<number, Section>, record: Recorded, quick: boolean): void {
  const short = summary(sections, record);
  const verdicts = [...sections.values()].flatMap(({ verdicts }) => verdicts);
  const rows = [...sections].flatMap(([number, section]) =>
    merged(section.rows).map((row) => {
      const bold = (cell: string) => row.ours && cell ? `**${cell}**` : cell;
      return [
        String(number),
        bold(row.who),
        row.what,
        bold(times(row.ratio)),
        times(row.ratio99),
        row.to,
        remarks(row),
      ];
    })
  );
  const notes = [...sections].flatMap(([number, { title, notes }]) => [
    `- ${number}. ${title}. ${notes.join(" ")}`,
  ]);
  const text = `<!-- deno-fmt-ignore-file -->
<!-- Written by \`deno task bench\`; never edited. -->

# Benchmark

\`deno task bench\` runs ours and every peer on the same work in one go, and writes this file, [bench.svg](bench.svg) and
[record.json](record.json). A ratio is that of two figures of the same run, taken in turns; absolute figures say little on
a machine that is shared.

${quick ? "**This was a quick run, to see that everything works: its figures mean little.**\n" : ""}
${circumstances().join("\n")}

## In short

${short.join("\n")}

![Ratios as bars](bench.svg)

## What was asked for

${markdown(["", "found", ""], verdicts.map(({ claim, found, met }) => [claim, found, met ? "met" : "**NOT met**"]))}

## The table

${markdown(["part", "who", "what", "ratio", "of the p99", "to", "figures"], rows)}

${notes.join("\n")}

## System calls

Of one acquisition and its release, in order, by strace; P is the lock file. bench/floor.c makes the same as ours in Bun,
and \`deno task bench\` and the tests fail where it does not.

${callsTable(record)}

## What \`deno task bench:check\` compares

${spreadTable(record)}
`;
  writeFileSync(here("README.md"), text);
  writeFileSync(here("bench.svg"), svg(sections));
  writeSummary(short);
}

/** The few figures that the README of the package has, written into it between two marks. */
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { deno } from "../tests/support/tools.ts";
import { short } from "./numbers.ts";
import type { Row, Section } from "./part.ts";
import type { Recorded } from "./record.ts";

const readme = fileURLToPath(new URL("../README.md", import.meta.url));
const MARKS = ["<!-- speed: written by deno task bench -->", "<!-- /speed -->"];
const MAIN = ["Bun", "Deno", "Node 26"];

/** A list of Markdown; what was not measured is not in it. */
export function summary(sections: ReadonlyMap<number, Section>, { calls, size }: Recorded): string[] {
  const rows = [...sections.values()].flatMap((section) => section.rows);
  const find = (key: string) => rows.find((row) => row.key === key);
  const each = (key: (runtime: string) => string, say: (row: Row) => string | undefined) =>
    MAIN.flatMap((runtime) => {
      const row = find(key(runtime));
      const said = row && say(row);
      return said === undefined ? [] : [`${said} in ${runtime}`];
    }).join(", ");
  const ratio = ({ ratio }: Row) => ratio === undefined ? undefined : `${short(ratio)} ×`;
  const p50 = ({ figure }: Row) => /p50 ([^,]+)/.exec(figure ?? "")?.[1];
  const made = Object.values(calls.Bun ?? {})[0]?.length;
  const taken = each((runtime) => `1 ${runtime}: holdfast tryAcquire-again`, ratio);
  const refused = each((runtime) => `2 ${runtime}: holdfast refused-new`, ratio);
  const handed = each((runtime) => `3 ${runtime}: holdfast release`, p50);
  return [
    taken && `\`tryAcquire()\` and \`release()\`, the record written, beside a C program that makes the same ` +
      `${made} system calls: ${taken}.`,
    refused && `A try that is refused, beside an open, a failing flock(2) and a close in C: ${refused}.`,
    handed && `A waiter in another process has the lock ${handed} after the release (median).`,
    `${(size / 1000).toFixed(1)} kB minified and gzipped, command line not counted.`,
  ].filter((line) => line !== "").map((line) => `- ${line}`);
}

/** Writes them into README.md, which must have the marks. */
export function writeSummary(lines: readonly string[]): void {
  const text = readFileSync(readme, "utf8");
  const [from, to] = MARKS.map((mark) => text.indexOf(mark));
  if (from < 0 || to < from) throw new Error(`README.md has no ${MARKS.join(" … ")}`);
  writeFileSync(readme, `${text.slice(0, from)}${MARKS[0]}\n\n${lines.join("\n")}\n\n${text.slice(to)}`);
  const { status } = spawnSync(deno(), ["fmt", "--quiet", readme]);
  if (status !== 0) throw new Error("deno fmt README.md failed");
}

/** What came of the torture, in Markdown that can be read as it is. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import process from "node:process";
import { command } from "../support/needs.ts";
import { deno, tool } from "../support/tools.ts";
import type { Section } from "./part.ts";

/** A table whose columns stand one below the other. */
export function table(columns: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = [columns, ...rows].map((row) => row.map((cell) => cell.replaceAll("|", "\\|").replaceAll("\n", " ")));
  const widths = columns.map((_, i) => Math.max(3, ...cells.map((row) => (row[i] ?? "").length)));
  const line = (row: readonly string[]) => `| ${widths.map((width, i) => (row[i] ?? "").padEnd(width)).join(" | ")} |`;
  return [line(cells[0]), line(widths.map((width) => "-".repeat(width))), ...cells.slice(1).map(line)].join("\n");
}

/** A part's heading, what it says, and its failures. */
export function write({ title, notes, columns, rows, failures }: Section): string {
  return [
    `## ${title}`,
    ...notes,
    ...(rows.length > 0 ? [table(columns, rows)] : []),
    failures.length === 0 ? "Nothing is wrong." : failures.map((each) => `- **WRONG** ${each}`).join("\n"),
  ].join("\n\n");
}

const run = (command: string, ...args: string[]) => execFileSync(command, args, { encoding: "utf8" }).trim();

/** When, where and with what. `source`: what tells this state of src/ from another. */
export function circumstances(seed: number, source: string): string {
  const memory = /MemTotal:\s+(\d+)/.exec(readFileSync("/proc/meminfo", "utf8"))?.[1];
  return [
    `- Date: ${
      new Date().toISOString()
    }; seed ${seed} (\`--seed ${seed}\` makes the same choices; the order of events ` +
    "stays the kernel's)",
    `- Source: commit ${run("git", "rev-parse", "--short", "HEAD")}, src/ has sha256 ${source}…`,
    `- ${/deno \S+/.exec(run(deno(), "--version"))?.[0]}, bun ${run(tool("bun"), "--version")}, ` +
    `node ${run(tool("node26"), "--version")} and ${run(tool("node20"), "--version")}, ` +
    `${run(command("python3"), "--version")}, ${run(command("flock"), "--version")}`,
    `- ${run("uname", "-srm")}, ${navigator.hardwareConcurrency} cores, ${Math.round(Number(memory) / 2 ** 20)} GiB, ` +
    `load ${readFileSync("/proc/loadavg", "utf8").split(" ")[0]} at the start; ` +
    `files on ${run("df", "--output=fstype", process.env.HOLDFAST_TEST_DIR ?? tmpdir()).split("\n")[1]}`,
  ].join("\n");
}

/** What was found, as one table; and what it was found with. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import process from "node:process";
import { deno, tool } from "../../support/tools.ts";
import type { GarbageResult } from "./garbage.ts";
import type { LoopResult, MixedResult } from "./long.ts";
import { PEERS } from "./modules.ts";
import type { RoundsResult } from "./rounds.ts";

/** A line of the table. `good` is undefined where nothing was demanded. */
export interface Row {
  readonly what: string;
  readonly done: string;
  readonly found: string;
  readonly good?: boolean;
}

const list = (counts: Record<string, number>) => Object.entries(counts).map(([name, n]) => `${name} ${n}`).join(", ");

/** `expected`: of ours nothing must be found; of a mutant, or a naive lock, two inside must be; of a peer nothing is demanded. */
export function roundsRow(result: RoundsResult, expected: "nothing" | "doubles" | "anything"): Row {
  const { rounds, doubles, stuck, shutOut, failures } = result;
  return {
    what: result.name,
    done: `${rounds} rounds in ${result.seconds.toFixed()} s; ${result.entered} times inside; ${result.kills} killed` +
      (expected === "nothing"
        ? ` (${result.killedHolding} holding, ${result.killedInTakeover} in a takeover, ${result.killedPublishing} ` +
          `publishing), ${result.stops} stopped for a while; ${result.takeovers} takeovers; old files: ${
            list(result.olds)
          }; in ${result.links} rounds dead takeover links too`
        : `, ${result.stops} stopped for a while`),
    found: `${doubles} rounds with two inside, ${stuck} after which nobody could acquire, ${shutOut} contenders ` +
      `never in, ${failures.length} ${expected === "nothing" ? "failures" : "failed calls"}`,
    good: {
      nothing: doubles + stuck + shutOut + failures.length === 0 && rounds > 0,
      doubles: doubles > 0,
      anything: undefined,
    }[expected],
  };
}

export function mixedRow(result: MixedResult, seconds: number): Row {
  const sum = Object.values(result.times).reduce((a, b) => a + b, 0);
  return {
    what: "mixed: 4 kernel, 4 PID file",
    done: `${seconds} s; ${list(result.times)}; longest wait ${result.longest.toFixed()} ms`,
    found: `counter ${result.counter} of ${sum}, ${result.doubles} overlaps, ${result.stuck.length} stuck`,
    good: result.counter === sum && sum > 0 && result.doubles + result.stuck.length === 0,
  };
}

export function garbageRow(result: GarbageResult): Row {
  const { written, killed, left, failures } = result;
  return {
    what: "garbage",
    done: `${written + killed} takeovers in ${result.seconds.toFixed()} s: ${written} from a written record of a ` +
      `reaped process, ${killed} from a worker killed while holding; ${result.kills} workers killed in all ` +
      `(${result.inTakeover} left a takeover link, ${result.publishing} a temporary file); ` +
      `at most ${result.most} files at once`,
    found: `left: ${left.join(", ") || "nothing"}; ${result.doubles} overlaps, ${failures.length} failures`,
    good: left.every((name) => name === "lock" || name === "lock.pid") && result.doubles + failures.length === 0,
  };
}

export function loopRow(backend: string, result: LoopResult, seconds: number): Row {
  return {
    what: `tight loop, ${backend}`,
    done: `${seconds} s; ${list(result.times)}`,
    found: `no exception; ${result.stuck.length} stuck; left: ${result.left.join(", ") || "nothing"}`,
    good: result.stuck.length === 0,
  };
}

/** The table, in Markdown that can be read as it is. */
export function table(rows: readonly Row[]): string {
  const cells = [
    ["", "what was run", "what was found", "as it must be"],
    ...rows.map((
      { what, done, found, good },
    ) => [what, done, found, good === undefined ? "" : good ? "yes" : "**NO**"]),
  ];
  const lines = cells.map((each) => `| ${each.join(" | ")} |`);
  return [lines[0], "|---|---|---|---|", ...lines.slice(1)].join("\n");
}

const run = (command: string, ...args: string[]) => execFileSync(command, args, { encoding: "utf8" }).trim();

/** When, where and with what. */
export function circumstances(seed: number, source: string): string {
  const memory = /MemTotal:\s+(\d+)/.exec(readFileSync("/proc/meminfo", "utf8"))?.[1];
  return [
    `Date: ${
      new Date().toISOString()
    }. Seed: ${seed} (\`--seed ${seed}\` plans the same rounds; the scheduler is the kernel's).`,
    `Source: commit ${run("git", "rev-parse", "--short", "HEAD")}, src/ has sha256 ${source}…`,
    `${/deno \S+/.exec(run(deno(), "--version"))?.[0]}, bun ${run(tool("bun"), "--version")}, ` +
    `node ${run(tool("node26"), "--version")} and ${run(tool("node20"), "--version")}; ` +
    Object.entries(PEERS).map(([name, [version]]) => `${name} ${version}`).join(", ") + ".",
    `${run("uname", "-sr")}, ${navigator.hardwareConcurrency} cores, ${Math.round(Number(memory) / 2 ** 20)} GiB, ` +
    `load ${readFileSync("/proc/loadavg", "utf8").split(" ")[0]} at the start; ` +
    `files on ${run("df", "--output=fstype", process.env.HOLDFAST_TEST_DIR ?? tmpdir()).split("\n")[1]}.`,
  ].join("\n");
}

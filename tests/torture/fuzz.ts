/** Part 4: lock files and PID files with content that no program should write, in three runtimes, against docs/protocol.md. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { deadOwners } from "./contention/dead.ts";
import { copySource, type Edit } from "../support/edits.ts";
import { Child } from "../support/harness.ts";
import { deno, tool } from "../support/tools.ts";
import type { World } from "./fuzz/cases.ts";
import type { Order, Result } from "./fuzz/worker.ts";
import type { Circumstances, Part, Section } from "./part.ts";

const worker = fileURLToPath(new URL("fuzz/worker.ts", import.meta.url));

/** How each runtime runs the worker. */
export const RUNTIMES = {
  deno: () => [deno(), "run", "-A", "--no-check", "--quiet"],
  bun: () => [tool("bun"), "run"],
  node26: () => [tool("node26"), "--disable-warning=ExperimentalWarning"],
} as const;
export type Runtime = keyof typeof RUNTIMES;

/** How much. */
export interface Amount {
  /** Cases in all; each goes through parse() in every runtime, and through the file system in one of them. */
  readonly cases: number;
  /** Records that go through encode() and parse(), in each runtime. */
  readonly records: number;
  readonly runtimes?: readonly Runtime[];
  readonly edits?: readonly Edit[];
  /** Only parse(), encode() and what a holder is in words. */
  readonly noDisk?: boolean;
  /** So many failures in a runtime, and it ends; 5 unless given. */
  readonly enough?: number;
}

/** A case that is not over after so many milliseconds never will be. */
const STUCK = 120_000;

/** What came of it. */
export interface Fuzzed {
  readonly results: ReadonlyMap<Runtime, Result>;
  readonly failures: readonly string[];
  readonly seconds: number;
}

/** Runs it. */
export async function runFuzz({ seed, dir }: Pick<Circumstances, "seed" | "dir">, amount: Amount): Promise<Fuzzed> {
  const { cases, records, edits, noDisk, enough = 5, runtimes = ["deno", "bun", "node26"] } = amount;
  const modules = copySource(join(dir, "modules"), edits);
  const began = performance.now();
  const children: Child[] = [];
  const start = (command: string, args: readonly string[]) => {
    const child = new Child(command, args, { env: { ...process.env, NO_COLOR: "1" } });
    children.push(child);
    return child;
  };
  const results = new Map<Runtime, Result>();
  const failures: string[] = [];
  try {
    const world = await people(start);
    // One case alone: HOLDFAST_TORTURE_CASE={"seed":1,"case":2}, as a failure has said.
    const only: { seed: number; case: number } | undefined = JSON.parse(process.env.HOLDFAST_TORTURE_CASE ?? "null") ??
      undefined;
    await Promise.all(runtimes.map(async (runtime, first) => {
      const home = join(dir, runtime);
      const heldPath = join(home, "held", "h.lock");
      mkdirSync(join(home, "held"), { recursive: true });
      const holder = start("flock", [
        ..."--nonblock --no-fork".split(" "),
        heldPath,
        ...["sh", "-c", "echo held; exec cat"],
      ]);
      if (await holder.line() !== "held") throw new Error(`nobody holds ${heldPath}: ${holder.errors}`);
      const share = only
        ? { seed: only.seed, from: only.case, to: only.case + 1, first: 0, step: 1 }
        : { seed, from: 0, to: cases, first: noDisk ? -1 : first, step: runtimes.length };
      const order: Order = { ...share, enough, modules, dir: home, records, heldPath, world };
      const file = join(home, "order.json");
      writeFileSync(file, JSON.stringify(order));
      const [command, ...args] = [...RUNTIMES[runtime](), worker, file];
      const child = start(command, args);
      const progress = () => readFileSync(join(home, "case"), { encoding: "utf8", flag: "a+" }).trim();
      let seen = "", since = performance.now();
      const timer = setInterval(() => {
        if (seen !== progress()) [seen, since] = [progress(), performance.now()];
        else if (performance.now() - since > STUCK) child.kill();
      }, 1000);
      try {
        const result: Result = JSON.parse(await child.line());
        results.set(runtime, result);
        failures.push(...result.failures.map((each) => `fuzz, ${runtime}: ${each}`));
        const { code, signal } = await child.ended;
        if (code !== 0) failures.push(`fuzz, ${runtime}: the worker ended with ${code ?? signal}: ${child.errors}`);
      } catch {
        const { code, signal } = await child.ended;
        failures.push(
          `fuzz, ${runtime}: the worker ended with ${code ?? signal} at case ${
            progress().split(" ")[0]
          } of seed ${seed} ` +
            `(SIGKILL: that took ${STUCK} ms): ${child.errors}`,
        );
      } finally {
        clearInterval(timer);
      }
    }));
  } finally {
    for (const child of children) await child.kill();
  }
  const [[one, first], ...others] = [...results, ["nobody", undefined] as const];
  for (const [runtime, result] of others) {
    if (!first || !result) continue;
    const at = result.digests.findIndex((digest, i) => digest !== first.digests[i]);
    if (at < 0) continue;
    failures.push(
      `fuzz: parse() says something else in ${runtime} than in ${one}, in cases ${at * 1000} to ${
        at * 1000 + 999
      } of seed ${seed}`,
    );
  }
  return { results, failures, seconds: (performance.now() - began) / 1000 };
}

/** A living process, a dead one, a zombie, and a thread. */
async function people(start: (command: string, args: readonly string[]) => Child): Promise<World> {
  const [{ pid, record }] = await deadOwners(1);
  const live = start("cat", []);
  // It ends after its parent has become cat(1): sh would reap it.
  const script = '{ while [ "$(cat /proc/$$/comm)" != cat ]; do :; done; } & echo $!; exec cat';
  const zombie = Number(await start("sh", ["-c", script]).line());
  while (startOf(zombie).state !== "Z") await new Promise((resolve) => setTimeout(resolve, 5));
  const thread = readdirSync("/proc/self/task").map(Number).find((id) => id !== process.pid) ?? 0;
  const owner = (pid: number) => ({ pid, startTime: startOf(pid).startTime });
  return {
    template: record,
    live: owner(live.pid),
    dead: { pid, startTime: String(record.startTime) },
    own: owner(process.pid),
    zombie: owner(zombie),
    thread: owner(thread),
  };
}

/** By other code than ours. */
function startOf(pid: number): { state: string; startTime: string } {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  const fields = stat.slice(stat.lastIndexOf(") ") + 2).split(" ");
  return { state: fields[0], startTime: fields[19] };
}

/** The part. */
export const fuzz: Part = async ({ seed, short, dir }) => {
  const amount = short ? { cases: 900, records: 300 } : { cases: 100_000, records: 20_000 };
  return section(seed, amount, await runFuzz({ seed, dir }, amount));
};

function section(seed: number, { cases }: Amount, { results, failures, seconds }: Fuzzed): Section {
  const rows = [...results].map(([runtime, { parsed, onDisk, records, counts, longest, growth, cpu }]) => [
    runtime,
    `${parsed}`,
    `${onDisk}`,
    `${records}`,
    cpu.toFixed(1),
    list(counts),
    Object.entries(longest).map(([name, ms]) => `${name} ${ms.toFixed(1)}`).join(", "),
    Object.entries(growth).map(([name, times]) => `${name} ${times.toFixed(1)}`).join(", "),
  ]);
  return {
    title: "Fuzz: files that nobody should have written",
    notes: [
      `${cases} files of seed ${seed}, made of real records and bare PIDs, in ${seconds.toFixed()} s. Each goes through ` +
      "parse() in every runtime, which must say what docs/protocol.md says, by a second reading of it that shares no code, " +
      "and the same in all of them; and in one of the runtimes through inspect(), tryAcquire() and acquire() with both " +
      "back ends, as a lock file, a PID file or the link of a takeover.",
      "Demanded: no error but a LockError; a living owner is never robbed; foreign content stays to the byte; inspect() " +
      "and refused tries change nothing; a refusal says why; a damaged PID file is held while it is younger than 2 s and " +
      "taken over after 4 s; no call takes 1 s; ten times the input does not take 100 times as long.",
      "Not tried: reading while another process writes (the soak does that), file systems without hard links.",
    ],
    columns: [
      "runtime",
      "parse()",
      "on disk",
      "round trips",
      "CPU, s",
      "kinds",
      "longest, ms",
      "time of 10 times the input",
    ],
    rows,
    failures,
  };
}

const list = (counts: Record<string, number>) =>
  Object.entries(counts).sort().map(([name, n]) => `${name} ${n}`).join(", ");

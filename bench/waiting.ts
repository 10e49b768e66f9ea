/**
 * `deno task bench:waiting`: what happens between "held" and "mine", in Deno,
 * Bun and Node, beside processes that wait in the kernel, in one run.
 *
 *   waiting.ts [--rounds N]
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { Child } from "../tests/harness.ts";
import { deno, tool } from "../tests/tools.ts";

const { values } = parseArgs({ options: { rounds: { type: "string", default: "100" } } });
const rounds = Number(values.rounds);
const here = (file: string) => fileURLToPath(new URL(file, import.meta.url));
const module = pathToFileURL(here("../mod.ts")).href;
const folder = mkdtempSync(join(tmpdir(), "holdfast-bench-"));

const ours = (command: string, ...flags: string[]) => (path: string) =>
  new Child(command, [...flags, here("waiter.mjs"), module, path]);

/** Who waits; the peers wait in the kernel. */
const KINDS: Record<string, (path: string) => Child> = {
  Deno: ours(deno(), "run", "-A", "--quiet"),
  Bun: ours(tool("bun")),
  Node: ours(tool("node26"), "--disable-warning=ExperimentalWarning"),
  "flock(1)": (path) => new Child("bash", [here("waiter.sh"), path]),
  "Python, fcntl.flock": (path) => new Child("python3", [here("waiter.py"), path]),
};

async function start(make: (path: string) => Child, path: string): Promise<Child> {
  const child = make(path);
  await child.line();
  return child;
}

/** Sends a command and parses the answer. */
async function ask<T>(child: Child, command: string): Promise<T> {
  child.write(`${command}\n`);
  return JSON.parse(await child.line());
}

const quantile = (sorted: number[], part: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
const milliseconds = (value: number) => value.toFixed(2);

interface HandOver {
  readonly p50: number;
  readonly p99: number;
}

/** From the release, or the kill, of a holder to the grant of a waiter in another process. */
async function handOver(
  make: (path: string) => Child,
  times: number,
  waited: () => number,
  kill: boolean,
): Promise<HandOver> {
  const path = join(folder, "hand-over.lock");
  let holder = await start(make, path);
  const waiter = await start(make, path);
  const took: number[] = [];
  for (let i = 0; i < times; i++) {
    await ask(holder, "acquire");
    waiter.write("acquire\n");
    await sleep(waited());
    let from = performance.timeOrigin + performance.now();
    if (kill) process.kill(holder.pid, "SIGKILL");
    else from = await ask<number>(holder, "release");
    took.push(JSON.parse(await waiter.line()) - from);
    await ask(waiter, "release");
    if (kill) {
      await holder.ended;
      holder = await start(make, path);
    }
  }
  for (const child of [holder, waiter]) await child.kill();
  took.sort((a, b) => a - b);
  return { p50: quantile(took, 0.5), p99: quantile(took, 0.99) };
}

/** How much of a core a waiter takes in so many milliseconds of waiting, in per cent. */
async function cost(make: (path: string) => Child, span: number): Promise<number> {
  const path = join(folder, "cost.lock");
  const holder = await start(make, path);
  const waiter = await start(make, path);
  await ask(holder, "acquire");
  const total = ({ user, system }: NodeJS.CpuUsage) => (user + system) / 1000;
  const before = total(await ask(waiter, "wait 0"));
  const after = total(await ask(waiter, `wait ${span}`));
  for (const child of [holder, waiter]) await child.kill();
  return (after - before) / span * 100;
}

/** 8 processes fight for one lock, each holding it for 1 ms. */
async function fight(make: (path: string) => Child, span: number) {
  const path = join(folder, "fight.lock");
  const fighters = await Promise.all(Array.from({ length: 8 }, () => start(make, path)));
  const from = Date.now() + 100;
  const results = await Promise.all(
    fighters.map((each) => ask<{ times: number; held: number }>(each, `fight ${from} ${from + span}`)),
  );
  for (const child of fighters) await child.kill();
  const times = results.map((result) => result.times);
  return {
    least: Math.min(...times),
    most: Math.max(...times),
    held: results.reduce((sum, { held }) => sum + held, 0) / span * 100,
  };
}

const table: Record<string, Record<string, string>> = {};
const short = () => 20 + Math.random() * 980;
const long = () => 1500 + Math.random() * 1500;
const peer: Record<string, HandOver> = {};
const show = (what: string, { p50, p99 }: HandOver, floor: HandOver | undefined) => ({
  [`${what} p50`]: milliseconds(p50) + (floor ? ` (${(p50 / floor.p50).toFixed(1)} x)` : ""),
  [`${what} p99`]: milliseconds(p99),
});

try {
  for (const [name, make] of Object.entries(KINDS).reverse()) {
    const released = await handOver(make, rounds, short, false);
    const later = await handOver(make, Math.ceil(rounds / 10), long, false);
    const killed = await handOver(make, Math.ceil(rounds / 3), () => 100, true);
    peer.released ??= released;
    peer.later ??= later;
    peer.killed ??= killed;
    table[name] = {
      ...show("release", released, peer.released),
      ...show("release, after 1.5 to 3 s", later, peer.later),
      ...show("kill -9", killed, peer.killed),
    };
    if (!["Deno", "Bun", "Node"].includes(name)) continue;
    for (const seconds of [1, 20]) {
      table[name][`core, waiting ${seconds} s`] = `${(await cost(make, seconds * 1000)).toFixed(2)} %`;
    }
    const { least, most, held } = await fight(make, 10_000);
    table[name]["8 fight: least/most"] = `${least}/${most} = ${(least / most).toFixed(2)}`;
    table[name]["8 fight: held"] = `${held.toFixed(0)} %`;
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
for (const [name, row] of Object.entries(table)) {
  console.log(`\n${name}`);
  for (const [what, value] of Object.entries(row)) console.log(`  ${what.padEnd(32)} ${value}`);
}
console.log("\nmilliseconds; (n x) is the ratio to Python's fcntl.flock, which waits in the kernel, in the same run");

/**
 * What is tried on Wine: the behaviour tests in deno.exe with FFI, in deno.exe
 * without, and in bun.exe; all of them against each other; kills; Ctrl-C.
 */
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { clearTimeout, setTimeout as later } from "node:timers";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Row } from "../platforms/row.ts";
import { count } from "../support/runners.ts";
import { type Way, WAYS, windowsPath, type Wine } from "./wine.ts";

/** How much is tried. */
export interface Extent {
  /** Increments of each of six processes. */
  readonly times: number;
  /** Holders that are killed. */
  readonly kills: number;
}

/** How soon, in milliseconds, the next must have the lock of a holder that was killed. */
const FREE_WITHIN = 1_000;
/** Minutes, for six processes on a machine that is busy with other things. */
const PATIENCE = 30;

const here = (file: string) => fileURLToPath(new URL(file, import.meta.url));
const ways = Object.keys(WAYS) as Way[]; // the keys are just those
const [FFI, PLAIN, BUN] = ways;

const output = (child: ChildProcess): Promise<{ text: string; code: number | null }> => {
  let text = "";
  for (const stream of [child.stdout, child.stderr]) stream?.setEncoding("utf8").on("data", (part) => text += part);
  child.stdin?.end();
  return new Promise((resolve) => child.on("close", (code) => resolve({ text, code })));
};

/** The behaviour tests, in one way. */
async function behaviour(wine: Wine, dir: string, way: Way): Promise<Row> {
  const child = wine.spawn(way, dir, here("behaviour_test.ts"), [], "test");
  const timer = later(() => child.kill("SIGKILL"), 240_000);
  const { text, code } = await output(child);
  clearTimeout(timer);
  // Wine's exit codes are not to be relied on: 0 stands for whatever it was.
  const { passed, failed, left: skipped, broken } = count(WAYS[way].runtime, text, 0);
  if (failed > 0) console.log(text);
  const remark = broken === undefined ? undefined : `its tests could not be counted; it ended with ${code}`;
  const notRun = skipped > 0
    ? `${skipped} of a long path, because Deno itself cannot open one here (os error 234)`
    : undefined;
  return { place: wine.name, runtime: way, passed, failed, notRun, remark };
}

/** Six processes add to one number, each under the lock. */
async function mixed(wine: Wine, dir: string, { times }: Extent): Promise<Row> {
  const [lock, counter] = [join(dir, "mixed.lock"), join(dir, "counter")];
  writeFileSync(counter, "0");
  const cast = [FFI, PLAIN, PLAIN, BUN, BUN, BUN];
  const began = performance.now();
  const children = cast.map((way) =>
    wine.spawn(way, dir, here("worker.ts"), ["count", windowsPath(lock), windowsPath(counter), String(times)])
  );
  const timer = later(() => children.forEach((child) => child.kill("SIGKILL")), PATIENCE * 60_000);
  const results = await Promise.all(children.map(output));
  clearTimeout(timer);
  const [number, wanted] = [Number(readFileSync(counter, "utf8")), cast.length * times];
  const done = results.filter(({ text }) => text.includes("done by LockFileEx")).length;
  if (done < cast.length) console.log(results.map(({ text }, i) => `${cast[i]}: ${text}`).join("\n"));
  const good = number === wanted && done === cast.length;
  return {
    place: `${wine.name}, one counter`,
    runtime: ways.join(", "),
    passed: Number(good),
    failed: Number(!good),
    remark: `1, 2 and 3 processes: ${number} of ${wanted} increments, ${done} of ${cast.length} done, ${
      Math.round((performance.now() - began) / 1000)
    } s`,
  };
}

/** A process that waits for the lock, and then holds it. */
class Holder {
  readonly child: ChildProcess;
  readonly waits: Promise<void>;
  readonly held: Promise<{ holder: Holder; pid: string }>;
  errors = "";

  constructor(child: ChildProcess) {
    this.child = child;
    child.stderr?.setEncoding("utf8").on("data", (text) => this.errors += text);
    const lines = createInterface({ input: child.stdout! }); // `!`: it is a pipe
    this.waits = new Promise((resolve) => lines.on("line", (line) => line === "waiting" && resolve()));
    this.held = new Promise((resolve) =>
      lines.on("line", (line) => line.startsWith("held ") && resolve({ holder: this, pid: line.split(" ")[1] }))
    );
  }
}

const within = <T>(milliseconds: number, promise: Promise<T>): Promise<T | undefined> =>
  Promise.race([promise, setTimeout(milliseconds, undefined, { ref: false })]);

/**
 * Each holder is killed while two others wait: by SIGKILL from outside Wine,
 * and by `TerminateProcess` inside, in turn.
 */
async function kills(wine: Wine, dir: string, { kills }: Extent): Promise<Row> {
  const lock = windowsPath(join(dir, "kills.lock"));
  const all: Holder[] = [];
  const start = () => {
    const holder = new Holder(wine.spawn(ways[all.length % ways.length], dir, here("worker.ts"), ["hold", lock]));
    all.push(holder);
    return holder;
  };
  const times: number[] = [];
  const killer = wine.spawn(FFI, dir, here("worker.ts"), ["kill"]);
  try {
    await once(killer.stdout!, "data"); // `!`: it is a pipe
    let held = await within(30_000, start().held);
    const waiters = [start(), start()];
    while (held && times.length < kills) {
      // All of them: the start of a process takes what a busy machine has, and is not what is measured.
      await within(30_000, Promise.all(waiters.map((each) => each.waits)));
      const began = performance.now();
      if (times.length % 2 === 0) held.holder.child.kill("SIGKILL");
      else killer.stdin?.write(`${held.pid}\n`);
      held = await within(30_000, Promise.race(waiters.map((each) => each.held)));
      times.push(performance.now() - began);
      if (!held) break;
      waiters.splice(waiters.indexOf(held.holder), 1);
      waiters.push(start());
    }
    if (!held) console.log(all.map(({ errors }) => errors).join(""));
  } finally {
    for (const child of [killer, ...all.map(({ child }) => child)]) child.kill("SIGKILL");
  }
  const good = times.filter((time) => time <= FREE_WITHIN).length;
  const [median, worst] = [0.5, 1].map((part) =>
    Math.round(times.toSorted((a, b) => a - b)[Math.ceil(times.length * part) - 1])
  );
  return {
    place: `${wine.name}, kills`,
    runtime: ways.join(", "),
    passed: good,
    failed: kills - good,
    remark:
      `${kills} holders killed, the next has the lock within ${FREE_WITHIN} ms: median ${median} ms, worst ${worst} ms`,
  };
}

/** Ctrl-C on a console ends deno.exe while it waits, synchronously or not, and while it holds. */
async function ctrlC(wine: Wine, dir: string, way: Way): Promise<Row> {
  const lock = join(dir, `console-${ways.indexOf(way)}.lock`);
  let passed = 0;
  const remarks: string[] = [];
  const children: ChildProcess[] = [];
  /** Types Ctrl-C once it has said `word`; how long, in milliseconds, it then took to end. */
  const ended = async (what: string, word: string): Promise<void> => {
    const child = wine.spawnOnConsole(way, dir, here("worker.ts"), [what, windowsPath(lock)]);
    children.push(child);
    let text = "";
    const said = new Promise<void>((resolve) =>
      child.stdout.setEncoding("utf8").on("data", (part) => (text += part).includes(word) && resolve())
    );
    const over = once(child, "exit");
    await within(30_000, said);
    await setTimeout(200); // until it does what it has said
    const began = performance.now();
    child.stdin.write("\x03");
    const result = await within(10_000, over);
    const took = result ? `${Math.round(performance.now() - began)} ms` : `not ended: ${text}`;
    remarks.push(`${what} ${word}: ${took}`);
    passed += Number(result !== undefined && text.includes(word) && text.includes("held") === (word === "held"));
  };
  const hold = () => {
    const holder = new Holder(wine.spawn(BUN, dir, here("worker.ts"), ["hold", windowsPath(lock)]));
    children.push(holder.child);
    return within(30_000, holder.held);
  };
  try {
    await ended("hold", "held");
    // Which is free again.
    passed += Number(await hold() !== undefined);
    await ended("hold", "waiting");
    await ended("hold-sync", "waiting");
  } finally {
    for (const child of children) child.kill("SIGKILL");
  }
  return {
    place: `${wine.name}, Ctrl-C on a console`,
    runtime: way,
    passed,
    failed: 4 - passed,
    // Its GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, 0) answers ERROR_INVALID_HANDLE, and CTRL_C_EVENT works.
    notRun: "Ctrl-Break, because Wine has none" + (way === FFI ? `; ${BUN}, because it crashes on Ctrl-C` : ""),
    remark: `it ends as it holds, and the lock is free; and as it waits: ${remarks.join(", ")}`,
  };
}

/** All of it, a row each. */
export const TRIALS: readonly ((wine: Wine, dir: string, extent: Extent) => Promise<Row>)[] = [
  ...ways.map((way) => (wine: Wine, dir: string) => behaviour(wine, dir, way)),
  ...[FFI, PLAIN].map((way) => (wine: Wine, dir: string) => ctrlC(wine, dir, way)),
  mixed,
  kills,
];

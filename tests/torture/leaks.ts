/** Part 6: a process that has locked a hundred thousand times is as it was before. */
import { mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";
import { Child, type Kind, within } from "../support/harness.ts";
import { packedModule } from "../../tasks/pack.ts";
import { deno, tool } from "../support/tools.ts";
import { copySource, type Edit } from "../support/edits.ts";
import type { Circumstances, Part } from "./part.ts";

const worker = fileURLToPath(new URL("leaks/worker.mjs", import.meta.url));

/** A command, which is given the folder that it may use and the one that its code lies in. */
const COMMANDS: Record<Kind, (dir: string, modules: string) => string[]> = {
  deno: () => [deno(), "run", "-A", "--no-check", "--quiet", "--v8-flags=--expose-gc"],
  "deno-no-ffi": (dir, modules) => [
    ...[deno(), "run", "--no-prompt", "--no-check", "--quiet", "--v8-flags=--expose-gc"],
    `--allow-read=${dir},${modules},${worker}`,
    `--allow-write=${dir}`,
  ],
  bun: () => [tool("bun"), "run"],
  node26: () => [tool("node26"), "--disable-warning=ExperimentalWarning", "--expose-gc"],
  node20: () => [tool("node20"), "--expose-gc"],
};

type Backend = "flock" | "pidfile";
const PHASES = ["cycles", "refused", "waits"] as const;
type Times = Record<typeof PHASES[number], number>;

/** What may be more afterwards, in bytes: code that was compiled late, and what the collector has not given back. */
const HEAP_MARGIN = 4 * 2 ** 20, RSS_MARGIN = 64 * 2 ** 20;
/** So many descriptors a runtime may open for itself after the warm-up: of signals, of its threads. None of them a file of ours. */
const DESCRIPTOR_MARGIN = 4;
/** So long a process may take to end that has nothing left to do, in milliseconds; and any phase. */
const END = 10_000, STUCK = 3_600_000;

/** What is open in a process: by its PID, so that it is seen from outside. */
interface Look {
  /** What each descriptor is, sorted. */
  readonly descriptors: readonly string[];
  readonly watches: number;
  readonly rss: number;
}

function look(pid: number): Look {
  const folder = `/proc/${pid}`;
  const descriptors: string[] = [];
  let watches = 0;
  for (const fd of readdirSync(`${folder}/fd`)) {
    try {
      descriptors.push(readlinkSync(`${folder}/fd/${fd}`));
      watches += readFileSync(`${folder}/fdinfo/${fd}`, "utf8").match(/^inotify /gm)?.length ?? 0;
    } catch {
      // closed meanwhile, such as the one that a runtime's own thread had open for an instant
    }
  }
  const rss = Number(/^VmRSS:\s*(\d+)/m.exec(readFileSync(`${folder}/status`, "utf8"))?.[1]) * 1024;
  return { descriptors: descriptors.sort(), watches, rss };
}

/** A line of the worker, and what was seen of it then. */
interface Phase extends Look {
  readonly phase: string;
  readonly done: number;
  readonly heap: number;
  readonly listeners: number;
  readonly listened: number;
  readonly eventListeners: number | null;
  readonly registered: number | null;
  readonly resources: number | null;
  readonly files: readonly string[];
}

/** One process's. */
export interface Leaks {
  readonly kind: Kind;
  readonly backend: Backend;
  readonly phases: readonly Phase[];
  readonly seconds: number;
  /** How long it took to end, in milliseconds. */
  readonly end: number;
  readonly failures: readonly string[];
}

/** Runs one process through it. */
export async function runLeaks(
  { dir, kind, backend, times, module, end: mustEnd = END }: {
    dir: string;
    kind: Kind;
    backend: Backend;
    times: Times;
    /** The folder with mod.ts; the packed module for Node 20. */
    module: string;
    /** So long it may take to end, in milliseconds. */
    end?: number;
  },
): Promise<Leaks> {
  for (const name of ["others", "free", "own"]) mkdirSync(join(dir, name), { recursive: true });
  const began = performance.now();
  const others = join(dir, "others", "a.lock");
  const holder = backend === "flock"
    ? new Child("flock", ["-n", "--no-fork", others, "sh", "-c", "echo held; exec cat"])
    : new Child("sh", ["-c", "echo held; exec cat"]);
  const children = [holder];
  const phases: Phase[] = [];
  const failures: string[] = [];
  const what = `leaks, ${kind}, ${backend}`;
  let end = 0;
  try {
    if (await holder.line() !== "held") throw new Error(`nobody holds ${others}: ${holder.errors}`);
    if (backend === "pidfile") writeFileSync(`${others}.pid`, ownerOf(holder.pid));
    const least = Math.min(...Object.values(times));
    const warm = Math.min(least, Math.max(5000, Math.ceil(least / 20)));
    const file = kind === "node20" ? packedModule() : join(module, "mod.ts");
    const [command, ...args] = COMMANDS[kind](dir, module);
    const child = new Child(command, [
      ...args,
      worker,
      ...[pathToFileURL(file).href, dir, backend, String(warm), JSON.stringify(times)],
    ], { env: { ...process.env, NO_COLOR: "1" } });
    children.push(child);
    for (let i = 0; i <= PHASES.length; i++) {
      const line = JSON.parse(await within(STUCK, child.line()));
      phases.push({ ...line, ...look(child.pid) });
      writeFileSync(join(dir, `go-${i}`), "");
    }
    const released = performance.now();
    const { code, signal } = await within(mustEnd, child.ended).catch(() => {
      throw new Error(`it did not end by itself within ${mustEnd} ms: something keeps it alive`);
    });
    end = performance.now() - released;
    if (code !== 0) failures.push(`${what}: the process ended with ${code ?? signal}: ${child.errors}`);
    else if (child.errors !== "") failures.push(`${what}: it wrote to standard error: ${child.errors}`);
  } catch (error) {
    failures.push(`${what}: ${error instanceof Error ? error.message : error}`);
  } finally {
    for (const child of children) await child.kill();
  }
  const [first, ...later] = phases;
  for (const phase of later) {
    failures.push(...compare(first, phase).map((each) => `${what}, after ${phase.done} ${phase.phase}: ${each}`));
  }
  return { kind, backend, phases, end, failures, seconds: (performance.now() - began) / 1000 };
}

/** A record of a living process, as any version writes it. */
function ownerOf(pid: number): string {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  const startTime = stat.slice(stat.lastIndexOf(") ") + 2).split(" ")[19];
  return `${pid}\n${JSON.stringify({ holdfast: 1, pid, startTime, mode: "exclusive", nonce: "0".repeat(32) })}\n`;
}

const MiB = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;

/** What there is more of than there was. */
function compare(before: Phase, after: Phase): string[] {
  const found: string[] = [];
  const left = [...before.descriptors];
  const added = after.descriptors.filter((each) => {
    const at = left.indexOf(each);
    if (at >= 0) left.splice(at, 1);
    return at < 0;
  });
  const more = after.descriptors.length - before.descriptors.length;
  if (more > DESCRIPTOR_MARGIN || added.some((each) => each.includes(".lock"))) {
    const some = [...new Set(added)].slice(0, 5).join(", ");
    found.push(
      `${after.descriptors.length} descriptors, where there were ${before.descriptors.length}: more are ${some}`,
    );
  }
  if (after.watches > 0) found.push(`${after.watches} inotify watches are left`);
  if (after.listeners !== 0) found.push(`${after.listeners} listeners are left on a signal`);
  if (after.eventListeners) found.push(`getEventListeners() names ${after.eventListeners} on a signal`);
  if (after.registered) found.push(`${after.registered} holds are left in the registry`);
  if ((after.resources ?? 0) > (before.resources ?? 0)) {
    found.push(`${after.resources} timers, where there were ${before.resources}`);
  }
  if (after.files.length > 0) found.push(`files are left: ${after.files.join(", ")}`);
  const heap = after.heap - before.heap, rss = after.rss - before.rss;
  if (heap > HEAP_MARGIN) found.push(`the heap grew by ${MiB(heap)}, which is more than ${MiB(HEAP_MARGIN)}`);
  if (rss > RSS_MARGIN) found.push(`the process grew by ${MiB(rss)}, which is more than ${MiB(RSS_MARGIN)}`);
  return found;
}

/** How often each does what. Node 20 starts flock(1) for each try. */
const LONG: Record<Kind, Record<Backend, Times>> = {
  deno: both(100_000, 20_000),
  "deno-no-ffi": both(100_000, 20_000),
  bun: both(100_000, 20_000),
  node26: both(100_000, 20_000),
  node20: both(500, 500),
};
/** 0: not at all, in the gate. */
const SHORT: Record<Kind, Record<Backend, Times>> = {
  deno: both(0, 0),
  "deno-no-ffi": both(300, 0),
  bun: both(300, 0),
  node26: both(300, 0),
  node20: both(0, 0),
};

function both(flock: number, pidfile: number): Record<Backend, Times> {
  const times = (count: number): Times => ({ cycles: count, refused: count, waits: count });
  return { flock: times(flock), pidfile: times(pidfile) };
}

/** Runs these, so many at a time. */
export async function runAll(
  { dir }: Pick<Circumstances, "dir">,
  plan: readonly { kind: Kind; backend: Backend; times: Times }[],
  edits: readonly Edit[] = [],
  atOnce = 3,
): Promise<Leaks[]> {
  const module = copySource(join(dir, "modules"), edits);
  const results: Leaks[] = [];
  const left = plan.map((each, i) => ({ ...each, i }));
  await Promise.all(Array.from({ length: atOnce }, async () => {
    for (let next; (next = left.shift());) {
      results[next.i] = await runLeaks({ ...next, module, dir: join(dir, `${next.kind}-${next.backend}`) });
    }
  }));
  return results;
}

/** The part. */
export const leaks: Part = async ({ short, dir }) => {
  const amounts = short ? SHORT : LONG;
  const kinds: Kind[] = ["deno", "deno-no-ffi", "bun", "node26", "node20"];
  const plan = kinds.flatMap((kind) =>
    (["flock", "pidfile"] as const).map((backend) => ({ kind, backend, times: amounts[kind][backend] }))
  ).filter(({ times }) => times.cycles > 0);
  const began = performance.now();
  const results = await runAll({ dir }, plan);
  const seconds = (performance.now() - began) / 1000;
  return {
    title: "Leaks: a process that has locked many times is as it was before",
    notes: [
      `In ${seconds.toFixed()} s. After a warm-up of 5000 or a twentieth, and a forced garbage collection before and after: ` +
      "acquisitions with release, tries refused by another process's hold, and waits that end by their timeout, by a " +
      "signal of their own or by one that many share.",
      "Demanded after each: no inotify watch and no listener on a signal is left, and no more timers than before; no descriptor of a lock " +
      `file, and at most ${DESCRIPTOR_MARGIN} others that the runtime has opened for itself; nothing ` +
      "in the registry; no file but the lock's own; the heap at most " +
      `${MiB(HEAP_MARGIN)} and the process at most ${MiB(RSS_MARGIN)} larger; and the process ends by itself.`,
      "Node 20 starts flock(1) for each try, so it does fewer. Timers are counted where the runtime tells " +
      "(getActiveResourcesInfo); elsewhere one that is left would keep the process from its end.",
    ],
    columns: [
      "runtime",
      "back end",
      ...PHASES,
      "descriptors",
      "watches",
      "listeners",
      "heap",
      "RSS",
      "ends in",
      "seconds",
    ],
    rows: results.map(({ kind, backend, phases, end, seconds }) => {
      const [first, last] = [phases[0], phases[phases.length - 1]];
      const change = (value: (phase: Phase) => string | number) => first ? `${value(first)} → ${value(last)}` : "";
      return [
        ...[kind, backend],
        ...PHASES.map((name) => `${phases.find(({ phase }) => phase === name)?.done ?? 0}`),
        change(({ descriptors }) => descriptors.length),
        change(({ watches }) => watches),
        first ? `${last.listeners} of ${last.listened}` : "",
        change(({ heap }) => MiB(heap)),
        change(({ rss }) => MiB(rss)),
        `${end.toFixed()} ms`,
        seconds.toFixed(1),
      ];
    }),
    failures: results.flatMap(({ failures }) => failures),
  };
};

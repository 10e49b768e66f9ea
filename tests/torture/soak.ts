/**
 * The soak: everybody who can take the lock, on one path, while some are killed,
 * stopped, and robbed of its file. Phases, because they promise different
 * things.
 */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type Modules, ownModules } from "./contention/modules.ts";
import type { Part } from "./part.ts";
import { type ArenaOptions, type ArenaResult, MORE_FDS, MORE_MEMORY, runArena, WINDOW } from "./soak/arena.ts";
import type { Contender, Job, Post } from "./soak/crew.ts";

export type Common = Pick<Job, "path" | "pipe" | "counter" | "list">;

/** What most of them do. */
const USUAL: Omit<Job, keyof Common> = {
  ...{ styles: ["acquire", "burst", "sync"], burst: 100, hold: 4, gap: 8, shared: 0.25, backend: "auto" },
  ...{ deletes: 0, losses: false },
};

/** In Node 20 each try is a process. */
const habits = (kind: Contender): Partial<Job> => kind === "node20" ? { burst: 3 } : {};

export const crew = (
  modules: Modules,
  common: Common,
  kinds: readonly Contender[],
  mortal: boolean,
  job: Partial<Job> = {},
): Post[] => kinds.map((kind) => ({ kind, modules, mortal, job: { ...USUAL, ...common, ...habits(kind), ...job } }));

export const EVERYBODY = ["deno", "deno-no-ffi", "bun", "node26", "node20", "flock(1)", "python"] as const;

interface Phase {
  readonly name: string;
  /** Its part of the time. */
  readonly share: number;
  /** So many paths at once, in memory; else one, where temporary files are. */
  readonly paths?: number;
  readonly options: (
    modules: Modules,
    short: boolean,
  ) => Pick<ArenaOptions, "posts" | "ledger" | "kills" | "stops" | "deletions">;
}

/** Those that are killed are inside longer, so that they are killed there. */
const MORTAL: Partial<Job> = { hold: 15 };
/** Those with a PID file take ten times as long for a try, so the others leave them the room. */
const EXCLUSIVE: Partial<Job> = { shared: 0, burst: 30, gap: 20 };
const PID_FILE: Partial<Job> = { shared: 0, burst: 100, gap: 4, backend: "pidfile" };
export const ROBBED: Partial<Job> = { deletes: 0.2, losses: true, styles: ["acquire", "acquire", "burst"], burst: 20 };
const LONG: Partial<Job> = { hold: 150, losses: true };

const PHASES: readonly Phase[] = [
  {
    name: "one path, everybody, exclusive and shared",
    share: 0.3,
    options: (modules, short) => ({
      posts: (common) => [
        ...crew(modules, common, EVERYBODY, false),
        ...crew(modules, common, short ? ["bun", "python"] : ["bun", "node26", "flock(1)", "python"], true, MORTAL),
      ],
      ...{ ledger: true, kills: short ? 400 : 1500, stops: short ? 150 : 300 },
    }),
  },
  {
    name: "one path, as fast as they can",
    share: 0.42,
    paths: 2, // or the second core has nothing to do: inside is only one
    options: (modules, short) => ({
      posts: (common) => {
        return crew(modules, common, short ? FAST.slice(0, 2) : FAST, false, {
          ...{ burst: 1000, hold: 0, gap: 4, shared: 0.1, styles: ["burst", "burst", "acquire"] },
        });
      },
      ledger: true,
    }),
  },
  {
    name: "kernel locks and PID files on one path",
    share: 0.1,
    options: (modules, short) => ({
      posts: (common) => [
        ...crew(modules, common, short ? ["deno"] : ["deno", "node26", "deno-no-ffi"], false, EXCLUSIVE),
        ...crew(modules, common, ["bun"], true, { ...EXCLUSIVE, ...MORTAL }),
        ...crew(modules, common, short ? ["bun"] : ["deno", "bun"], false, PID_FILE),
        ...crew(modules, common, short ? ["node26"] : ["node26", "bun"], true, { ...PID_FILE, ...MORTAL }),
      ],
      ...{ ledger: true, kills: short ? 800 : 1500, stops: 300 },
    }),
  },
  {
    name: "holders delete the lock file themselves",
    share: 0.08,
    options: (modules, short) => ({
      posts: (common) => [
        ...crew(modules, common, short ? ["deno", "bun"] : ["deno", "deno-no-ffi", "bun", "node26"], false, ROBBED),
        ...crew(modules, common, short ? ["node26"] : ["bun", "node26"], true, ROBBED),
      ],
      ...{ ledger: false, kills: 1500 },
    }),
  },
  {
    name: "the lock file is deleted by somebody else",
    share: 0.1,
    options: (modules, short) => ({
      posts: (common) => [
        ...crew(modules, common, short ? ["deno", "bun"] : ["deno", "deno-no-ffi", "bun", "node26"], false, LONG),
        ...crew(modules, common, short ? ["node26"] : ["bun", "node26"], true, LONG),
      ],
      ...{ ledger: false, kills: 3000, deletions: short ? 150 : 400 },
    }),
  },
];

/** A file system in memory: a disk that others use as well makes an acquisition last ten times as long. */
const MEMORY = "/dev/shm";
/** Deno gives nobody a file under /dev without --allow-all. */
const FAST = ["bun", "node26", "deno", "python"] as const;

/** So many acquisitions a run of half an hour is meant to have. */
const MANY = 1_000_000;

export const soak: Part = async ({ seed, budget, short, dir }) => {
  const memory = existsSync(MEMORY) ? mkdtempSync(join(MEMORY, "holdfast-soak-")) : join(dir, "memory");
  try {
    const modules = ownModules(join(dir, "modules"));
    const results: { name: string; seed: number; result: ArenaResult }[] = [];
    for (const [i, { name, share, paths = 1, options }] of PHASES.entries()) {
      const runs = [...Array(short ? 1 : paths).keys()].map(async (n) => {
        const own = { seed: seed + 10 * i + n, dir: join(paths > 1 ? memory : dir, `${i}.${n}`) };
        const result = await runArena({ ...own, milliseconds: budget * share, ...options(modules, short) });
        results.push({ name, seed: own.seed, result });
      });
      await Promise.allSettled(runs); // so that none goes on when another has failed
      await Promise.all(runs);
    }
    return {
      title: "Soak",
      notes: notes(results.map(({ result }) => result), short),
      columns: [
        ...["phase", "seconds", "acquisitions", "by", "killed (inside)", "stopped", "deletions", "updates"],
        ...["documented meetings", "overlaps", "lost updates", "stuck", "failures"],
      ],
      rows: results.map(({ name, result }) => row(name, result)),
      failures: results.flatMap(({ name, seed, result }) => wrong(name, seed, result)),
    };
  } finally {
    rmSync(memory, { recursive: true, force: true });
  }
};

function notes(results: readonly ArenaResult[], short: boolean): string[] {
  const sum = results.reduce((sum, { entered }) => sum + entered, 0);
  const flat = results.flatMap((result) => result.flat);
  const busy = short || sum >= MANY ? "" : ` That is less than ${MANY}: too little time, or the machine was busy.`;
  return [
    `${sum} acquisitions.${busy} Everybody says in one pipe that it is inside, and that it leaves; the kernel puts ` +
    "that in order, and it is checked for two inside at once, without the lock and without a clock.",
    `A meeting after a deletion counts as documented if one of the two is told of its loss within ${WINDOW} ms, or ` +
    "one of them had deleted the file itself; flock(1) and Python stay out there, because nothing tells them. " +
    "They stay out of the phase with PID files too: they do not look for any.",
    "Updates: a number in a file, read, appended to a list, written back; not where two may be inside. " +
    `As fast as they can: two paths at a time, on ${existsSync(MEMORY) ? "tmpfs" : "no tmpfs, for there is none"}.`,
    flat.length > 0
      ? "Processes that lived through a phase, early in it and at its end, the least of several samples: " +
        `${flat.join("; ")}. Allowed: ${MORE_FDS} descriptors and ${MORE_MEMORY / 1024} MiB more.`
      : "Too short to say whether memory and descriptors stay flat.",
  ];
}

function row(name: string, result: ArenaResult): string[] {
  const by = [...result.by].map(([kind, times]) => `${kind} ${times}`).join(", ");
  return [
    ...[name, result.seconds.toFixed(), `${result.entered}`, by, `${result.kills} (${result.killedInside})`],
    ...[`${result.stops}`, `${result.deletions}`, `${result.updates}`],
    `${result.documented}, of ${result.longest.toFixed()} ms at most; ${result.losses} told`,
    ...[result.overlaps, result.lost, result.stuck, result.failures].map(({ length }) => `${length}`),
  ];
}

/** One sentence for each kind of failure: the first of them, and how many there are. */
function wrong(name: string, seed: number, result: ArenaResult): string[] {
  const { overlaps, lost, stuck, failures } = result;
  return Object.entries({ overlaps, "lost updates": lost, stuck, failures })
    .filter(([, sentences]) => sentences.length > 0)
    .map(([what, sentences]) => `${name}, seed ${seed}: ${sentences.length} ${what}, first: ${sentences[0]}`);
}

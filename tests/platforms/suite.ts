/** The behaviour suite in a place: a file system that is mounted for one run of it, in a namespace that ends with it. */
import { chmodSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { repository, type Runner, runTests } from "../support/runners.ts";
import { GROUNDS } from "../torture/places/grounds.ts";
import { Keeper } from "../torture/places/keeper.ts";
import { type Circumstances, isWanted, type Row } from "./row.ts";

export const RUNTIMES: readonly (readonly [name: string, runner: Runner])[] = [
  ["Deno", "deno"],
  ["Bun", "bun"],
  ["Node 26", "node"],
];

/** What a file system has no part in: the gate runs these on the machine's own. */
const PLACELESS: Readonly<Record<string, string>> = {
  "channels_test.ts": "events in the process",
  "closed_test.ts": "which file a process's descriptor is",
  "complete_test.ts": "what is seen of a lock from a container; tests/deno_only/place_test.ts has FUSE",
  "deadlock_test.ts": "waiting for oneself",
  "layout_test.ts": "what the sources look like, and that an import does nothing",
  "options_errors_test.ts": "options that are wrong",
  "owner_test.ts": "whether a process is alive",
  "owner_elsewhere_test.ts": "the same, in containers",
  "record_test.ts": "a record as text",
  "stranger_test.ts": "who is signalled, which processes and modes decide",
  "sync_wait_test.ts": "deadlines of a wait that blocks",
  "sys_errno_test.ts": "the names of errors",
  "wait_test.ts": "the pauses of a wait",
  "waiting_abort_test.ts": "a wait that is given up",
  "waiting_many_test.ts": "many waiters of one process",
  "workers_test.ts": "threads",
};

/** The behaviour suite. */
export const SUITE: readonly string[] = readdirSync(join(repository, "tests"))
  .filter((name) => name.endsWith("_test.ts") && !(name in PLACELESS)).sort().map((name) => `tests/${name}`);

/** What a lock does at all, in a second. */
const CORE = ["tests/lock_test.ts", "tests/reenter_test.ts"];

/** A test that cannot be right in a place. */
export interface Exclusion {
  /** A part of its name that no other test's has. */
  readonly test: string;
  /** Reads after "because". */
  readonly why: string;
  /** If not in all. */
  readonly in?: readonly Runner[];
}

/** Where the suite is run. */
export interface Place {
  readonly name: string;
  /** Shell: makes it at `$0`, an empty folder, in a mount namespace of its own. */
  readonly make: string;
  readonly remark?: string;
  readonly exclusions?: readonly Exclusion[];
  /** The whole suite is not run in Node there, which takes twice as long as the others and makes the same system calls. */
  readonly withoutNode?: boolean;
}

/** As the torture makes it. */
export function ground(name: string, ground = name): Pick<Place, "name" | "make"> {
  const found = GROUNDS.find((each) => each.name === ground);
  if (!found) throw new RangeError(`no ground is called ${ground}`);
  return { name, make: found.make };
}

/** Minutes, for the suite; a quiet machine takes three, and a busy one must not fail for that. */
const PATIENCE = 40;

/** A folder that other users may enter, as the tests with another user need it. */
export function folder(...parts: readonly string[]): string {
  const path = join(...parts);
  mkdirSync(path);
  chmodSync(path, 0o755);
  return path;
}

const say = (text: string) => console.error(text);

/** The suite in a place, in one runtime. */
async function run(
  place: Place,
  [runtime, runner]: typeof RUNTIMES[number],
  { long, dir }: Circumstances,
): Promise<Row> {
  const row = { place: place.name, runtime };
  if (long && place.withoutNode && runner === "node") {
    return {
      ...row,
      passed: 0,
      failed: 0,
      notRun: "in the short form only: it takes long, and makes the calls of the others",
    };
  }
  const began = performance.now();
  const own = folder(dir, String(readdirSync(dir).length)); // short: a test makes a socket, whose path has 107 bytes
  const at = folder(own, "at");
  const files = long ? SUITE : CORE;
  const exclusions = long ? (place.exclusions ?? []).filter((each) => each.in?.includes(runner) ?? true) : [];
  const keeper = new Keeper(own);
  try {
    const untried = await keeper.run(place.make, at);
    if (untried !== undefined) return { ...row, passed: 0, failed: 0, notRun: untried };
    const result = await runTests(runner, {
      files,
      by: [...keeper.by, "env", "-C", repository],
      env: { HOLDFAST_TEST_DIR: at },
      skip: exclusions.map(({ test }) => test),
      limit: PATIENCE * 60_000,
    });
    const { passed, failed, failures, output } = result;
    const seconds = ((performance.now() - began) / 1000).toFixed();
    say(`${place.name}, ${runtime}: ${passed} passed, ${failed} failed, ${seconds} s`);
    if (failed > 0) say(`${output}\n${failures.map((each) => `${place.name}, ${runtime}: ${each}`).join("\n")}`);
    const bad = failures.length === 0 ? undefined : `failed: ${failures.join("; ")}`;
    return { ...row, passed, failed, notRun: excluded(exclusions), remark: bad ?? place.remark };
  } finally {
    await keeper.end();
  }
}

export const excluded = (exclusions: readonly Exclusion[]): string | undefined =>
  exclusions.length === 0 ? undefined : exclusions.map(({ test, why }) => `"${test}…", because ${why}`).join("; ");

/** The suite in each place, in each runtime, two at a time: one waits while the other works. */
export async function inPlaces(places: readonly Place[], circumstances: Circumstances): Promise<Row[]> {
  const wanted = places.filter(({ name }) => isWanted(name, circumstances));
  const jobs = wanted.flatMap((place) => RUNTIMES.map((runtime) => () => run(place, runtime, circumstances)));
  const rows: Row[] = [];
  const queue = [...jobs.entries()];
  const work = async () => {
    for (let next; (next = queue.shift());) rows[next[0]] = await next[1]();
  };
  await Promise.all([work(), work()]);
  return rows;
}

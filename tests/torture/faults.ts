/**
 * Every system call that we make is made to fail, in every way that its manual page lists, by strace, in the real
 * runtimes. Each time: a typed error or success; never "held" where nobody holds it, never a lock that another gets
 * too; no descriptor left; and the next process acquires.
 */
import { type Kind, KINDS } from "../support/harness.ts";
import { Random } from "./contention/random.ts";
import { type Backend, type Case, OPERATIONS, type Scene } from "./faults/stage.ts";
import { Victim } from "./faults/victim.ts";
import { PAGES } from "./faults/errnos.ts";
import type { Part, Section } from "./part.ts";

const BACKENDS: readonly Backend[] = ["flock", "pidfile"];
const SCENES: readonly Scene[] = BACKENDS.flatMap((backend) => OPERATIONS.map((operation) => ({ operation, backend })));

/** The short form: so many runtimes, so many scenes of each, so many cases of each scene, and not much longer than that. */
const SHORT = { kinds: 2, scenes: 4, cases: 8, milliseconds: 10_000 };

/** So many cases of each runtime there are, however little time there is. */
const LEAST = 5;

/** What is attacked, and how much of it. */
export interface Attack {
  readonly kinds: readonly Kind[];
  readonly scenes: readonly Scene[];
  /** Of each scene; all unless given. */
  readonly cases?: number;
  readonly seed: number;
  /** After so many milliseconds what is left is left out. */
  readonly budget: number;
  readonly dir: string;
  /** What is locked with instead of our own code; see {@linkcode Victim}. */
  readonly module?: string;
  /** Which cases; all unless given. */
  readonly only?: (one: Case) => boolean;
}

/** The part of the torture. */
export const faults: Part = ({ seed, budget, short, dir }) => {
  if (!short) return attack({ kinds: KINDS, scenes: SCENES, seed, budget, dir });
  const random = new Random(seed);
  const kinds = random.sample(KINDS, SHORT.kinds);
  const scenes = random.sample(SCENES, SHORT.scenes);
  return attack({ kinds, scenes, cases: SHORT.cases, seed, budget: Math.min(budget, SHORT.milliseconds), dir });
};

/** What one runtime came to. */
interface Tally {
  readonly kind: Kind;
  planned: number;
  done: number;
  missed: number;
  failed: number;
  readonly absent: string[];
  readonly called: Set<string>;
}

/** Lets calls fail in several runtimes at once. */
export async function attack(given: Attack): Promise<Section> {
  const { kinds, seed, budget } = given;
  const end = performance.now() + budget;
  const table = new Table();
  const failures: string[] = [];
  const tallies = await Promise.all(kinds.map((kind, lane) => attackOne(given, kind, lane, end, table, failures)));
  const notes = tallies.map(({ kind, planned, done, missed, failed, absent, called }) => {
    const never = Object.keys(PAGES).filter((call) => !called.has(call));
    const left = planned - done;
    return `${kind}: ${done} cases, ${failed} failed, ${missed} not reached` +
      (left > 0 ? `; ${left} left out for want of time` : "") +
      (absent.length > 0 ? `; there was no ${counted(absent)}` : "") +
      (given.only || given.cases ? "" : `; it never calls ${never.join(", ")}`) + ".";
  });
  return {
    title: "Faults: each system call, each errno of its manual page, at the first, second and tenth call",
    notes: [
      `Seed ${seed}; ${given.scenes.length} scenes (${OPERATIONS.join(", ")}; kernel lock and PID file) in each of: ` +
      `${kinds.join(", ")}.`,
      ...notes,
      "An ENOENT, ENOTDIR or EEXIST of what is otherwise, ESRCH of a live process, and EWOULDBLOCK or EACCES of " +
      "flock(2) are no failures but lies of the kernel, whose word is all that there is: what follows from one is " +
      'shown ("a lie believed"), and must still be typed, and leak nothing.',
      "Deno without FFI may not ask whether an owner is dead, so it takes no PID file over.",
      "Deno itself ends where close(2) of a directory that it has listed fails (Rust's closedir); so may Node 20 where " +
      "it reads a file as text, which we therefore do not.",
      "strace 6.1 cannot let close(2) do its work and report a failure: here the descriptor stays open, which is " +
      "sterner than Linux. Nor can it let half of a write(2) succeed.",
    ],
    columns: ["call", "errno", "outcomes", "cases", "not reached"],
    rows: table.rows(),
    failures,
  };
}

async function attackOne(
  { scenes, cases: wanted, seed, dir, module, only = () => true }: Attack,
  kind: Kind,
  lane: number,
  end: number,
  table: Table,
  failures: string[],
): Promise<Tally> {
  const random = new Random(seed, lane);
  const victim = new Victim(kind, dir, module);
  const tally: Tally = { kind, planned: 0, done: 0, missed: 0, failed: 0, absent: [], called: new Set() };
  try {
    const able = scenes.filter((each) => victim.can(each));
    // A few of each: scene after scene. All of them: mixed, so that too small a budget cuts off a bit of each.
    for (const together of wanted ? able.map((each) => [each]) : [able]) {
      if (performance.now() > end && tally.done >= LEAST) break;
      const all: Case[] = [];
      for (const scene of together) {
        const { cases, absent } = await victim.plan(scene);
        const these = cases.filter(only);
        for (const { call } of these) tally.called.add(call);
        all.push(...random.sample(these, wanted ?? these.length));
        tally.absent.push(...absent);
      }
      tally.planned += all.length;
      for (const one of random.sample(all, all.length)) {
        if (performance.now() > end && tally.done >= LEAST) break;
        const outcome = await victim.run(one);
        tally.done++;
        if (outcome.missed) tally.missed++;
        table.add(one, outcome.words, outcome.missed === true);
        if (outcome.failures.length === 0) continue;
        tally.failed++;
        failures.push(`${kind}, ${sentence(one)} (seed ${seed}): ${outcome.failures.join("; ")}`);
      }
    }
  } finally {
    await victim.end();
  }
  return tally;
}

const sentence = ({ operation, backend, call, nth, errno }: Case) =>
  `${operation} by ${backend}, ${call} number ${nth} answers ${errno}`;

/** Such as `flock 2 (3 times)`. */
function counted(list: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const each of list) counts.set(each, (counts.get(each) ?? 0) + 1);
  return [...counts].map(([what, times]) => times > 1 ? `${what} (in ${times} scenes)` : what).join(", ");
}

/** Call × errno × outcome; errnos of a call that came to the same share a row. */
class Table {
  readonly #found = new Map<string, Map<string, { outcomes: Map<string, number>; cases: number; missed: number }>>();

  add({ call, errno }: Case, words: string, missed: boolean): void {
    const errnos = this.#found.get(call) ?? new Map();
    this.#found.set(call, errnos);
    const cell = errnos.get(errno) ?? { outcomes: new Map(), cases: 0, missed: 0 };
    errnos.set(errno, cell);
    if (missed) {
      cell.missed++;
      return;
    }
    cell.cases++;
    cell.outcomes.set(words, (cell.outcomes.get(words) ?? 0) + 1);
  }

  rows(): string[][] {
    const rows: string[][] = [];
    for (const call of Object.keys(PAGES).filter((name) => this.#found.has(name))) {
      const groups = new Map<string, string[]>();
      const errnos = this.#found.get(call)!; // `!`: just filtered
      for (const [errno, { outcomes }] of [...errnos].sort()) {
        const key = [...outcomes.keys()].sort().join("; ");
        groups.set(key, [...groups.get(key) ?? [], errno]);
      }
      for (const [key, names] of groups) {
        let cases = 0, missed = 0;
        const outcomes = new Map<string, number>();
        for (const name of names) {
          const cell = errnos.get(name)!; // `!`: its name was taken from there
          cases += cell.cases;
          missed += cell.missed;
          for (const [words, times] of cell.outcomes) outcomes.set(words, (outcomes.get(words) ?? 0) + times);
        }
        const list = key === "" ? [] : key.split("; ").map((words) => `${words} (${outcomes.get(words)})`);
        rows.push([call, names.join(" "), list.join("; "), String(cases), missed ? String(missed) : ""]);
      }
    }
    return rows;
  }
}

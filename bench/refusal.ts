/** Part 2: a try that is refused, by a lock that another process holds. */
import { type Crew, type Member, RUNTIMES, withWorkers, Worker } from "./crew.ts";
import { quantile, short, time } from "./numbers.ts";
import type { Part, Row, Verdict } from "./part.ts";
import { type Contestant, contestant, keyOf, pathFor, type Plan, ratio, takeTurns } from "./turns.ts";

/** At most so many times the floor. */
const LIMIT = 1.5;

const FORMS: Record<string, readonly string[]> = {
  holdfast: ["refused-new", "refused-again"],
  "proper-lockfile": ["refused-sync", "refused-async"],
  lockfile: ["refused-sync", "refused-async"],
  "fs-ext": ["refused-sync"],
  "os-lock": ["refused-async"],
  "@jujulego/pid-file": ["refused-async"],
  pidlockfile: ["refused-async"],
  "cross-process-lock": [],
  rwlockfile: ["refused-sync", "refused-async"],
  "Deno.FsFile": ["refused-sync"],
  "flock(1)": ["refused", "refused-again"],
};
const WORDS: Record<string, string> = {
  "refused-new": "a new Lock",
  "refused-again": "a Lock, or an open file, that tries again",
  "refused-sync": "sync",
  "refused-async": "async",
  refused: "anew each time",
};

/** Turns of these members, each refused by another process of its kind, beside the floor's. */
export function refusals(crew: Crew, members: readonly Member[], plan: Plan, dir: string): Promise<Contestant[]> {
  return withWorkers([crew.floor, ...members], async ([floor, ...workers]) => {
    const holders: Worker[] = [];
    const hold = async (member: Member, path: string) => {
      const holder = new Worker(member);
      holders.push(holder);
      await holder.ask("acquire", path);
    };
    try {
      const held = pathFor(dir, crew.floor, "held");
      await hold(crew.floor, held);
      const all: Contestant[] = [];
      for (const worker of workers) {
        const { member } = worker;
        const path = pathFor(dir, member, "held");
        let failed: string | undefined;
        await hold(member, path).catch((error) => failed = error.message);
        for (const form of FORMS[member.name] ?? ["refused"]) {
          const beside = contestant(floor, form === "refused-again" ? form : "refused", held);
          all.push({ ...contestant(worker, form, path, beside), failed });
        }
      }
      await takeTurns(all, plan);
      return all;
    } finally {
      await Promise.all(holders.map((holder) => holder.kill()));
    }
  });
}

export const refusalPart: Part = async ({ crew, quick, dir }) => {
  const plan = quick ? { rounds: 5, slice: 2, warmup: 20 } : { rounds: 40, slice: 3, warmup: 80 };
  const rows = (await refusals(crew, [...crew.ours, ...crew.peers], plan, dir)).map(row);
  return {
    title: "A refused try",
    notes: [
      "Another process of the same kind holds the lock. The floor in C: open, a flock(2) that fails, close, for " +
      "a new Lock; a flock(2) that fails and nothing else for one that tries again.",
      "cross-process-lock has no try that only tries: it waits for 500 ms before it looks again.",
    ],
    rows,
    verdicts: verdicts(rows),
  };
};

function row(each: Contestant): Row {
  const { member } = each.worker;
  const base = {
    key: keyOf(2, each),
    what: WORDS[each.form],
    who: `${member.name}, ${member.where}`,
    ours: member.ours,
    to: each.form === "refused-again" ? "one failing flock(2)" : "open, one failing flock(2), close",
  };
  if (each.failed) return { ...base, words: each.failed };
  const own = each.batches.flat();
  return {
    ...base,
    ratio: ratio(each),
    ratio99: quantile(own, 0.99) / quantile(each.beside?.batches.flat() ?? [], 0.99),
    figure: `p50 ${time(quantile(own, 0.5))}, p99 ${time(quantile(own, 0.99))}`,
  };
}

function verdicts(rows: readonly Row[]): Verdict[] {
  return RUNTIMES.filter((runtime) => runtime !== "Deno, no FFI").map((runtime) => {
    const value = rows.find(({ key }) => key === `2 ${runtime}: holdfast refused-new`)?.ratio ?? NaN;
    return {
      claim: `2: a refused try is at most ${LIMIT} × one failing flock plus the opening of the file, in ${runtime}`,
      found: `${short(value)} ×`,
      met: value <= LIMIT,
    };
  });
}

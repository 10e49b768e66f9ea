/** Part 1: acquire and release, nobody else there. */
import { type Crew, type Member, type Runtime, RUNTIMES, withWorkers } from "./crew.ts";
import { quantile, short, time } from "./numbers.ts";
import type { Part, Row, Verdict } from "./part.ts";
import { type Contestant, contestant, keyOf, pathFor, type Plan, ratio, takeTurns } from "./turns.ts";

const OURS = ["tryAcquire", "acquireSync", "runSync", "acquire", "run"].flatMap((form) => [
  `${form}-new`,
  `${form}-again`,
]);
const SYNC = ["sync-new", "sync-again"], ASYNC = ["async-new", "async-again"];
const BOTH = [...SYNC, ...ASYNC];

/** Which forms a peer has. */
const PEER_FORMS: Record<string, readonly string[]> = {
  "proper-lockfile": ["sync-new", "async-new"],
  lockfile: ["sync-new", "async-new"],
  "fs-ext": BOTH,
  "os-lock": ASYNC,
  "@jujulego/pid-file": ASYNC,
  pidlockfile: ["async-new"],
  "cross-process-lock": ["async-new"],
  rwlockfile: BOTH,
  "Deno.FsFile": BOTH,
};

const forms = (member: Member): readonly string[] => member.ours ? OURS : PEER_FORMS[member.name] ?? ["new", "again"];

/** At most so many times the floor. */
const LIMITS: Record<Runtime, number | undefined> = { Bun: 2, Deno: 2.5, "Node 26": 3, "Deno, no FFI": undefined };

const WORDS: Record<string, string> = { new: "made anew each time", again: "used again" };

/** Such as `tryAcquire(), used again`. */
function formWords(form: string, ours: boolean): string {
  const [method, use = ""] = form.split("-");
  if (!use) return WORDS[method];
  return `${ours ? `${method}()` : method}, ${WORDS[use]}`;
}

/** Turns of these members, each form beside the floor's. */
export function acquisitions(
  crew: Crew,
  members: readonly Member[],
  forms: (member: Member) => readonly string[],
  plan: Plan,
  dir: string,
): Promise<Contestant[]> {
  return withWorkers([crew.floor, ...members], async ([floor, ...workers]) => {
    const all = workers.flatMap((worker) =>
      forms(worker.member).map((form) => {
        const use = form.endsWith("again") ? "again" : "new";
        const beside = contestant(floor, use, pathFor(dir, crew.floor, use));
        return contestant(worker, form, pathFor(dir, worker.member, form), beside);
      })
    );
    await takeTurns(all, plan);
    return all;
  });
}

export const acquirePart: Part = async ({ crew, quick, dir }) => {
  const plan = quick ? { rounds: 5, slice: 2, warmup: 30 } : { rounds: 50, slice: 3, warmup: 120 };
  const all = await acquisitions(crew, [...crew.ours, ...crew.peers], forms, plan, dir);
  const rows = all.map(row);
  const floors = (use: string) => all.filter(({ beside }) => beside?.form === use).flatMap(floorTimes);
  const figures = (times: number[]) => `p50 ${time(quantile(times, 0.5))}, p99 ${time(quantile(times, 0.99))}`;
  return {
    title: "Acquire and release, nobody else there",
    notes: [
      `The floor, a C program with the same system calls: ${figures(floors("new"))} for a Lock made anew; ` +
      `${figures(floors("again"))} for one used again. Ours writes its record; of the peers only those with a ` +
      "PID file write anything, and the floor writes as much as ours.",
      "`made anew each time`: the Lock, or the peer's object, or its open file. `used again`: the same one; a " +
      "peer without such a form has no such row.",
      `Batches of ${plan.slice} ms in ${plan.rounds} turns, each right after one of the floor's; a ratio is the ` +
      "median of the turns' ratios.",
    ],
    rows,
    verdicts: [...limits(rows), ...againstPeers(all)],
  };
};

const floorTimes = ({ beside }: Contestant) => beside?.batches.flat() ?? [];

function row(each: Contestant): Row {
  const { member } = each.worker;
  const base = {
    key: keyOf(1, each),
    what: formWords(each.form, member.ours),
    who: `${member.name}, ${member.where}`,
    ours: member.ours,
    to: "the floor",
  };
  if (each.failed) return { ...base, words: each.failed };
  const own = each.batches.flat();
  return {
    ...base,
    ratio: ratio(each),
    ratio99: quantile(own, 0.99) / quantile(floorTimes(each), 0.99),
    figure: `p50 ${time(quantile(own, 0.5))}, p99 ${time(quantile(own, 0.99))}`,
  };
}

/** The two forms that most programs use; the others are in the table. */
function limits(rows: readonly Row[]): Verdict[] {
  return RUNTIMES.flatMap((runtime) => {
    const limit = LIMITS[runtime];
    if (!limit) return [];
    return ["tryAcquire-new", "tryAcquire-again", "acquire-new", "acquire-again"].map((form) => {
      const ratio = rows.find(({ key }) => key === `1 ${runtime}: holdfast ${form}`)?.ratio ?? NaN;
      return {
        claim: `1: at most ${limit} × the floor in ${runtime}: ${formWords(form, true)}`,
        found: `${short(ratio)} ×`,
        met: ratio <= limit,
      };
    });
  });
}

/** Ours beside each peer of the same runtime: its synchronous form with ours, its asynchronous with ours. */
function againstPeers(all: readonly Contestant[]): Verdict[] {
  return RUNTIMES.filter((runtime) => runtime !== "Deno, no FFI").flatMap((runtime) => {
    const here = all.filter(({ worker }) => worker.member.where === runtime);
    const ours = (form: string) => here.find((each) => each.worker.member.ours && each.form === form);
    const peers = [...new Set(here.filter(({ worker }) => !worker.member.ours).map(({ worker }) => worker.member))];
    return peers.flatMap((peer) => {
      const theirs = here.filter((each) => each.worker.member === peer && !each.failed);
      const pairs = theirs.flatMap((each) => {
        const own = ours(each.form.replace("async", "acquire").replace("sync", "tryAcquire"));
        return own ? [{ form: each.form, times: ratio(own) / ratio(each) }] : [];
      });
      if (pairs.length === 0) return [];
      return [{
        claim: `1: faster than ${peer.name} in ${runtime}`,
        found: pairs.map(({ form, times }) => `${form.replace("-", " ")}: ${short(times)} × its time`).join("; "),
        met: pairs.every(({ times }) => times < 1),
      }];
    });
  });
}

/**
 * Rounds: contenders on a start barrier find a dead owner's file; some are
 * killed, some stopped for a while, at random moments. Counts how often two
 * were inside, and how often nobody could get in afterwards.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Kind } from "../../support/harness.ts";
import { Crew, type Recruit, type Worker } from "./crew.ts";
import { DAMAGED_MS, type Dead, deadOwners, type OldFile, PLANT, plant } from "./dead.ts";
import { Random } from "./random.ts";

/**
 * The contenders. Not Deno without FFI: it cannot judge a PID, so a dead owner's
 * file is "unknown" to it, and held for ever.
 */
export const MIX: readonly Kind[] = ["deno", "bun", "node26", "node20", "deno", "bun", "node26", "node20"];

/** The same without Node 20, which would need a mutant compiled. */
export const MUTANT_MIX: readonly Kind[] = ["deno", "bun", "node26", "bun", "deno", "bun", "node26", "bun"];

/** What is going to happen in a round; the same for the same seed and number. */
interface Plan {
  readonly old: OldFile;
  readonly links: number;
  /** Milliseconds inside, for each contender. */
  readonly holds: number[];
  /** `after`: milliseconds from the barrier. */
  readonly kills: { place: number; after: number }[];
  readonly stops: { place: number; after: number; long: number }[];
}

export interface RoundsOptions {
  readonly name: string;
  readonly recruits: readonly Recruit[];
  readonly rounds: number;
  readonly seed: number;
  readonly dir: string;
  /** How long a contender waits before it counts as stuck, in milliseconds. */
  readonly limit: number;
  /** Ends as soon as this many rounds had two inside. */
  readonly enough?: number;
}

export interface RoundsResult {
  readonly name: string;
  rounds: number;
  /** Rounds in which two or more were inside at once. */
  doubles: number;
  /** Rounds after which nobody could acquire. */
  stuck: number;
  /** Contenders that never got in, though nobody killed them. */
  shutOut: number;
  entered: number;
  /** Contenders that reported a stale owner: takeovers. */
  takeovers: number;
  kills: number;
  /** How many of the killed left a PID file, a takeover link or a temporary file of theirs. */
  killedHolding: number;
  killedInTakeover: number;
  killedPublishing: number;
  stops: number;
  /** What nobody expected, with the round's number. */
  readonly failures: string[];
  readonly olds: Record<OldFile, number>;
  /** Rounds with dead takeovers on top of the old file. */
  links: number;
  seconds: number;
}

function planOf(seed: number, round: number, contenders: number, ours: boolean): Plan {
  const random = new Random(seed, round);
  const places = [...Array(contenders).keys()];
  const unlucky = random.sample(places, random.below(3) + random.below(3));
  const kills = unlucky.slice(0, random.below(2) + random.below(2) * random.below(2)); // a new process is dear
  // Most early, where the takeover is; some late, where the others come in one after the other.
  const moment = () => random.next() < 0.7 ? random.between(0, 6) : random.between(0, 60);
  return {
    old: !ours ? "bare PID" : random.pick(["record", "record", "bare PID", round < 12 ? "record" : "damaged"]),
    links: ours && random.next() < 0.3 ? 1 + random.below(2) : 0,
    holds: places.map(() => random.between(0, 4)),
    kills: kills.map((place) => ({ place, after: moment() })),
    stops: unlucky.slice(kills.length).map((place) => ({ place, after: moment(), long: random.between(2, 20) })),
  };
}

const sleep = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, Math.max(milliseconds, 0)));
const clock = () => performance.timeOrigin + performance.now();

export async function runRounds(options: RoundsOptions): Promise<RoundsResult> {
  const { name, recruits, rounds, seed, dir } = options;
  const ours = recruits[0].modules.lock === "holdfast";
  const result: RoundsResult = {
    ...{ name, rounds: 0, doubles: 0, stuck: 0, shutOut: 0, entered: 0, takeovers: 0, kills: 0, killedHolding: 0 },
    ...{ killedInTakeover: 0, killedPublishing: 0, stops: 0, failures: [], seconds: 0 },
    olds: { record: 0, "bare PID": 0, damaged: 0 },
    links: 0,
  };
  const began = performance.now();
  const plans = [...Array(rounds).keys()].map((round) => planOf(seed, round, recruits.length, ours));
  const folder = (round: number) => join(dir, String(round));
  const path = (round: number) => join(folder(round), "lock");
  const prepare = (round: number, dead: Dead[]) => {
    mkdirSync(join(folder(round), "inside"), { recursive: true });
    const { old, links } = plans[round];
    if (ours) plant(path(round), old, links, dead, new Random(seed, rounds + round));
    else PLANT[recruits[0].modules.lock](path(round), dead[0]);
  };
  const early = await deadOwners(4);
  // A damaged file counts as dead only once it is old, and nothing can make it older than it is.
  for (const [round, { old }] of plans.entries()) if (old === "damaged") prepare(round, early);
  const ready = performance.now() + DAMAGED_MS;
  const crew = await Crew.start(recruits);
  try {
    for (let round = 0; round < rounds && result.doubles < (options.enough ?? Infinity); round++) {
      const plan = plans[round];
      await crew.refillAll();
      if (plan.old !== "damaged") prepare(round, await deadOwners(3)); // new ones: an old PID may be used again
      else await sleep(ready - performance.now());
      try {
        await oneRound(crew, plan, path(round), folder(round), options, result);
      } catch (error) {
        throw new Error(`${name}, seed ${seed}, round ${round}: ${error}`, { cause: error });
      }
      result.rounds++;
      result.olds[plan.old]++;
      result.links += Math.min(plan.links, 1);
      rmSync(folder(round), { recursive: true });
    }
  } finally {
    await crew.end();
  }
  result.seconds = (performance.now() - began) / 1000;
  return result;
}

async function oneRound(
  crew: Crew,
  plan: Plan,
  path: string,
  folder: string,
  { limit }: RoundsOptions,
  result: RoundsResult,
): Promise<void> {
  const note = (text: string) => void result.failures.push(`round ${result.rounds}: ${text}`);
  const options = { backend: "pidfile" };
  const inside = join(folder, "inside");
  const at = clock() + 10;
  const [doubles, entered] = [new Set<string>(), [] as boolean[]];
  const contenders = crew.workers.map(async (worker, place) => {
    try {
      const answer = await worker.call("round", { path, options, inside, at, hold: plan.holds[place], limit });
      entered[place] = answer.entered;
      if (answer.failure) note(`${worker.recruit.kind}: ${answer.failure}`);
      if (!answer.entered) return;
      result.entered++;
      result.takeovers += Math.min(answer.stale, 1);
      for (const other of answer.others) doubles.add(`${worker.pid} and ${other}`);
    } catch (error) {
      if (!crew.isDead(place)) note(String(error));
    }
  });
  const killing = plan.kills.map(async ({ place, after }) => {
    await sleep(at + after - clock());
    const { pid } = crew.workers[place];
    await crew.kill(place);
    const left = leftBy(pid, folder);
    result.kills++;
    if (left.has("P.pid")) result.killedHolding++;
    else if (left.has("link")) result.killedInTakeover++;
    else if (left.has("temporary")) result.killedPublishing++;
  });
  const stopping = plan.stops.map(async ({ place, after, long }) => {
    await sleep(at + after - clock());
    await crew.workers[place].kill("SIGSTOP");
    await sleep(long);
    await crew.workers[place].kill("SIGCONT");
    result.stops++;
  });
  await Promise.all([...contenders, ...killing, ...stopping]);
  if (doubles.size > 0) {
    result.doubles++;
    if (crew.workers[0].recruit.modules.lock === "holdfast") note(`two inside: ${[...doubles].join("; ")}`);
  }
  const alive = crew.workers.filter((_, place) => !crew.isDead(place));
  result.shutOut += alive.length - entered.filter((each, place) => each && !crew.isDead(place)).length;
  if (!await someoneCan(alive, path, join(folder, "inside"), limit)) result.stuck++;
}

/** Whether one of them gets in now that all others are out. Ours must at the first try. */
async function someoneCan(workers: Worker[], path: string, inside: string, limit: number): Promise<boolean> {
  for (const worker of workers) {
    const patience = worker.recruit.modules.lock === "holdfast" ? 0 : limit;
    const options = { backend: "pidfile" };
    const call = worker.call("round", { path, options, inside, at: 0, hold: 0, limit: patience });
    if ((await call.catch(() => undefined))?.entered) return true;
    if (patience > 0) return false; // the others would wait as long
  }
  return false;
}

/** What a killed process left of ours, by its PID in the first line; others may have removed it already. */
function leftBy(pid: number, folder: string): Set<string> {
  const left = new Set<string>();
  for (const name of readdirSync(folder)) {
    if (!name.startsWith("lock.pid")) continue;
    try {
      if (readFileSync(join(folder, name), "latin1").split("\n")[0] !== String(pid)) continue;
    } catch {
      continue; // removed since
    }
    left.add(name === "lock.pid" ? "P.pid" : name.startsWith("lock.pid.tmp-") ? "temporary" : "link");
  }
  return left;
}

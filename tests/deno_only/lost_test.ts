/**
 * `rm P` while it is held, over and over, with four contenders of four runtimes
 * that try all the time: CASES row 7. It prints how that went.
 *
 * HOLDFAST_LOST_ROUNDS: how many deletions, instead of a few.
 */
import { assert, assertEquals } from "@std/assert";
import { existsSync, readFileSync, unlinkSync } from "node:fs";
import process from "node:process";
import { type Agent, type Kind, test, within } from "../support/harness.ts";
import { open } from "../support/lockers.ts";

const ROUNDS = Number(process.env.HOLDFAST_LOST_ROUNDS ?? 12);

/** A loss is told so soon, in milliseconds, and on a busy machine a little later. */
const BOUND = 5_000;

/** How late a timer is at most from now on, in milliseconds: what the machine adds to each bound. */
function lateness() {
  let [worst, last] = [0, performance.now()];
  const timer = setInterval(() => {
    const now = performance.now();
    [worst, last] = [Math.max(worst, now - last - 20), now];
  }, 20);
  return { slack: () => 1_000 + 10 * worst, end: () => clearInterval(timer) };
}

/** When somebody was inside, in microseconds of our clock; `lost`: when he was told that he is not. */
interface Stay {
  readonly who: string;
  /** By how much these times may be wrong, in microseconds. */
  readonly error: number;
  readonly enter: number;
  readonly leave: number;
  readonly lost?: number;
  readonly reason?: string;
}

/** How each of them tries, and how long it stays inside, in milliseconds. */
const RIVALS: readonly [Kind, how: "try" | "wait", milliseconds: number][] = [
  ["deno", "try", 3],
  ["bun", "wait", 10],
  ["node26", "try", 60],
  ["deno-no-ffi", "wait", 3],
];

const HOLDERS: readonly Kind[] = ["deno", "bun", "node26"];

const clock = () => Number(process.hrtime.bigint() / 1000n);

/** Asks until it is so, without ending by itself. */
async function poll(check: () => boolean | Promise<boolean>): Promise<void> {
  while (!await check()) await new Promise((resolve) => setTimeout(resolve, 1));
}

/**
 * Deno's clock begins with its process, so each is compared with ours: it was
 * read between two readings of ours. The narrowest of many is taken.
 */
async function compareClocks(agent: Agent): Promise<{ offset: number; error: number }> {
  let best = { offset: 0, error: Infinity };
  for (let i = 0; i < 50; i++) {
    const before = clock();
    const theirs = await agent.call("clock");
    const after = clock();
    const error = (after - before) / 2;
    if (error < best.error) best = { offset: before + error - theirs, error };
  }
  assert(best.error < 5_000, `the clock of ${agent.kind} is known to ${best.error} microseconds only`);
  return best;
}

const endOf = ({ leave, lost }: Stay) => Math.min(leave, lost ?? Infinity);

/** For how long both were inside for certain, and neither was told otherwise; in milliseconds. */
const overlap = (a: Stay, b: Stay) =>
  (Math.min(endOf(a), endOf(b)) - Math.max(a.enter, b.enter) - a.error - b.error) / 1000;

/** The stays of the holders whose file was deleted, and of everybody else. */
async function show(
  { path, agent }: { path: () => string; agent: (kind: Kind) => Promise<Agent> },
  backend: "flock" | "pidfile",
  rounds: number,
) {
  const holders = await Promise.all(HOLDERS.map((kind) => agent(kind)));
  const rivals = await Promise.all(RIVALS.map(([kind]) => agent(kind)));
  const clocks = new Map<Agent, { offset: number; error: number }>();
  for (const each of [...holders, ...rivals]) {
    await each.lock(path(), { backend });
    clocks.set(each, await compareClocks(each));
  }
  const inOurs = (agent: Agent, { enter, leave, lost, reason }: Omit<Stay, "who" | "error">): Stay => {
    const { offset, error } = clocks.get(agent)!; // `!`: every agent's was compared
    return {
      who: agent.kind,
      error,
      enter: enter + offset,
      leave: leave + offset,
      lost: lost && lost + offset,
      reason,
    };
  };
  for (const [i, [, how, milliseconds]] of RIVALS.entries()) {
    await rivals[i].call("rival", { name: "lock", how, milliseconds });
  }
  const file = backend === "flock" ? path() : `${path()}.pid`;
  const stays: (Stay & { deleted: number })[] = [];
  for (let round = 0; round < rounds; round++) {
    const holder = holders[round % holders.length];
    await within(30_000, holder.call("stand", { name: "lock" }));
    const isTold = () => holder.call("isTold", { name: "lock" });
    // Every other time it is deleted before it is watched, and then the first round notices.
    if (round % 2) await within(60_000, poll(() => open(path(), holder.pid).watches > 0));
    const deleted = clock();
    unlinkSync(file);
    const again = () => existsSync(path()) && readFileSync(path(), "utf8").startsWith(`${holder.pid}\n`);
    await within(60_000, poll(async () => (backend === "flock" && again()) || await isTold()));
    stays.push({ ...inOurs(holder, await holder.call("leave", { name: "lock" })), deleted });
  }
  const others: Stay[] = [];
  for (const rival of rivals) {
    const theirs: Stay[] = await within(60_000, rival.call("calm", { name: "lock" }));
    assert(theirs.length > 0, `${rival.kind} never got in`);
    others.push(...theirs.map((stay) => inOurs(rival, stay)));
  }
  return { stays, others };
}

for (const [backend, rounds] of [["flock", ROUNDS], ["pidfile", Math.ceil(ROUNDS / 4)]] as const) {
  test(
    `signal tells every holder whose ${
      backend === "flock" ? "P" : "P.pid"
    } was deleted, or nobody else was inside, ${rounds} times`,
    async (place) => {
      const late = lateness();
      const { stays, others } = await show(place, backend, rounds).finally(late.end);
      const bound = BOUND + late.slack();
      const told = stays.filter(({ lost }) => lost !== undefined);
      const kept = stays.filter(({ lost }) => lost === undefined);
      let longest = 0, both = 0;
      for (const stay of stays) {
        const overlaps = others.map((other) => overlap(stay, other)).filter((time) => time > 0);
        if (overlaps.length > 0) both++;
        longest = Math.max(longest, ...overlaps);
        // Nobody was inside beside one who was never told.
        if (stay.lost === undefined) assertEquals(overlaps, [], `${stay.who} kept it`);
      }
      const latest = Math.max(...told.map(({ lost = Infinity, deleted, error }) => lost - deleted - error)) / 1000;
      console.log(
        `${backend}: deleted ${stays.length} times among ${others.length} stays of 4 contenders: kept ${kept.length}, ` +
          `told ${told.length}, within ${latest.toFixed(1)} ms; two inside in ${both}, for ${
            longest.toFixed(1)
          } ms at most`,
      );
      assertEquals(kept.length + told.length, rounds);
      if (backend === "pidfile") assertEquals(kept, []); // its release leaves no trace, so nobody can know
      assert(latest <= bound, `told after ${latest} ms`);
      assert(longest <= bound, `two inside for ${longest} ms`);
      // Those who came and went meanwhile excluded each other, but where one of them was told.
      const all = [...others].sort((a, b) => a.enter - b.enter);
      for (const [i, a] of all.entries()) {
        for (let j = i + 1; j < all.length && all[j].enter < endOf(a); j++) {
          assert(
            a.lost !== undefined || all[j].lost !== undefined,
            `${a.who} and ${all[j].who} for ${overlap(a, all[j])} ms`,
          );
        }
      }
    },
    { timeout: 540_000 },
  );
}

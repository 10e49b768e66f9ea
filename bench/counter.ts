/** Part 4: 2, 8 and 32 processes add to a number in a file; it must come out right. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Member, withWorkers, type Worker } from "./crew.ts";
import { fairness, median, short } from "./numbers.ts";
import { waitable } from "./pairs.ts";
import type { Part, Row } from "./part.ts";
import { pathFor } from "./turns.ts";

const CROWDS = [2, 8, 32];

/** So long, in milliseconds, those who wait when the time is up may take to come to their end. */
const PATIENCE = 8_000;

interface Found {
  readonly rate: number;
  readonly fairness: number;
  /** The largest share of one, in times of the least. */
  readonly most: number;
  readonly least: number;
  readonly wrong?: string;
}

const wall = () => performance.timeOrigin + performance.now();

export const counterPart: Part = async ({ crew, quick, dir }) => {
  const [floor, ...others] = waitable(crew);
  const crowds = quick ? CROWDS.slice(0, 2) : CROWDS;
  const span = quick ? 300 : 600;
  const floors: Map<number, Found | string>[] = [await measure(floor, crowds, span, dir)];
  const found = new Map<Member, Map<number, Found | string>>();
  for (const [i, member] of others.entries()) {
    found.set(member, await measure(member, crowds, span, dir));
    // The floor now and then, so that its figure is of the same time as the others'.
    if (i % 6 === 5) floors.push(await measure(floor, crowds, span, dir));
  }
  const best = (crowd: number) =>
    median(floors.flatMap((each) => {
      const value = each.get(crowd);
      return typeof value === "object" ? [value.rate] : [];
    }));
  const rows = [...found].flatMap(([member, each]) => crowds.map((crowd) => row(member, crowd, each.get(crowd), best)));
  const wrong = rows.filter(({ ours, words }) => ours && words);
  return {
    title: "Throughput and fairness",
    notes: [
      `Processes that add one to a number in a file, under the lock, for ${span} ms; the ratio is of the sum of all, ` +
      `to flock(2) in C: ${crowds.map((crowd) => `${short(best(crowd))} a second with ${crowd}`).join(", ")}.`,
      "Fairness is Jain's index: 1 where all got the same, 1/n where one got everything. A number that does not come " +
      "out right is WRONG, and has no ratio.",
    ],
    rows,
    verdicts: [{
      claim: "4: ours loses no update, with 2, 8 or 32 processes, in any runtime",
      found: wrong.length === 0 ? "none lost" : wrong.map(({ who, words }) => `${who}: ${words}`).join("; "),
      met: wrong.length === 0,
    }],
  };
};

async function measure(member: Member, crowds: number[], span: number, dir: string) {
  const most = Math.max(...crowds);
  return await withWorkers(Array<Member>(most).fill(member), async (workers) => {
    const found = new Map<number, Found | string>();
    try {
      for (const worker of workers) await worker.ready();
      for (const crowd of crowds) found.set(crowd, await fight(member, workers.slice(0, crowd), span, dir));
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      for (const crowd of crowds) if (!found.has(crowd)) found.set(crowd, reason);
    }
    return found;
  });
}

async function fight(member: Member, workers: readonly Worker[], span: number, dir: string): Promise<Found | string> {
  const path = pathFor(dir, member, `fight${workers.length}`);
  const counter = join(dir, `counter-${workers.length}`);
  writeFileSync(counter, "0");
  const from = wall() + 100;
  const answers = Promise.all(
    workers.map((worker) => worker.ask<{ times: number; failures: number }>("count", path, counter, from, from + span)),
  );
  answers.catch(() => {}); // told by the race, unless that is over
  const results = await Promise.race([answers, sleep(span + PATIENCE)]);
  if (!results) throw new Error(`did not come to an end within ${PATIENCE / 1000} s`);
  const shares = results.map(({ times }) => times);
  const sum = shares.reduce((a, b) => a + b, 0);
  const failures = results.reduce((all, each) => all + each.failures, 0);
  const value = Number(readFileSync(counter, "utf8"));
  return {
    rate: sum / span * 1000,
    fairness: fairness(shares),
    most: Math.max(...shares),
    least: Math.min(...shares),
    wrong: value !== sum
      ? `WRONG: ${sum - value} of ${sum} updates lost${failures ? `, ${failures} calls failed` : ""}`
      : failures
      ? `${failures} calls failed`
      : undefined,
  };
}

function row(member: Member, crowd: number, found: Found | string | undefined, best: (crowd: number) => number): Row {
  const base = {
    key: `4 ${member.where}: ${member.name} ${crowd}`,
    what: `${crowd} processes`,
    who: `${member.name}, ${member.where}`,
    ours: member.ours,
    to: "flock(2) in C, increments a second",
  };
  if (typeof found !== "object") return { ...base, words: found };
  if (found.rate === 0) return { ...base, words: "nobody had the lock in that time" };
  const { rate, least, most, wrong } = found;
  return {
    ...base,
    ratio: wrong?.startsWith("WRONG") || !(rate > 0) ? undefined : rate / best(crowd),
    figure: `${short(rate)} a second, fairness ${found.fairness.toFixed(2)} (${least} to ${most})`,
    words: wrong,
  };
}

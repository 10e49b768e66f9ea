/** Part 3: hand-over to a waiter, after a release and after kill -9 of the holder. */
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "./crew.ts";
import { median, quantile, time } from "./numbers.ts";
import { eachPair, type Pair, waitable, withPairs } from "./pairs.ts";
import type { Part, Row } from "./part.ts";

/** So long, in milliseconds, a waiter is waited for after its holder was killed. */
const PATIENCE = 3000;

interface Taken {
  readonly pair: Pair;
  readonly released: number[];
  readonly killed: number[];
  /** Whether it was still waiting when patience ended. */
  stuck: boolean;
}

const wall = () => performance.timeOrigin + performance.now();

export const handoverPart: Part = ({ crew, quick, dir }) =>
  withPairs(waitable(crew), dir, async (pairs) => {
    const all = pairs.map((pair): Taken => ({ pair, released: [], killed: [], stuck: false }));
    for (let round = 0; round < (quick ? 3 : 30); round++) await release(all);
    for (let round = 0; round < (quick ? 1 : 6); round++) await kill(all);
    const floor = all[0];
    return {
      title: "Hand-over to a waiter",
      notes: [
        "From the moment before the release, or the kill, of a holder to the grant of a waiter in another process that " +
        "has waited for 20 to 300 ms. All wait at the same time, and their holders release one after another.",
        `After kill -9 a waiter is given ${
          PATIENCE / 1000
        } s. 30 releases and 6 kills: the p99 is the longest of them.`,
        "Peers without a way to wait (proper-lockfile, @jujulego/pid-file, pidlockfile) try again every 1 to 4 ms; the " +
        "others wait as they do of themselves: filelock by a try every 50 ms, lockfile every 100 ms, portalocker every " +
        "250 ms, cross-process-lock every 500 ms, rwlockfile at growing intervals.",
      ],
      rows: all.flatMap((each) => rows(each, floor)),
      verdicts: [],
    };
  });

/** Everybody holds and waits; then one after another releases. */
async function release(all: readonly Taken[]): Promise<void> {
  const waits = await begin(all);
  await sleep(20 + Math.random() * 280);
  await eachPair(all.map(({ pair }) => pair), async (pair) => {
    const taken = all.find((each) => each.pair === pair);
    const from = await pair.holder.ask<number>("release");
    taken?.released.push(await waits.get(pair)!<number>() - from); // `!`: begun above
    await pair.waiter.ask("release");
  });
}

type Answers = Map<Pair, <T>() => Promise<T>>;

async function begin(all: readonly Taken[]): Promise<Answers> {
  const waits: Answers = new Map();
  await eachPair(all.filter(({ stuck }) => !stuck).map(({ pair }) => pair), async (pair) => {
    await pair.holder.ask("acquire", pair.path);
    waits.set(pair, pair.waiter.tell("acquire", pair.path));
  });
  return waits;
}

async function kill(all: readonly Taken[]): Promise<void> {
  const waits = await begin(all);
  await sleep(300);
  await eachPair([...waits.keys()], async (pair) => {
    const taken = all.find((each) => each.pair === pair)!; // `!`: its pairs are of all
    const from = wall();
    const killed = pair.holder.kill();
    const answer = waits.get(pair)!<number>(); // `!`: a key of it
    const at = await Promise.race([answer, sleep(PATIENCE, undefined, { ref: false })]);
    await killed;
    answer.catch(() => {}); // it is killed while it still waits
    if (at === undefined) {
      taken.stuck = true;
      return;
    }
    taken.killed.push(at - from);
    await pair.waiter.ask("release");
    pair.holder = new Worker(pair.member);
  });
  await eachPair([...waits.keys()], async ({ holder }) => void await holder.ready());
}

function rows({ pair, released, killed, stuck }: Taken, floor: Taken): Row[] {
  const { member, failed } = pair;
  const row = (what: string, key: string, own: number[], theirs: number[]): Row => {
    const base = {
      key: `3 ${member.where}: ${member.name} ${key}`,
      what,
      who: `${member.name}, ${member.where}`,
      ours: member.ours,
      to: "flock(2) in C, which waits in the kernel",
    };
    if (own.length === 0) {
      return {
        ...base,
        words: stuck && !failed ? `still waiting ${PATIENCE / 1000} s after` : failed ?? "not measured",
      };
    }
    const percentiles = [0.5, 0.99].map((part) => time(quantile(own, part) * 1000));
    return {
      ...base,
      ratio: median(own) / median(theirs),
      ratio99: quantile(own, 0.99) / quantile(theirs, 0.99),
      figure: `p50 ${percentiles[0]}, p99 ${percentiles[1]}`,
      words: failed,
    };
  };
  return [
    row("after release", "release", released, floor.released),
    row("after kill -9", "kill", killed, floor.killed),
  ];
}

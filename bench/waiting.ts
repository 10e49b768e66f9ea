/** Part 5: what a process pays for waiting. */
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { short } from "./numbers.ts";
import { eachPair, type Pair, waitable, withPairs } from "./pairs.ts";
import type { Part } from "./part.ts";

/** Processor time of all threads of a process, in milliseconds; the kernel counts it in nanoseconds. */
function cpu(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`);
  return threads.reduce((sum, thread) => {
    const [ran] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ");
    return sum + Number(ran) / 1e6;
  }, 0);
}

export const waitingPart: Part = ({ crew, quick, dir }) =>
  withPairs(waitable(crew), dir, async (pairs) => {
    await eachPair(pairs, async ({ holder, waiter, path }) => {
      await holder.ask("acquire", path);
      waiter.tell("acquire", path);
    });
    const early = await span(pairs, 500, quick ? 500 : 1000);
    const late = await span(pairs, quick ? 0 : 4000, quick ? 1000 : 8000);
    return {
      title: "What waiting costs",
      notes: [
        "Processor time of a waiting process, all threads, by the kernel's count, all kinds at the same time: in the " +
        "first second or so, and after five seconds. The ratio is to a core: 0.01 × is one per cent of one.",
      ],
      rows: pairs.flatMap((pair) =>
        ([["first second", early], ["after 5 s", late]] as const).map(([what, found]) => {
          const { member, failed } = pair;
          const value = found.get(pair);
          return {
            key: `5 ${member.where}: ${member.name} ${what}`,
            what,
            who: `${member.name}, ${member.where}`,
            ours: member.ours,
            to: "a core",
            ratio: value === undefined ? undefined : value / 1000,
            figure: value === undefined ? undefined : `${short(value)} ms a second`,
            words: value === undefined ? failed : undefined,
          };
        })
      ),
      verdicts: [],
    };
  });

/** Milliseconds of processor a second. */
async function span(pairs: readonly Pair[], before: number, milliseconds: number): Promise<Map<Pair, number>> {
  await sleep(before);
  const at = new Map<Pair, number>();
  const from = performance.now();
  const look = async (fn: (pair: Pair) => void) =>
    await eachPair(pairs, (pair) => new Promise((resolve) => resolve(fn(pair))));
  await look((pair) => at.set(pair, cpu(pair.waiter.pid)));
  await sleep(milliseconds);
  const found = new Map<Pair, number>();
  await look((pair) => {
    const spent = cpu(pair.waiter.pid) - (at.get(pair) ?? 0);
    found.set(pair, spent / (performance.now() - from) * 1000);
  });
  return found;
}

/** A holder and a waiter of each kind, for what happens between "held" and "mine". */
import type { Crew, Member } from "./crew.ts";
import { Worker } from "./crew.ts";
import { pathFor } from "./turns.ts";

/** Those that can wait: all of ours, and each peer once; of those from npm, in Node 26. */
export const waitable = (crew: Crew): Member[] => [
  crew.flock,
  ...crew.ours,
  ...crew.peers.filter(({ name, where }) => where === "Node 26" || name === "Deno.FsFile" || where === "Python"),
  ...crew.peers.filter(({ name }) => name === "flock(1)"),
];

export interface Pair {
  readonly member: Member;
  readonly path: string;
  holder: Worker;
  readonly waiter: Worker;
  /** Why it gave up. */
  failed?: string;
}

const text = (error: unknown) => error instanceof Error ? error.message : String(error);

/** Does it for each that has not failed; what it throws is that pair's failure. */
export async function eachPair(pairs: readonly Pair[], fn: (pair: Pair) => Promise<void>): Promise<void> {
  for (const pair of pairs) {
    if (!pair.failed) await fn(pair).catch((error) => pair.failed = text(error));
  }
}

/** Starts pairs, does something with them, and ends them. */
export async function withPairs<T>(
  members: readonly Member[],
  dir: string,
  fn: (pairs: Pair[]) => Promise<T>,
): Promise<T> {
  const pairs = members.map((member): Pair => ({
    member,
    path: pathFor(dir, member, "pair"),
    holder: new Worker(member),
    waiter: new Worker(member),
  }));
  try {
    await eachPair(pairs, async ({ holder, waiter }) => {
      await holder.ready();
      await waiter.ready();
    });
    return await fn(pairs);
  } finally {
    await Promise.all(pairs.flatMap(({ holder, waiter }) => [holder.kill(), waiter.kill()]));
  }
}

/** Hundreds of pending acquire() calls in one process: what they cost, and what they do not hold up. */
import { assert, assertEquals } from "@std/assert";
import { readFile } from "node:fs/promises";
import process from "node:process";
import { Lock } from "../mod.ts";
import { mustBlock, type Place, test, within } from "./support/harness.ts";
import { closed, open } from "./support/lockers.ts";
import { until } from "./support/pid_files.ts";

const MANY = 600;
const NUMBERS = Array.from({ length: MANY }, (_, i) => i);

/** So many callers that wait for an agent's lock for longer than a waiter does without a watcher. */
async function waiting({ agent, path }: Pick<Place, "agent" | "path">, times: number, lockOf: (i: number) => Lock) {
  const holder = await agent();
  await holder.lock(path());
  assertEquals(await holder.tryAcquire(), true);
  const served: number[] = [];
  const all = NUMBERS.slice(0, times).map(async (i) => {
    const lock = lockOf(i);
    await lock.acquire();
    served.push(i);
    lock.release();
  });
  const blocked = await mustBlock(Promise.race(all));
  await holder.call("block", { milliseconds: 100 });
  return {
    served,
    async finish() {
      await holder.release();
      await blocked.done();
      await within(60_000, Promise.all(all));
    },
  };
}

const ways: [string, (path: string) => (i: number) => Lock][] = [
  ["one object", (path) => {
    const lock = new Lock(path);
    return () => lock;
  }],
  ["an object each", (path) => () => new Lock(path)],
];

for (const [name, make] of ways) {
  test(`acquire() called ${MANY} times on ${name} holds up no file access and no timer, and serves all in order`, async (place) => {
    const { served, finish } = await waiting(place, MANY, make(place.path()));
    for (let i = 0; i < 20; i++) {
      await within(60_000, readFile(new URL(import.meta.url)));
      await within(60_000, new Promise((resolve) => setTimeout(resolve, 1)));
    }
    assertEquals(served, []);
    await finish();
    assertEquals(served, NUMBERS);
  });

  test(`acquire() opens and watches no more for ${MANY} calls on ${name} than for one, and nothing afterwards`, async (place) => {
    const before = open(place.dir);
    const watching = () => until("the first one watches", () => open(place.dir).watches > before.watches);
    const few = await waiting(place, 1, make(place.path()));
    await watching();
    const one = open(place.dir);
    await few.finish();
    const between = await closed(place.dir, before.watches);
    const many = await waiting(place, MANY, make(place.path()));
    await watching();
    const all = open(place.dir);
    await many.finish();
    const after = await closed(place.dir, before.watches);

    assertEquals([before.files, one.files, between.files, all.files, after.files], [0, 1, 0, 1, 0]);
    assertEquals(one.watches - before.watches, 1, "the test sees watches");
    assertEquals([between.watches, all.watches, after.watches], [before.watches, one.watches, before.watches]);
    // A runtime keeps some of its own, such as an inotify descriptor, and each agent has its pipes.
    assert(after.all - before.all < 16, `${JSON.stringify({ before, one, between, all, after })}`);
  });
}

test(`acquire() called ${MANY} times asks the kernel no more often than one call does`, async (place) => {
  const cost = async (times: number) => {
    const { finish } = await waiting(place, times, () => new Lock(place.path()));
    await within(60_000, readFile(new URL(import.meta.url)));
    const before = process.cpuUsage();
    const began = performance.now();
    while (performance.now() - began < 300) await new Promise((resolve) => setTimeout(resolve, 10));
    const { user, system } = process.cpuUsage(before);
    await finish();
    return (user + system) / 1_000;
  };
  const [one, many] = [await cost(1), await cost(MANY)];
  // In milliseconds of the 300: 600 pollers would use all of it.
  assert(many < 2 * one + 100, `one waiter: ${one} ms, ${MANY}: ${many} ms`);
});

/** acquire({ signal }): an abort before, during, and in the same tick as the grant. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { existsSync, readdirSync } from "node:fs";
import process from "node:process";
import { Lock } from "../mod.ts";
import { mustBlock, test, within } from "./support/harness.ts";
import { countedSignal } from "./support/lockers.ts";

const reason = new Error("on purpose");

/** One try by a stranger, who gives it back at once. */
function isFree(path: string): boolean {
  using stranger = new Lock(path);
  return stranger.tryAcquire();
}

/** Numbers that look random and are the same in each run. */
function random(seed: number): (below: number) => number {
  return (below) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor(seed / 2 ** 32 * below);
  };
}

/** A moment later: by so many microtasks, or in a later turn of the event loop. */
async function later(hops: number): Promise<void> {
  if (hops > 8) return await new Promise((resolve) => setImmediate(resolve));
  for (let i = 0; i < hops; i++) await undefined;
}

test("acquire() with an aborted signal rejects with its reason and touches nothing on disk", async ({ path, dir }) => {
  const signal = AbortSignal.abort(reason);
  const lock = new Lock(path());
  assertEquals(await assertRejects(() => lock.acquire({ signal })), reason);
  assertEquals(await assertRejects(() => lock.run(() => assert(false, "it must not be called"), { signal })), reason);
  assertEquals([lock.held, lock.backend, readdirSync(dir)], [false, undefined, []]);
  const missing = new Lock(path("no/such/directory.lock"));
  assertEquals(await assertRejects(() => missing.acquire({ signal })), reason); // and not ENOENT
});

test("acquire() with an aborted signal rejects also where the same object could enter again", async ({ path }) => {
  const lock = new Lock(path(), { reentrant: true });
  await lock.acquire();
  assertEquals(await assertRejects(() => lock.acquire({ signal: AbortSignal.abort(reason) })), reason);
  lock.release();
  assertEquals(lock.held, false);
});

test("acquire() rejects with the reason of an abort during the wait, also one that is no Error", async ({ path }) => {
  const holder = await new Lock(path()).acquire();
  for (const why of [reason, "text", undefined]) {
    const controller = new AbortController();
    const lock = new Lock(path());
    const blocked = await mustBlock(lock.acquire({ signal: controller.signal }));
    controller.abort(why);
    const caught = await blocked.done().then(() => "granted", (error) => error);
    if (why === undefined) assertEquals(caught.name, "AbortError");
    else assertEquals(caught, why);
    assertEquals([lock.held, isFree(path())], [false, false]);
  }
  holder.release();
});

test("acquire() does not mind an abort after it was granted, even in the same tick", async ({ path }) => {
  const controller = new AbortController();
  const lock = new Lock(path());
  const granted = lock.acquire({ signal: controller.signal });
  assertEquals(lock.held, true); // free, so granted at once
  controller.abort(reason);
  assertEquals(await within(60_000, granted), lock);
  assertEquals([lock.held, isFree(path())], [true, false]);
  lock.release();
  assertEquals(isFree(path()), true);
});

test("acquire() is never both granted and rejected, however abort and grant race", async ({ path }) => {
  const below = random(4);
  const outcomes = { granted: 0, rejected: 0 };
  for (let round = 0; round < 400; round++) {
    const holder = new Lock(path()).acquireSync();
    const oneObject = below(2) ? new Lock(path()) : undefined;
    const waiters = Array.from({ length: 1 + below(4) }, () => {
      const controller = new AbortController();
      const lock = oneObject ?? new Lock(path());
      let settled = 0;
      const done = lock.acquire({ signal: controller.signal }).then(
        () => {
          assertEquals([++settled, lock.held, isFree(path())], [1, true, false]);
          outcomes.granted++;
          lock.release();
        },
        (error) => {
          assertEquals([++settled, error], [1, reason]);
          if (!oneObject) assertEquals(lock.held, false);
          outcomes.rejected++;
        },
      );
      return { lock, done, abort: () => controller.abort(reason) };
    });
    if (below(2)) await later(9); // they wait by now, or have only just begun to
    const actions = [
      later(below(10)).then(() => holder.release()),
      ...waiters.filter(() => below(3) > 0).map(({ abort }) => later(below(12)).then(abort)),
    ];
    await Promise.all(actions);
    await within(60_000, Promise.all(waiters.map(({ done }) => done)));
    for (const { lock } of waiters) assertEquals(lock.held, false);
    assertEquals(isFree(path()), true, `round ${round}`);
  }
  assert(outcomes.granted > 50 && outcomes.rejected > 50, JSON.stringify(outcomes)); // else nothing has raced
});

test("acquire() aborted in the tick of the release leaves the lock to the next in line", async ({ path }) => {
  for (const abortFirst of [true, false]) {
    const holder = new Lock(path()).acquireSync();
    const controller = new AbortController();
    const [first, second] = [new Lock(path()), new Lock(path())];
    const one = first.acquire({ signal: controller.signal });
    const two = second.acquire();
    const blocked = await mustBlock(Promise.race([one, two]));
    if (abortFirst) controller.abort(reason);
    holder.release();
    controller.abort(reason);
    assertEquals(await one.catch((error) => error), reason); // it was woken, but not granted yet
    assertEquals(await within(60_000, two), second);
    await blocked.done().catch((error) => assertEquals(error, reason));
    assertEquals([first.held, second.held], [false, true]);
    second.release();
  }
});

test("acquire() leaves no listener on its signal, however it ends, and 600 waiters on one make no warning", async ({ path }) => {
  const warnings: Error[] = [];
  const warn = (warning: Error) => void warnings.push(warning);
  process.on("warning", warn);
  try {
    const { controller, signal, listeners } = countedSignal();
    (await new Lock(path()).acquire({ signal })).release();
    assertEquals(listeners(), 0);
    const holder = await new Lock(path()).acquire();
    await assertRejects(() => new Lock(path()).acquire({ signal, timeout: 30 }), Error, "Cannot acquire");
    assertEquals(listeners(), 0);

    const all = Array.from({ length: 600 }, () => new Lock(path()).acquire({ signal }));
    const granted = await mustBlock(all[0]);
    assertEquals(listeners(), 1); // one for all, because Node warns of more than 10
    holder.release();
    (await granted.done()).release();
    controller.abort(reason);
    await Promise.allSettled(all.slice(2));
    await all[1].then((lock) => lock.release(), () => {}); // it may have been granted or not
    assertEquals(listeners(), 0);
    await later(9);
    assertEquals(warnings, []);
  } finally {
    process.off("warning", warn);
  }
  assertEquals([existsSync(path()), isFree(path())], [true, true]);
});

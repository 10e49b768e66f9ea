/** acquire() while others wait too: the order, what a wait leaves behind, and how it ends. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { readdirSync, readFileSync } from "node:fs";
import { Lock, LockTimeoutError } from "../mod.ts";
import { type Agent, mustBlock, type Place, test, within } from "./support/harness.ts";
import { kernelHolders, nothingOpen } from "./support/lockers.ts";

/** An agent that holds the lock. */
async function holder({ agent, path }: Pick<Place, "agent" | "path">): Promise<Agent> {
  const holder = await agent();
  await holder.lock(path());
  assertEquals(await holder.tryAcquire(), true);
  return holder;
}

const NUMBERS = Array.from({ length: 20 }, (_, i) => i);
const turn = () => new Promise((resolve) => setImmediate(resolve)); // lets whoever wants to push in

/** Twenty waiters; the numbers of those that were served, in that order. */
function queue(lockOf: (i: number) => Lock): { served: number[]; all: Promise<void>[] } {
  const served: number[] = [];
  const all = NUMBERS.map(async (i) => {
    const lock = lockOf(i);
    await lock.acquire();
    served.push(i);
    await turn();
    lock.release();
  });
  return { served, all };
}

test("acquire() on one object serves its callers first come, first served", async ({ path }) => {
  const lock = new Lock(path());
  await lock.acquire();
  const { served, all } = queue(() => lock);
  const blocked = await mustBlock(Promise.race(all));
  lock.release();
  await blocked.done();
  await within(60_000, Promise.all(all));
  assertEquals(served, NUMBERS);
});

test("acquire() on several objects with one path serves their callers first come, first served", async ({ path }) => {
  const first = new Lock(path());
  await first.acquire();
  const { served, all } = queue(() => new Lock(path()));
  const blocked = await mustBlock(Promise.race(all));
  first.release();
  await blocked.done();
  await within(60_000, Promise.all(all));
  assertEquals(served, NUMBERS);
});

test("acquire() of several callers is served in their order too after another process has released", async (place) => {
  const other = await holder(place);
  const shared = new Lock(place.path());
  const { served, all } = queue((i) => i % 2 ? shared : new Lock(place.path()));
  const blocked = await mustBlock(Promise.race(all));
  await other.release();
  await blocked.done();
  await within(60_000, Promise.all(all));
  assertEquals(served, NUMBERS);
});

test("acquire() on one path does not wait behind those who wait for another", async ({ path }) => {
  const first = await new Lock(path("a.lock")).acquire();
  const waits = new Lock(path("a.lock")).acquire();
  const blocked = await mustBlock(waits);
  const other = await within(60_000, new Lock(path("b.lock")).acquire());
  other.release();
  first.release();
  (await blocked.done()).release();
});

test("acquire() that timed out leaves no ghost: when the holder releases, a third process has the lock at once", async (place) => {
  const { path, dir, agent } = place;
  const [other, third] = [await holder(place), await agent()];
  await third.lock(path());
  const lock = new Lock(path());
  const error = await assertRejects(() => lock.acquire({ timeout: 100 }), LockTimeoutError);
  assertEquals([error.code, error.path, error.holder?.pid], ["ETIMEDOUT", path(), other.pid]);
  assertEquals(lock.held, false);
  await nothingOpen(dir);
  await other.release();
  assertEquals(await third.tryAcquire(), true);
  await turn();
  assertEquals([lock.held, kernelHolders(path())], [false, [third.pid]]);
  await third.release();
  assertEquals(readFileSync(path(), "utf8"), ""); // no ghost has written its name either
});

test("acquire() that is aborted leaves no ghost either", async (place) => {
  const { path, dir, agent } = place;
  const [other, third] = [await holder(place), await agent()];
  await third.lock(path());
  const lock = new Lock(path());
  const controller = new AbortController();
  const blocked = await mustBlock(lock.acquire({ signal: controller.signal }));
  const reason = new Error("on purpose");
  controller.abort(reason);
  assertEquals(await assertRejects(() => blocked.done()), reason);
  assertEquals(lock.held, false);
  await nothingOpen(dir);
  await other.release();
  assertEquals(await third.tryAcquire(), true);
  assertEquals([lock.held, kernelHolders(path())], [false, [third.pid]]);
});

test("acquire() names the holder when it times out behind another waiter of its own process", async (place) => {
  const other = await holder(place);
  const waits = new Lock(place.path()).acquire();
  const error = await assertRejects(() => new Lock(place.path()).acquire({ timeout: 50 }), LockTimeoutError);
  await other.release();
  (await within(60_000, waits)).release();
  assertEquals(error.holder?.pid, other.pid, error.message);
});

test("acquire() with a timeout of 0 is one try, and 0.5, 2^31, 2^40 and Infinity wait", async (place) => {
  const other = await holder(place);
  for (const timeout of [0, 0.5]) {
    await assertRejects(() => within(60_000, new Lock(place.path()).acquire({ timeout })), LockTimeoutError);
  }
  const waits = [2 ** 31, 2 ** 40, Infinity].map(async (timeout) => {
    (await new Lock(place.path()).acquire({ timeout })).release();
  });
  const blocked = await mustBlock(Promise.race(waits));
  await other.release();
  await blocked.done();
  await within(60_000, Promise.all(waits));
});

test("acquire() whose time is up, or that is aborted, in the middle of the line leaves the others in order", async ({ path }) => {
  for (const lockOf of [(lock: Lock) => lock, () => new Lock(path())]) {
    const first = await new Lock(path()).acquire();
    const one = new Lock(path());
    const controller = new AbortController();
    const served: number[] = [];
    const all = NUMBERS.map(async (i) => {
      const lock = lockOf(one);
      const options = [{}, { timeout: 30 }, { signal: controller.signal }, {}][i % 4];
      try {
        await lock.acquire(options);
      } catch (error) {
        return error;
      }
      served.push(i);
      await turn();
      lock.release();
    });
    const late = await within(60_000, Promise.all(all.filter((_, i) => i % 4 === 1)));
    assert(late.every((error) => error instanceof LockTimeoutError));
    const blocked = await mustBlock(all[0]);
    const reason = new Error("on purpose");
    controller.abort(reason);
    assertEquals(await within(60_000, all[2]), reason);
    first.release();
    await blocked.done();
    await within(60_000, Promise.all(all));
    assertEquals(served, NUMBERS.filter((i) => i % 4 === 0 || i % 4 === 3));
    assertEquals(one.held, false);
  }
});

test("acquire() is not forgotten when it joins a line as its last waiters leave it", async ({ path }) => {
  // The line is thrown away when it is empty; whoever comes in that moment must not be thrown away with it.
  for (let hops = 0; hops < 12; hops++) {
    const lock = await new Lock(path()).acquire();
    const controller = new AbortController();
    const { signal } = controller;
    const leaving = [lock.acquire({ signal })];
    let joined: Promise<Lock> | undefined;
    signal.addEventListener("abort", async () => {
      for (let i = 0; i < hops; i++) await undefined;
      joined = lock.acquire();
    });
    leaving.push(lock.acquire({ signal }));
    controller.abort();
    await Promise.allSettled(leaving);
    await turn();
    lock.release();
    assert(joined);
    (await within(60_000, joined)).release();
  }
});

test("acquire() that waits lets its process end by SIGTERM and by process.exit", async (place) => {
  const other = await holder(place);
  const ways = [["SIGTERM", { code: null, signal: "SIGTERM" }], ["process.exit", { code: 0, signal: null }]] as const;
  for (const [way, end] of ways) {
    const waiter = await place.agent();
    await waiter.lock(place.path());
    assertEquals(await waiter.tryAcquire(), false); // and the runtime has loaded all that a wait takes
    waiter.write(`${JSON.stringify({ id: "wait", command: "timed", name: "lock" })}\n`);
    assertEquals(JSON.parse(await waiter.line()), { waits: true });
    const blocked = await mustBlock(waiter.line());
    const ended = way === "SIGTERM" ? (await waiter.kill("SIGTERM"), waiter.ended) : waiter.die(way);
    await assertRejects(() => blocked.done(), Error, "ended without a line");
    assertEquals(await within(60_000, ended), end);
  }
  assertEquals(kernelHolders(place.path()), [other.pid]);
});

test("acquire() keeps nothing running after a long wait that was granted, or that was not", async (place) => {
  const other = await holder(place);
  for (const granted of [false, true]) {
    const waiter = await place.agent();
    await waiter.lock(place.path());
    const call = waiter.call("acquire", { name: "lock", options: granted ? {} : { timeout: 300 } });
    if (granted) {
      const blocked = await mustBlock(call);
      await other.release();
      await blocked.done();
      await waiter.release();
    } else {
      await assertRejects(() => call, Error, "Cannot acquire");
    }
    waiter.close(); // its event loop has nothing left to wait for
    assertEquals(await within(60_000, waiter.ended), { code: 0, signal: null });
  }
  assertEquals(readdirSync(place.dir), ["a.lock"]);
});

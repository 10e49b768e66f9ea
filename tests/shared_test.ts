/** mode: "shared". Readers together, a writer alone, and neither for ever. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { existsSync, readdirSync } from "node:fs";
import process from "node:process";
import { Lock, LockTimeoutError } from "../mod.ts";
import { type Agent, mustBlock, type Place, test, within } from "./harness.ts";
import { kernelHolders, nothingOpen } from "./lockers.ts";

const reader = (path: string) => new Lock(path, { mode: "shared" });

/** An agent that holds the lock shared. */
async function holder({ agent, path }: Pick<Place, "agent" | "path">): Promise<Agent> {
  const holder = await agent();
  await holder.lock(path(), { mode: "shared" });
  assertEquals(await holder.tryAcquire(), true);
  return holder;
}

/** Agents whose tasks each hold the lock shared nearly all the time, so that somebody always does. */
async function stream({ agent, path }: Pick<Place, "agent" | "path">, agents: number, locks: number) {
  const all = await Promise.all(Array.from({ length: agents }, () => agent()));
  for (const each of all) {
    const names = Array.from({ length: locks }, (_, i) => `reader ${i}`);
    for (const name of names) await each.lock(path(), { mode: "shared" }, name);
    await each.call("hold", { names, milliseconds: 25 });
  }
  return all;
}

/** Until a writer that waits has the turn. */
async function hasTurn(path: string, pid: number): Promise<void> {
  const look = async () => {
    while (!kernelHolders(`${path}.turn`).includes(pid)) await new Promise((resolve) => setTimeout(resolve, 1));
  };
  await within(10_000, look());
}

test("tryAcquire() shared lets readers in together, of one process and of several, and no writer", async ({ path, agent }) => {
  const other = await agent();
  await other.lock(path(), { mode: "shared" }, "reader");
  await other.lock(path(), {}, "writer");
  const [one, two, writer] = [reader(path()), reader(path()), new Lock(path())];
  assertEquals([one.tryAcquire(), two.tryAcquire(), await other.tryAcquire("reader")], [true, true, true]);
  assertEquals([writer.tryAcquire(), await other.tryAcquire("writer")], [false, false]);
  one.release();
  two.release();
  assertEquals([writer.tryAcquire(), await other.tryAcquire("writer")], [false, false]); // one reader is left
  await other.release("reader");
  assertEquals(writer.tryAcquire(), true);
  assertEquals([one.tryAcquire(), await other.tryAcquire("reader")], [false, false]);
  writer.release();
  assertEquals(await other.tryAcquire("reader"), true);
});

test("acquire() shared waits for a writer, and all readers that wait get in", async ({ path, agent }) => {
  const writer = await agent();
  await writer.lock(path());
  assertEquals(await writer.tryAcquire(), true);
  const readers = Array.from({ length: 10 }, () => reader(path()).acquire());
  const blocked = await mustBlock(Promise.race(readers));
  await writer.release();
  await blocked.done();
  for (const each of await within(10_000, Promise.all(readers))) each.release();
});

test("acquire() exclusive is served though four processes hold the lock shared without a gap", async (place) => {
  const readers = await stream(place, 4, 1);
  const writer = await within(20_000, new Lock(place.path()).acquire());
  assertEquals([writer.held, kernelHolders(place.path())], [true, [process.pid]]);
  writer.release();
  // And they got in before and after it: the stream was one.
  for (const each of readers) assert(await within(10_000, each.call("stop")) > 0);
});

test("acquireSync() exclusive is served though four processes hold the lock shared without a gap", async (place) => {
  const readers = await stream(place, 4, 1);
  const writer = new Lock(place.path()).acquireSync({ timeout: 20_000 });
  assertEquals(writer.held, true);
  writer.release();
  for (const each of readers) assert(await within(10_000, each.call("stop")) > 0);
});

test("acquire() exclusive is served though one process holds the lock shared without a gap, by four objects", async (place) => {
  const [readers] = await stream(place, 1, 4);
  const writer = await within(20_000, new Lock(place.path()).acquire());
  assertEquals(kernelHolders(place.path()), [process.pid]);
  writer.release();
  assert(await within(10_000, readers.call("stop")) > 0);
});

test("acquire() exclusive keeps new readers of other processes waiting, until it is done or gives up", async (place) => {
  const { path, agent } = place;
  const [first, second] = [await holder(place), await agent()];
  await second.lock(path(), { mode: "shared" });
  assertEquals(await second.tryAcquire(), true);
  await second.release();

  const writer = new Lock(path());
  for (const givesUp of [true, false]) {
    const controller = new AbortController();
    const blocked = await mustBlock(writer.acquire({ signal: controller.signal }));
    assertEquals(await second.tryAcquire(), false);
    const error = await assertRejects(() => second.call("acquire", { name: "lock", options: { timeout: 50 } }));
    assertEquals(error.name, "LockTimeoutError");
    if (!givesUp) {
      await first.release();
      await blocked.done();
      assertEquals(await second.tryAcquire(), false);
      writer.release();
    } else {
      await assertRejects(() => new Lock(path()).acquire({ timeout: 50 }), LockTimeoutError); // another, in vain
      assertEquals(await second.tryAcquire(), false); // the first one still waits
      controller.abort();
      await assertRejects(() => blocked.done());
      assertEquals(await second.tryAcquire(), true);
      await second.release();
    }
  }
  assertEquals(await second.tryAcquire(), true);
  await nothingOpen(place.dir);
});

test("acquire() exclusive that is killed while it waits does not keep readers out", async (place) => {
  const [first, writer] = [await holder(place), await place.agent()];
  await writer.lock(place.path());
  writer.write(`${JSON.stringify({ id: "wait", command: "timed", name: "lock" })}\n`);
  await writer.line();
  await hasTurn(place.path(), writer.pid);
  const own = reader(place.path());
  assertEquals(own.tryAcquire(), false);
  await writer.kill();
  assertEquals(own.tryAcquire(), true);
  own.release();
  await first.release();
});

test("acquire() shared is granted at once to whom holds it shared already in a run(), though a writer of another process waits", async (place) => {
  const { path, agent } = place;
  const writer = await agent();
  await writer.lock(path());
  const { promise: inside, resolve: entered } = Promise.withResolvers<void>();
  const { promise: queued, resolve: go } = Promise.withResolvers<void>();
  const outer = reader(path()).run(async () => {
    entered();
    await queued;
    (await within(5_000, reader(path()).acquire())).release();
    reader(path()).runSync(() => {}, { timeout: 5_000 });
    return await within(5_000, reader(path()).run(() => true));
  });
  await inside;
  const blocked = await mustBlock(writer.call("acquire", { name: "lock" }));
  await hasTurn(path(), writer.pid);
  go();
  const result = await outer.catch((error) => error);
  await blocked.done();
  await writer.release();
  assertEquals(result, true);
});

test("acquire() shared is granted to whom holds it shared already in a run(), though a writer of the same process waits", async ({ path }) => {
  const { promise: inside, resolve: entered } = Promise.withResolvers<void>();
  const { promise: queued, resolve: go } = Promise.withResolvers<void>();
  const outer = reader(path()).run(async () => {
    entered();
    await queued;
    return await within(5_000, reader(path()).run(() => true));
  });
  await inside;
  const blocked = await mustBlock(new Lock(path()).run(() => true));
  go();
  const result = await outer.catch((error) => error);
  assertEquals(await blocked.done(), true);
  assertEquals(result, true);
});

test("acquireSync() shared does not wait for a writer of its own thread, which cannot go on meanwhile", async (place) => {
  const other = await holder(place);
  const writer = await mustBlock(new Lock(place.path()).acquire());
  const own = reader(place.path());
  let result: string;
  try {
    own.acquireSync({ timeout: 2_000 });
    result = "granted";
  } catch (error) {
    result = (error as Error).name; // the cast: the library throws errors
  }
  if (own.held) own.release();
  await other.release();
  (await writer.done()).release();
  assertEquals(result, "granted");
});

test("acquire() makes a turn file only where a lock is used shared", async (place) => {
  const { path, dir } = place;
  const holder = await new Lock(path()).acquire();
  await assertRejects(() => new Lock(path()).acquire({ timeout: 100 }), LockTimeoutError);
  assertEquals(readdirSync(dir), ["a.lock"]);
  holder.release();
  const shared = await reader(path()).acquire();
  assertEquals([readdirSync(dir).sort(), shared.held], [["a.lock", "a.lock.turn"], true]);
  shared.release();
  assertEquals(existsSync(path("a.lock.turn")), true); // it stays, as the lock file does
});

test("acquire() shared leaves the record of nobody, and none of its own", async (place) => {
  const other = await holder(place);
  const error = assertThrows(() => new Lock(place.path()).acquireSync({ timeout: 20 }), LockTimeoutError);
  assertEquals([error.holder?.pid, error.holder?.nonce], [other.pid, undefined]); // from the kernel, not from a record
  await other.kill();
  const stale: unknown[] = [];
  new Lock(place.path(), { onStale: (holder) => stale.push(holder) }).acquireSync({ timeout: 5_000 }).release();
  assertEquals(stale, []);
});

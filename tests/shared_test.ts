/** mode: "shared". Readers together, a writer alone; and only a holder keeps anyone out. */
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { readdirSync } from "node:fs";
import { Lock, LockTimeoutError } from "../mod.ts";
import { type Agent, mustBlock, type Place, test, within } from "./support/harness.ts";
import { nothingOpen } from "./support/lockers.ts";

const reader = (path: string) => new Lock(path, { mode: "shared" });

/** An agent that holds the lock shared. */
async function holder({ agent, path }: Pick<Place, "agent" | "path">): Promise<Agent> {
  const holder = await agent();
  await holder.lock(path(), { mode: "shared" });
  assertEquals(await holder.tryAcquire(), true);
  return holder;
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
  for (const each of await within(60_000, Promise.all(readers))) each.release();
});

test("tryAcquire() shared is true while a writer of another process waits, also while that one is stopped", async (place) => {
  const { path, agent } = place;
  const [first, writer, second] = [await holder(place), await agent(), await agent()];
  await writer.lock(path());
  await second.lock(path(), { mode: "shared" });
  await writer.call("begin", { name: "lock" });
  assertEquals(await second.tryAcquire(), true);
  await second.release();
  await second.call("acquire", { name: "lock", options: { timeout: 10_000 } });
  await second.release();
  await writer.kill("SIGSTOP");
  assertEquals(await second.tryAcquire(), true);
  await Promise.all([first.release(), second.release()]);
  // The lock is free, and the waiter is no holder.
  assertEquals([new Lock(path()).inspect().state, await second.tryAcquire()], ["free", true]);
  await second.release();
  await writer.kill("SIGCONT");
  await within(60_000, writer.call("granted", { name: "lock" }));
  await writer.release();
  assertEquals(readdirSync(place.dir), ["a.lock"]);
  await nothingOpen(place.dir);
});

test("acquire() that cannot make a shared hold exclusive keeps no reader out while it tries", async (place) => {
  const own = reader(place.path()).acquireSync();
  const other = await place.agent();
  await other.lock(place.path(), { mode: "shared" });
  const stop = new AbortController();
  const upgrade = await mustBlock(new Lock(place.path()).acquire({ signal: stop.signal }));
  assertEquals(await other.tryAcquire(), true);
  await other.release();
  stop.abort(new Error("on purpose"));
  await assertRejects(() => upgrade.done(), Error, "on purpose");
  own.release();
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
    (await within(60_000, reader(path()).acquire())).release();
    reader(path()).runSync(() => {}, { timeout: 5_000 });
    return await within(60_000, reader(path()).run(() => true));
  });
  await inside;
  await writer.call("begin", { name: "lock" });
  go();
  const result = await outer.catch((error) => error);
  await within(60_000, writer.call("granted", { name: "lock" }));
  await writer.release();
  assertEquals(result, true);
});

test("acquire() shared is granted to whom holds it shared already in a run(), though a writer of the same process waits", async ({ path }) => {
  const { promise: inside, resolve: entered } = Promise.withResolvers<void>();
  const { promise: queued, resolve: go } = Promise.withResolvers<void>();
  const outer = reader(path()).run(async () => {
    entered();
    await queued;
    return await within(60_000, reader(path()).run(() => true));
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

test("acquire() shared leaves the record of nobody, and none of its own", async (place) => {
  const other = await holder(place);
  const error = assertThrows(() => new Lock(place.path()).acquireSync({ timeout: 20 }), LockTimeoutError);
  assertEquals([error.holder?.pid, error.holder?.nonce], [other.pid, undefined]); // from the kernel, not from a record
  await other.kill();
  const stale: unknown[] = [];
  new Lock(place.path(), { onStale: (holder) => stale.push(holder) }).acquireSync({ timeout: 5_000 }).release();
  assertEquals(stale, []);
});

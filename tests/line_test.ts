/** The line of waiters of one thread: only a holder keeps a waiter out, and each is served in its order. */
import { channel } from "node:diagnostics_channel";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { Lock, LockTimeoutError } from "../mod.ts";
import type { LockEvent } from "../src/diagnostics.ts";
import "../src/diagnostics.ts";
import { mustBlock, test, within } from "./support/harness.ts";

const shared = (path: string) => new Lock(path, { mode: "shared" });

test("acquire() shared is granted though another object of its thread holds the lock shared and waits for itself", async ({ path }) => {
  const [a, b] = [shared(path()), shared(path())];
  a.acquireSync();
  const again = await mustBlock(a.acquire());
  for (const options of [{ timeout: 0 }, { timeout: 60_000 }, {}]) {
    await within(60_000, b.acquire(options));
    b.release();
  }
  const error = await assertRejects(() => new Lock(path()).acquire({ timeout: 0 }), LockTimeoutError);
  assert(!error.message.includes("very Lock object"), error.message); // of `a` alone that would be true
  const own = await assertRejects(() => a.acquire({ timeout: 0 }), LockTimeoutError, "this very Lock object holds it");
  assertEquals(own.holder, undefined);
  a.release();
  (await again.done()).release();
});

test("acquire() with a timeout of 0 is granted whenever tryAcquire() would be, also behind other waiters", async ({ path }) => {
  const reader = shared(path()).acquireSync();
  const writer = await mustBlock(new Lock(path()).acquire());
  (await shared(path()).acquire({ timeout: 0 })).release();
  reader.release();
  (await writer.done()).release();
});

test("acquire() shared does not wait for a writer of its own thread that waits", async ({ path }) => {
  const first = shared(path()).acquireSync();
  const writer = await mustBlock(new Lock(path()).acquire());
  const second = await within(60_000, shared(path()).acquire()); // the task of `first`, perhaps, which then would never release
  first.release();
  await mustBlock(writer.done());
  second.release();
  (await writer.done()).release();
});

test("acquire() serves callers of the object that holds and of others in the order in which they came", async ({ path }) => {
  const [a, b] = [new Lock(path()), new Lock(path())];
  a.acquireSync();
  const served: string[] = [];
  const wait = async (name: string, lock: Lock) => {
    await lock.acquire();
    served.push(name);
    await new Promise((resolve) => setImmediate(resolve));
    lock.release();
  };
  const all = [wait("a1", a), wait("b1", b), wait("a2", a), wait("b2", b)];
  const blocked = await mustBlock(Promise.race(all));
  a.release();
  await blocked.done();
  await within(60_000, Promise.all(all));
  assertEquals(served, ["a1", "b1", "a2", "b2"]);
});

test("acquire() shared is granted when the object of the waiter before it has got the lock by a try", async ({ path }) => {
  const holder = new Lock(path()).acquireSync();
  const [a, b] = [shared(path()), shared(path())];
  const [first, second] = [a.acquire(), b.acquire()];
  holder.release();
  assertEquals(a.tryAcquire(), true); // before the waiters have their turn, and before either watches the file
  await within(60_000, second); // though the one before it waits for `a`, which is held
  assertEquals([a.held, b.held], [true, true]);
  b.release();
  a.release();
  (await within(60_000, first)).release();
});

test("acquire() is granted when a subscriber of holdfast:waiting releases the object that it waits for", async ({ path }) => {
  const lock = new Lock(path()).acquireSync();
  const waiting = channel("holdfast:waiting");
  const release = () => lock.held && lock.release();
  waiting.subscribe(release);
  try {
    await within(60_000, lock.acquire());
  } finally {
    waiting.unsubscribe(release);
  }
  lock.release();
});

test("acquire() of a reentrant object that has got the lock meanwhile does not wait behind another", async ({ path }) => {
  const holder = new Lock(path()).acquireSync();
  const lock = new Lock(path(), { reentrant: true });
  const [first, other, second] = [lock.acquire(), new Lock(path()).acquire(), lock.acquire()];
  holder.release();
  await within(60_000, Promise.all([first, second]));
  lock.release();
  lock.release();
  (await within(60_000, other)).release();
});

test("acquire() of a reentrant object that does not hold the lock tries no sooner than those before it", async ({ path }) => {
  const holder = new Lock(path()).acquireSync();
  let refused = 0;
  const waiting = channel("holdfast:waiting");
  const note = (message: unknown) => void ((message as LockEvent).path === path() && refused++); // the cast: only ours
  waiting.subscribe(note);
  try {
    const all = [new Lock(path()), new Lock(path(), { reentrant: true })].map((lock) => lock.acquire());
    const blocked = await mustBlock(Promise.race(all));
    assertEquals(refused, 1);
    holder.release();
    (await blocked.done()).release();
    (await within(10_000, all[1])).release();
  } finally {
    waiting.unsubscribe(note);
  }
});

test("acquire() shared is granted though a reentrant object before it is held by a run() and waits for that", async ({ path }) => {
  const lock = new Lock(path(), { mode: "shared", reentrant: true });
  let begin = () => {}, end = () => {};
  const begun = new Promise<void>((resolve) => begin = resolve);
  const ended = new Promise<void>((resolve) => end = resolve);
  const running = lock.run(() => (begin(), ended));
  await within(10_000, begun);
  const again = await mustBlock(lock.acquire());
  (await within(10_000, shared(path()).acquire())).release();
  end();
  await running;
  (await again.done()).release();
});

test("acquire({ signalHolder }) signals the holder though another waiter of its thread stands before it", async ({ path, agent }) => {
  const holder = await agent();
  await holder.lock(path());
  assertEquals(await holder.tryAcquire(), true);
  const controller = new AbortController();
  const first = await mustBlock(new Lock(path()).acquire({ signal: controller.signal }));
  const asks = new Lock(path()).acquire({ signalHolder: "SIGTERM", timeout: 60_000 });
  await within(60_000, holder.ended);
  controller.abort(new Error("on purpose"));
  await first.done().then((lock) => lock.release(), () => {});
  (await within(60_000, asks)).release();
});

test("acquire() tells how long it waited, also of a waiter that was never refused", async ({ path }) => {
  const waited: number[] = [];
  const acquired = channel("holdfast:acquired");
  const note = (message: unknown) => {
    const event = message as LockEvent; // the cast: only ours are published there
    if (event.path === path()) waited.push(event.waited ?? NaN);
  };
  const holder = new Lock(path()).acquireSync();
  acquired.subscribe(note);
  try {
    const all = Array.from({ length: 3 }, async () => (await new Lock(path()).acquire()).release());
    const blocked = await mustBlock(Promise.race(all));
    holder.release();
    await blocked.done();
    await within(60_000, Promise.all(all));
  } finally {
    acquired.unsubscribe(note);
  }
  assertEquals([waited.length, waited.every((each) => each >= 20)], [3, true], `${waited}`);
});

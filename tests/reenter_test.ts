/** What the user's own code does in the middle of ours: in `onStale`, in a subscriber, in a listener of the signal. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { closeSync, fstatSync, mkdirSync, openSync, renameSync, writeFileSync } from "node:fs";
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Lock, type LockHolder, LockLostError, LockNotHeldError } from "../mod.ts";
import "../src/diagnostics.ts";
import type { LockEventName } from "../src/diagnostics.ts";
import { mustBlock, test, within } from "./support/harness.ts";
import { deadOwner, leave, until } from "./support/pid_files.ts";

/** Another file stands in its place. */
function lose({ path }: Lock): void {
  writeFileSync(`${path}.new`, "");
  renameSync(`${path}.new`, path);
}

/** Calls back at an event of a lock while `fn` runs. */
async function during(event: LockEventName, { path }: Lock, call: () => void, fn: () => unknown): Promise<void> {
  const subscriber = (message: unknown) => {
    if ((message as { path: string }).path === path) call(); // the cast: every event of ours has a path
  };
  subscribe(`holdfast:${event}`, subscriber);
  try {
    await fn();
  } finally {
    assertEquals(unsubscribe(`holdfast:${event}`, subscriber), true);
  }
}

test("run() never calls a function without the lock, though onStale or a subscriber has released it", async ({ path }) => {
  let called = 0;
  const fn = () => void called++;
  for (const run of ["run", "runSync"] as const) {
    leave(path(), deadOwner());
    const lock: Lock = new Lock(path(), { onStale: () => lock.release() });
    await assertRejects(async () => await lock[run](fn), LockNotHeldError);
    assertEquals([called, lock.held], [0, false]);
    await during("acquired", lock, () => lock.release(), async () => {
      await assertRejects(async () => await lock[run](fn), LockNotHeldError);
    });
    assertEquals([called, lock.held], [0, false]);
  }
});

test("acquire() does not resolve without the lock, though onStale or a subscriber has released it", async ({ path }) => {
  leave(path(), deadOwner());
  const lock: Lock = new Lock(path(), { onStale: () => lock.release() });
  await assertRejects(() => lock.acquire(), LockNotHeldError);
  await during("acquired", lock, () => lock.release(), async () => {
    assertEquals(lock.tryAcquire(), false);
    await assertRejects(() => lock.acquire(), LockNotHeldError);
    assertThrows(() => lock.acquireSync(), LockNotHeldError);
  });
  assertEquals(new Lock(path()).tryAcquire(), true);
});

test("onStale throws its own error also where it has released the lock", ({ path }) => {
  leave(path(), deadOwner());
  const onStale = (_: LockHolder) => {
    lock.release();
    throw new Error("on purpose");
  };
  const lock: Lock = new Lock(path(), { onStale });
  assertThrows(() => lock.tryAcquire(), Error, "on purpose");
  assertEquals(new Lock(path()).tryAcquire(), true);
});

test("tryAcquire() is false in a subscriber of its own release, which still has it", async ({ path }) => {
  for (const backend of ["flock", "pidfile"] as const) {
    const lock = new Lock(path(backend), { backend });
    assertEquals(lock.tryAcquire(), true);
    const got: boolean[] = [];
    await during("released", lock, () => got.push(lock.tryAcquire(), new Lock(lock.path).tryAcquire()), () => {
      lock.release();
    });
    assertEquals([got, lock.held, lock.tryAcquire()], [[false, false], false, true]);
    lock.release();
  }
});

test("signal of a new hold is not aborted by the loss of the last one, which a subscriber or a listener was told of", async ({ path }) => {
  const again = async (lose: (lock: Lock) => void) => {
    const lock = new Lock(path());
    assertEquals(lock.tryAcquire(), true);
    const first = lock.signal;
    await during("lost", lock, () => assertEquals(lock.tryAcquire(), true), () => lose(lock));
    assertEquals([first.aborted, first.reason instanceof LockLostError], [true, true]);
    assertEquals([lock.held, lock.signal === first, lock.signal.aborted], [true, false, false]);
    lock.release();
    assertEquals(lock.tryAcquire(), true);
    const second = lock.signal;
    second.addEventListener("abort", () => assertEquals(lock.tryAcquire(), true), { once: true });
    lose(lock);
    assertEquals([second.aborted, lock.held, lock.signal === second, lock.signal.aborted], [true, true, false, false]);
    lock.release();
  };
  await again((lock) => (lose(lock), lock.verify()));
  await again((lock) => (lose(lock), assertThrows(() => lock.release(), LockLostError)));
});

test("release() throws LockLostError also if a listener of the signal has called it", ({ path }) => {
  const lock = new Lock(path());
  assertEquals(lock.tryAcquire(), true);
  lock.signal.addEventListener("abort", () => assertThrows(() => lock.release(), LockLostError));
  lose(lock);
  assertThrows(() => lock.release(), LockLostError);
  assertThrows(() => lock.release(), LockNotHeldError);
});

test("signal of one lock may release and acquire others that are lost by the same event", async ({ path }) => {
  mkdirSync(path("d"));
  const [first, second] = [new Lock(path("d/first")), new Lock(path("d/second"))];
  assertEquals([first.tryAcquire(), second.tryAcquire()], [true, true]);
  let told = 0;
  const theirs: number[] = [];
  const aborted = new Promise<void>((resolve) =>
    first.signal.addEventListener("abort", () => {
      assertThrows(() => second.release(), LockLostError);
      mkdirSync(path("d"));
      assertEquals(second.tryAcquire(), true);
      // One of them has the number that the second lock had.
      for (const name of ["one", "two", "three"]) theirs.push(openSync(path(name), "w"));
      resolve();
    }, { once: true })
  );
  await during("lost", second, () => void told++, async () => {
    renameSync(path("d"), path("moved")); // no event: the first round asks about both
    await within(60_000, aborted);
    assertEquals(second.held, true);
    await mustBlock(new Promise((resolve) => second.signal.addEventListener("abort", resolve)));
  });
  assertEquals([told, second.held, second.verify()], [1, true, true]);
  for (const fd of theirs) assertEquals(fstatSync(fd).isFile(), true);
  for (const fd of theirs) closeSync(fd);
  second.release();
  assertEquals(new Lock(second.path).tryAcquire(), true);
});

test("signal with a listener that throws is still aborted for the others, and the lock given up", async ({ path, agent }) => {
  const holder = await agent();
  await holder.lock(path());
  assertEquals(await holder.tryAcquire(), true);
  await holder.call("handleUncaught");
  await holder.call("throwAtLoss", { name: "lock" });
  lose(new Lock(path()));
  assertEquals(await holder.call("verify", { name: "lock" }), false);
  await until("it is told", () => holder.errors.includes("thrown on purpose at the loss"));
  assertEquals(new Lock(path()).tryAcquire(), true);
});

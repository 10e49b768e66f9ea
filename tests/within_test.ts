/** One process: what two Lock objects, or two tasks, in it may do; and what releases by itself. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { readFileSync, statSync } from "node:fs";
import { Lock, LockNotHeldError } from "../mod.ts";
import { mustBlock, test } from "./support/harness.ts";

/** A promise, and what settles it. */
function gate(): { promise: Promise<void>; open: () => void; fail: (reason: Error) => void } {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  return { promise, open: resolve, fail: reject };
}

/** One try by a stranger, who gives it back at once. */
function isFree(path: string): boolean {
  using stranger = new Lock(path);
  return stranger.tryAcquire();
}

test("acquire() of two Lock objects on one path never lets two tasks of one process in", async ({ path }) => {
  let inside = 0, most = 0, times = 0;
  const task = async () => {
    const lock = new Lock(path());
    for (let i = 0; i < 50; i++) {
      await lock.acquire();
      most = Math.max(most, ++inside);
      await new Promise((resolve) => setImmediate(resolve)); // lets the other task try
      inside--;
      times++;
      lock.release();
    }
  };
  await Promise.all([task(), task(), task()]);
  assertEquals({ most, times }, { most: 1, times: 150 });
});

test("release() of a lock that another process holds throws LockNotHeldError, and that one keeps it", async ({ agent, path }) => {
  const holder = await agent();
  await holder.lock(path());
  assertEquals(await holder.tryAcquire(), true);
  const look = () => {
    const { ino, mode, size, mtimeMs, ctimeMs } = statSync(path());
    return { text: readFileSync(path(), "utf8"), ino, mode, size, mtimeMs, ctimeMs };
  };
  const before = look();

  const lock = new Lock(path());
  const never = assertThrows(() => lock.release(), LockNotHeldError);
  assertEquals([never.code, never.path], ["ENOTHELD", path()]);
  assertEquals(lock.tryAcquire(), false);
  assertThrows(() => lock.release(), LockNotHeldError);

  assertEquals(look(), before);
  assertEquals(isFree(path()), false);
  assertEquals(await holder.call("held", { name: "lock" }), true);
  await holder.release();
  assertEquals(isFree(path()), true);
});

test("release() a second time throws LockNotHeldError, also while another object holds the lock by now", ({ path }) => {
  const [first, second] = [new Lock(path()), new Lock(path())];
  first.acquireSync();
  first.release();
  second.acquireSync();
  assertThrows(() => first.release(), LockNotHeldError);
  assert(second.held);
  assertEquals(isFree(path()), false);
  second.release();
});

test("run() holds until the promise of its function is fulfilled", async ({ path }) => {
  const { promise, open } = gate();
  const run = new Lock(path()).run(async () => {
    await promise;
    return 7;
  });
  const running = await mustBlock(run);
  assertEquals(isFree(path()), false);
  open();
  assertEquals(await running.done(), 7);
  assertEquals(isFree(path()), true);
});

test("run() holds until the promise of its function is rejected, and rejects with that", async ({ path }) => {
  const { promise, fail } = gate();
  const running = await mustBlock(new Lock(path()).run(() => promise));
  assertEquals(isFree(path()), false);
  const reason = new Error("on purpose");
  fail(reason);
  assertEquals(await assertRejects(() => running.done()), reason);
  assertEquals(isFree(path()), true);
});

test("run() releases after a function that throws or returns at once", async ({ path }) => {
  const reason = new Error("on purpose");
  const failure = await assertRejects(() =>
    new Lock(path()).run(() => {
      throw reason;
    })
  );
  assertEquals(failure, reason);
  assertEquals(isFree(path()), true);
  assertEquals(await new Lock(path()).run(() => isFree(path())), false);
  assertEquals(isFree(path()), true);
});

test("run() leaves alone what its function has released and another holds by now", async ({ path }) => {
  const [lock, other] = [new Lock(path()), new Lock(path())];
  await lock.run(() => {
    lock.release();
    other.acquireSync();
  });
  assert(other.held);
  assertEquals(isFree(path()), false);
  other.release();
});

test("runSync() holds while its function runs, and releases after it returned or threw", ({ path }) => {
  const lock = new Lock(path());
  assertEquals(lock.runSync(() => [lock.held, isFree(path())]), [true, false]);
  assertEquals(isFree(path()), true);
  const reason = new Error("on purpose");
  const failure = assertThrows(() =>
    lock.runSync(() => {
      throw reason;
    })
  );
  assertEquals(failure, reason);
  assertEquals(isFree(path()), true);
});

test("runSync() throws TypeError for a function that returns a promise, and releases", async ({ path }) => {
  let result: Promise<void> | undefined;
  assertThrows(() => new Lock(path()).runSync(() => result = Promise.resolve()), TypeError, "run()");
  await result;
  assertEquals(isFree(path()), true);
});

test("[Symbol.dispose]() releases if held, and does nothing if not", ({ path }) => {
  const lock = new Lock(path());
  lock[Symbol.dispose]();
  lock.acquireSync();
  lock[Symbol.dispose]();
  assertEquals([lock.held, isFree(path())], [false, true]);
  lock[Symbol.dispose]();
});

test("[Symbol.asyncDispose]() releases at once if held, and does nothing if not", async ({ path }) => {
  const lock = new Lock(path());
  await lock[Symbol.asyncDispose]();
  lock.acquireSync();
  const disposed = lock[Symbol.asyncDispose]();
  assertEquals([lock.held, isFree(path())], [false, true]);
  await disposed;
  await lock[Symbol.asyncDispose]();
});

test("using releases at the end of its block, also where tryAcquire() was false or the block throws", async ({ path }) => {
  {
    using lock = new Lock(path());
    assert(lock.tryAcquire());
    {
      using other = new Lock(path());
      assertEquals(other.tryAcquire(), false);
    }
    assertEquals(isFree(path()), false);
  }
  assertEquals(isFree(path()), true);
  {
    await using lock = await new Lock(path()).acquire({ timeout: 0 });
    assert(lock.held);
    assertEquals(isFree(path()), false);
  }
  assertEquals(isFree(path()), true);
  const reason = new Error("on purpose");
  const failure = assertThrows(() => {
    using _lock = new Lock(path()).acquireSync();
    throw reason;
  });
  assertEquals(failure, reason);
  assertEquals(isFree(path()), true);
});

/** reentrant: true. Counted by the object; inside run() the asynchronous context decides who may enter again. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Lock, LockDeadlockError, LockNotHeldError, LockTimeoutError } from "../mod.ts";
import { mustBlock, test, within } from "./support/harness.ts";

const reentrant = (path: string) => new Lock(path, { reentrant: true });

/** One try by a stranger, who gives it back at once. */
function isFree(path: string): boolean {
  using stranger = new Lock(path);
  return stranger.tryAcquire();
}

test("acquire() of a reentrant object enters again, by each of its ways, and is released as often", async ({ path }) => {
  const lock = reentrant(path());
  await lock.acquire();
  lock.acquireSync();
  assertEquals(lock.tryAcquire(), true);
  await within(60_000, lock.acquire({ timeout: 0 }));
  for (let left = 4; left > 0; left--) {
    assertEquals([lock.held, isFree(path())], [true, false], `${left} left`);
    lock.release();
  }
  assertEquals([lock.held, isFree(path())], [false, true]);
  const error = assertThrows(() => lock.release(), LockNotHeldError);
  assertEquals([error.code, isFree(path())], ["ENOTHELD", true]);
});

test("release() once too often does not spoil the next acquire()", async ({ path }) => {
  const lock = reentrant(path());
  for (let i = 0; i < 3; i++) {
    await lock.acquire();
    await lock.acquire();
    lock.release();
    lock.release();
    assertThrows(() => lock.release(), LockNotHeldError);
    assertThrows(() => lock.release(), LockNotHeldError);
    assertEquals([lock.held, isFree(path())], [false, true]);
  }
});

test("tryAcquire() of an object that is not reentrant is false while it holds the lock itself", ({ path }) => {
  const lock = new Lock(path());
  assertEquals([lock.tryAcquire(), lock.tryAcquire(), lock.held], [true, false, true]);
  lock.release();
  assertEquals([lock.held, isFree(path())], [false, true]);
});

test("acquire() of a second reentrant object on the path finds it held, whatever the first one may", async ({ path }) => {
  const [first, second] = [reentrant(path()), reentrant(path())];
  await first.acquire();
  await first.acquire();
  assertEquals(second.tryAcquire(), false);
  await assertRejects(() => second.acquire({ timeout: 0 }), LockTimeoutError);
  first.release();
  const blocked = await mustBlock(second.acquire());
  first.release();
  assertEquals([await blocked.done(), first.held], [second, false]);
  second.release();
});

test("run() of a reentrant object may be nested, and holds until the outermost ends", async ({ path }) => {
  const lock = reentrant(path());
  const result = await lock.run(async () => {
    const inner = await lock.run(() => lock.runSync(() => [lock.held, isFree(path())]));
    assertEquals([lock.held, isFree(path())], [true, false]);
    await lock.acquire();
    lock.release();
    assertEquals(lock.held, true);
    return inner;
  });
  assertEquals(result, [true, false]);
  assertEquals([lock.held, isFree(path())], [false, true]);
});

test("run() of a reentrant object lets its task in, and another task that shares the object waits", async ({ path }) => {
  const lock = reentrant(path());
  const order: string[] = [];
  const { promise: inside, resolve: entered } = Promise.withResolvers<void>();
  const { promise: leave, resolve: end } = Promise.withResolvers<void>();
  const first = lock.run(async () => {
    entered();
    await lock.run(() => order.push("nested"));
    await leave;
    await lock.run(() => order.push("nested later"));
  });
  await inside;
  assertEquals(lock.tryAcquire(), false);
  await assertRejects(() => lock.acquire({ timeout: 0 }), LockTimeoutError);
  assertThrows(() => lock.acquireSync({ timeout: 0 }), LockDeadlockError); // this thread would wait for itself
  const second = lock.run(() => order.push("another task"));
  const third = lock.acquire().then(() => order.push("a third"));
  const blocked = await mustBlock(Promise.race([second, third]));
  end();
  await within(60_000, first);
  await blocked.done();
  await within(60_000, third);
  lock.release();
  assertEquals(order, ["nested", "nested later", "another task", "a third"]);
  assertEquals([lock.held, isFree(path())], [false, true]);
});

test("run() makes a detached task that was started before it wait", async ({ path }) => {
  const lock = reentrant(path());
  const { promise: start, resolve } = Promise.withResolvers<void>();
  let inside = false;
  const detached = start.then(() => lock.run(() => assertEquals(inside, false)));
  await lock.run(async () => {
    inside = true;
    resolve();
    await mustBlock(detached);
    inside = false;
  });
  await within(60_000, detached);
  assertEquals(isFree(path()), true);
});

test("run() lets what it has started enter again: callbacks, timers and promises of its task", async ({ path }) => {
  const lock = reentrant(path());
  await lock.run(async () => {
    const enter = () => lock.runSync(() => lock.held);
    assertEquals(await new Promise((resolve) => setTimeout(() => resolve(enter()), 1)), true);
    assertEquals(await new Promise((resolve) => setImmediate(() => resolve(enter()))), true);
    assertEquals(await new Promise((resolve) => queueMicrotask(() => resolve(enter()))), true);
    assertEquals(await Promise.resolve().then(enter), true);
  });
  assertEquals(isFree(path()), true);
});

test("run() that is over makes what it has started wait like anybody else", async ({ path }) => {
  const lock = reentrant(path());
  const { promise: start, resolve } = Promise.withResolvers<void>();
  let late: Promise<boolean> | undefined;
  await lock.run(() => {
    late = start.then(() => lock.run(() => lock.held));
  });
  assertEquals(isFree(path()), true);
  await lock.run(async () => {
    resolve();
    await mustBlock(late!); // `!`: run() has set it
    assertEquals(lock.held, true);
  });
  assertEquals(await within(60_000, late!), true);
  assertEquals(isFree(path()), true);
});

test("run() nested at the same time by one task is left in any order, and the lock is free at the end", async ({ path }) => {
  const orders = [[0, 1, 2], [2, 1, 0], [1, 2, 0], [1, 0, 2]];
  for (const order of orders) {
    const lock = reentrant(path());
    await lock.run(async () => {
      const gates = order.map(() => Promise.withResolvers<void>());
      const nested = gates.map(({ promise }) => lock.run(() => promise));
      for (const i of order) {
        gates[i].resolve();
        await within(60_000, nested[i]);
        assertEquals([lock.held, isFree(path())], [true, false], `${order}`);
      }
    });
    assertEquals([lock.held, isFree(path())], [false, true], `${order}`);
  }
});

test("run() nested lets an error through, and keeps the outer hold", async ({ path }) => {
  const lock = reentrant(path());
  const reason = new Error("on purpose");
  await lock.run(async () => {
    assertEquals(await assertRejects(() => lock.run(() => Promise.reject(reason))), reason);
    const thrown = assertThrows(() =>
      lock.runSync(() => {
        throw reason;
      })
    );
    assertEquals(thrown, reason);
    assertEquals([lock.held, isFree(path())], [true, false]);
  });
  assertEquals(isFree(path()), true);
  assertEquals(await assertRejects(() => lock.run(() => lock.run(() => Promise.reject(reason)))), reason);
  assertEquals([lock.held, isFree(path())], [false, true]);
});

test("run() nested gives back no more than it took, where its function has released already", async ({ path }) => {
  const lock = reentrant(path());
  await lock.run(async () => {
    await lock.run(() => lock.release());
    assertEquals([lock.held, isFree(path())], [true, false]);
  });
  assertEquals([lock.held, isFree(path())], [false, true]);
});

test("run() and runSync() of a reentrant object may be nested a thousand times", async ({ path }) => {
  const lock = reentrant(path());
  const down = async (depth: number): Promise<number> => depth === 0 ? 0 : 1 + await lock.run(() => down(depth - 1));
  assertEquals(await within(30_000, down(1_000)), 1_000);
  assertEquals([lock.held, isFree(path())], [false, true]);
  const downSync = (depth: number): number => depth === 0 ? 0 : 1 + lock.runSync(() => downSync(depth - 1));
  assertEquals(downSync(1_000), 1_000);
  assertEquals([lock.held, isFree(path())], [false, true]);
});

test("run() after acquire() of the same object gives back only its own", async ({ path }) => {
  const lock = await reentrant(path()).acquire();
  assertEquals(await lock.run(() => lock.held), true);
  assertEquals([lock.held, isFree(path())], [true, false]);
  lock.release();
  assert(isFree(path()));
});

test("acquire() within run() that is not released outlives it, and is nobody's to enter again", async ({ path }) => {
  const lock = reentrant(path());
  await lock.run(() => lock.acquire().then(() => {}));
  assertEquals([lock.held, isFree(path())], [true, false]);
  lock.release();
  assertEquals([lock.held, isFree(path())], [false, true]);
});

test("[Symbol.dispose]() of a reentrant object releases once, as release() does", ({ path }) => {
  const lock = reentrant(path()).acquireSync();
  {
    using again = lock.acquireSync();
    assert(again.held);
  }
  assertEquals([lock.held, isFree(path())], [true, false]);
  lock.release();
  assertEquals(isFree(path()), true);
});

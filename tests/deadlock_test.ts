/** LockDeadlockError: for a wait that only the waiter itself could end, and never for another. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { symlinkSync } from "node:fs";
import { Lock, LockDeadlockError, type LockOptions, LockTimeoutError } from "../mod.ts";
import { mustBlock, test, within } from "./support/harness.ts";

/** One try by a stranger, who gives it back at once. */
function isFree(path: string): boolean {
  using stranger = new Lock(path);
  return stranger.tryAcquire();
}

test("run() nested on one object that is not reentrant rejects with LockDeadlockError at once", async ({ path }) => {
  const lock = new Lock(path());
  await lock.run(async () => {
    const calls: (() => Promise<unknown>)[] = [
      () => lock.run(() => {}),
      () => lock.acquire(),
      () => lock.acquire({ timeout: 60_000 }),
    ];
    for (const call of calls) {
      const error = await assertRejects(() => within(60_000, call()), LockDeadlockError, "wait for itself");
      assertEquals([error.code, error.path], ["EDEADLK", path()]);
    }
    assertThrows(() => lock.runSync(() => {}), LockDeadlockError);
    assertEquals([lock.held, isFree(path())], [true, false]);
  });
  assertEquals(isFree(path()), true);
});

test("run() nested on a second object rejects with LockDeadlockError at once, however the path is written", async ({ path, dir }) => {
  symlinkSync(dir, path("link"));
  await new Lock(path()).run(async () => {
    for (const other of [path(), `${dir}/./a.lock`, path("link/a.lock"), new URL(`file://${path()}`)]) {
      for (const options of [{}, { reentrant: true }]) {
        const second = new Lock(other, options);
        await assertRejects(() => within(60_000, second.run(() => {})), LockDeadlockError);
        await assertRejects(() => within(60_000, second.acquire()), LockDeadlockError);
      }
    }
  });
  assertEquals(isFree(path()), true);
});

test("run() nested on a second object rejects at once also while another task waits in the line before it", async ({ path }) => {
  const { promise: inside, resolve: entered } = Promise.withResolvers<void>();
  const { promise: queued, resolve: go } = Promise.withResolvers<void>();
  const outer = new Lock(path()).run(async () => {
    entered();
    await queued;
    await assertRejects(() => within(60_000, new Lock(path()).run(() => {})), LockDeadlockError);
  });
  await inside;
  const another = new Lock(path()).run(() => true);
  const blocked = await mustBlock(another);
  go();
  await within(60_000, outer);
  assertEquals(await blocked.done(), true);
});

test("run() nested on another spelling of the path rejects at once also while another task waits in the line before it", async ({ path, dir }) => {
  symlinkSync(dir, path("link"));
  const { promise: inside, resolve: entered } = Promise.withResolvers<void>();
  const { promise: queued, resolve: go } = Promise.withResolvers<void>();
  const outer = new Lock(path("link/a.lock")).run(async () => {
    entered();
    await queued;
    await assertRejects(() => within(60_000, new Lock(path()).run(() => {})), LockDeadlockError);
  });
  await inside;
  const blocked = await mustBlock(new Lock(path()).run(() => true));
  go();
  await within(60_000, outer);
  assertEquals(await blocked.done(), true);
});

test("run() nested two deep, with another lock in between, rejects with LockDeadlockError", async ({ path }) => {
  await new Lock(path("a.lock")).run(() =>
    new Lock(path("b.lock")).run(async () => {
      await assertRejects(() => within(60_000, new Lock(path("a.lock")).acquire()), LockDeadlockError);
      (await within(60_000, new Lock(path("c.lock")).acquire())).release();
    })
  );
});

test("run() nested by PID file rejects with LockDeadlockError at once", async ({ path }) => {
  const options = { backend: "pidfile" } as const;
  const lock = new Lock(path(), options);
  await lock.run(async () => {
    await assertRejects(() => within(60_000, lock.acquire()), LockDeadlockError);
    await assertRejects(() => within(60_000, new Lock(path(), options).acquire()), LockDeadlockError);
  });
});

test("tryAcquire() within run() is false, and no deadlock, because it does not wait", async ({ path }) => {
  const lock = new Lock(path());
  await lock.run(() => assertEquals([lock.tryAcquire(), new Lock(path()).tryAcquire()], [false, false]));
});

test("acquire() of a task that run() had started does not reject with LockDeadlockError once that run() is over", async ({ path }) => {
  for (const sameObject of [true, false]) {
    const lock = new Lock(path());
    const { promise: start, resolve } = Promise.withResolvers<void>();
    let late: Promise<Lock> | undefined;
    await lock.run(() => {
      late = start.then(() => (sameObject ? lock : new Lock(path())).acquire());
    });
    const holder = await new Lock(path()).acquire(); // another task's, which does not wait for anybody
    resolve();
    const blocked = await mustBlock(late!); // `!`: run() has set it
    holder.release();
    (await blocked.done()).release();
  }
});

test("acquire() of independent tasks never rejects with LockDeadlockError, however they interleave", async ({ path }) => {
  const shared = new Lock(path());
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  let inside = 0, done = 0;
  const within1 = async () => {
    assertEquals(++inside, 1);
    await turn();
    inside--;
    done++;
  };
  const tasks = Array.from({ length: 12 }, async (_, i) => {
    for (let round = 0; round < 25; round++) {
      const lock = i % 3 === 0 ? new Lock(path()) : shared;
      if (i % 2) await lock.run(within1);
      else {
        await lock.acquire();
        await within1();
        lock.release();
      }
      if (round % 3 === i % 3) await turn();
    }
  });
  await within(60_000, Promise.all(tasks));
  assertEquals([done, isFree(path())], [300, true]);
});

test("acquire() of a task within the run() of another path waits for a lock that an independent task holds", async ({ path }) => {
  const held = await new Lock(path("b.lock")).acquire();
  const nested = new Lock(path("a.lock")).run(() => new Lock(path("b.lock")).run(() => 7));
  const blocked = await mustBlock(nested);
  held.release();
  assertEquals(await blocked.done(), 7);
});

const kinds: [string, LockOptions][] = [
  ["the kernel's", { backend: "flock" }],
  ["shared", { backend: "flock", mode: "shared" }],
  ["by PID file", { backend: "pidfile" }],
];

for (const [name, options] of kinds) {
  test(`acquireSync() of what this thread holds (${name}) throws LockDeadlockError at once, through whatever object`, async ({ path }) => {
    const lock = new Lock(path(), options);
    await lock.acquire();
    assertThrows(() => lock.acquireSync(), LockDeadlockError);
    assertThrows(() => lock.acquireSync({ timeout: 60_000 }), LockDeadlockError);
    for (const mode of options.backend === "pidfile" ? ["exclusive"] as const : ["exclusive", "shared"] as const) {
      const other = new Lock(path(), { ...options, mode });
      if (options.mode === "shared" && mode === "shared") {
        other.acquireSync({ timeout: 0 }).release(); // two readers do not wait for each other
        continue;
      }
      const began = performance.now();
      const error = assertThrows(() => other.acquireSync({ timeout: 60_000 }), LockDeadlockError);
      assertEquals([error.code, other.held], ["EDEADLK", false]);
      assertThrows(() => other.runSync(() => {}), LockDeadlockError);
      assert(performance.now() - began < 20_000);
    }
    assertEquals(lock.held, true);
    lock.release();
    new Lock(path(), options).acquireSync({ timeout: 0 }).release();
  });

  test(`acquireSync() of what another process holds (${name}) waits, and throws LockTimeoutError`, async ({ path, agent }) => {
    const holder = await agent();
    await holder.lock(path(), options);
    assertEquals(await holder.tryAcquire(), true);
    const modes = options.backend === "pidfile" || options.mode === "shared" ? ["exclusive"] : ["exclusive", "shared"];
    for (const mode of modes) {
      const lock = new Lock(path(), { ...options, mode: mode as "exclusive" | "shared" }); // the cast: one of the two
      const began = performance.now();
      const error = assertThrows(() => lock.acquireSync({ timeout: 100 }), LockTimeoutError);
      assert(performance.now() - began >= 99);
      assertEquals(error instanceof LockDeadlockError, false);
    }
    await holder.release();
    new Lock(path(), options).acquireSync({ timeout: 0 }).release();
  });
}

test("acquireSync() of what this thread and another process hold shared throws LockDeadlockError at once", async ({ path, agent }) => {
  const reader = await agent();
  await reader.lock(path(), { mode: "shared" });
  assertEquals(await reader.tryAcquire(), true);
  const own = new Lock(path(), { mode: "shared" }).acquireSync();
  assertThrows(() => new Lock(path()).acquireSync({ timeout: 60_000 }), LockDeadlockError);
  own.release();
  assertThrows(() => new Lock(path()).acquireSync({ timeout: 50 }), LockTimeoutError);
});

/** Two copies of the package in one thread: what one holds, awaits and runs under, the other knows. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Lock as One } from "../mod.ts";
import { CHANNELS, type LockEvent } from "../src/diagnostics.ts";
import { copySource, type Edit } from "./support/edits.ts";
import { mustBlock, test, within } from "./support/harness.ts";
import { leave, ownerOf, sleeper } from "./support/pid_files.ts";

const importFrom = (folder: string, file: string) => import(pathToFileURL(join(folder, file)).href);

/** The `Lock` of a copy of the package in that folder. */
async function copyIn(folder: string, edits: readonly Edit[] = []): Promise<typeof One> {
  return (await importFrom(copySource(folder, edits), "mod.ts")).Lock;
}

const BACKENDS = ["flock", "pidfile"] as const;

for (const backend of BACKENDS) {
  test(`run() by ${backend} within the run() of another copy rejects with LockDeadlockError at once`, async ({ path }) => {
    const Two = await copyIn(path("two"));
    assert(Two !== One);
    for (const [Outer, Inner] of [[One, Two], [Two, One]]) {
      await new Outer(path(), { backend }).run(async () => {
        const inner = new Inner(path(), { backend });
        for (const call of [() => inner.run(() => {}), () => inner.acquire().then(() => {})]) {
          const error = await assertRejects(() => within(60_000, call())) as Error; // the class is the other copy's
          assertEquals(error.name, "LockDeadlockError", error.message);
        }
        const error = assertThrows(() => inner.acquireSync()) as Error;
        assertEquals([error.name, inner.tryAcquire()], ["LockDeadlockError", false]);
      });
    }
    using free = new Two(path(), { backend });
    assertEquals(free.tryAcquire(), true);
  });
}

test("acquire() of two copies is served in the order in which it was called", async ({ path }) => {
  const Two = await copyIn(path("two"));
  const holder = new One(path()).acquireSync();
  const served: number[] = [];
  const all = Array.from({ length: 8 }, async (_, i) => {
    const lock = await new (i % 2 ? One : Two)(path()).acquire();
    served.push(i);
    await new Promise((resolve) => setImmediate(resolve));
    lock.release();
  });
  const blocked = await mustBlock(Promise.race(all));
  holder.release();
  await blocked.done();
  await within(60_000, Promise.all(all));
  assertEquals(served, [0, 1, 2, 3, 4, 5, 6, 7]);
});

test("acquire() right after a release lets others go first, also where another copy waited for the lock and released it", async ({ path }) => {
  const Two = await copyIn(path("two"));
  /** Whether a try right after such an acquire() was granted; it is not where that took more than its pause. */
  const isPolite = async (Before: typeof One, After: typeof One) => {
    const holder = new One(path()).acquireSync();
    const waiting = new Before(path()).acquire();
    holder.release();
    (await waiting).release();
    const next = new After(path()).acquire();
    const other = new One(path());
    const polite = other.tryAcquire();
    if (polite) other.release();
    (await within(10_000, next)).release();
    return polite;
  };
  for (const [Before, After] of [[One, One], [One, Two], [Two, One]]) {
    let polite = false;
    for (let round = 0; round < 50 && !polite; round++) polite = await isPolite(Before, After);
    assert(polite, Before === After ? "one copy" : "two copies");
  }
});

test("tryAcquire() removes the PID file that another copy could not remove when it gave the lock up", async (place) => {
  const { path } = place;
  await copyIn(path("two"));
  const { abandon } = await importFrom(path("two"), "src/backend/ours.ts");
  for (const backend of BACKENDS) {
    const record = ownerOf(sleeper(place));
    leave(path("a.lock.pid"), record);
    using lock = new One(path(), { backend });
    assertEquals(lock.tryAcquire(), false);
    abandon(record.nonce);
    assertEquals(lock.tryAcquire(), true);
  }
});

test("holdfast:acquired is published once for the lock of any copy, whether one copy or all import ./diagnostics", async ({ dir, path }) => {
  const Two = await copyIn(path("two"));
  const published: string[] = [];
  const subscriber = (message: unknown) => {
    const { event, path } = message as LockEvent; // the cast: only ours are published there
    if (path.startsWith(dir)) published.push(event);
  };
  for (const name of CHANNELS) subscribe(name, subscriber);
  const once = async (Lock: typeof One) => {
    const holder = new Lock(path()).acquireSync();
    await assertRejects(() => new Lock(path()).acquire({ timeout: 1 }));
    holder.release();
    return published.splice(0);
  };
  const expected = ["acquired", "waiting", "released"];
  assertEquals([await once(One), await once(Two)], [expected, expected]);
  assert((await importFrom(path("two"), "src/diagnostics.ts")).CHANNELS !== CHANNELS, "it is another copy");
  assertEquals([await once(One), await once(Two)], [expected, expected]);
  for (const name of CHANNELS) assertEquals(unsubscribe(name, subscriber), true);
});

test("a copy of another version of what is kept is excluded as a stranger, and waits until its time is up", async ({ path }) => {
  const Other = await copyIn(path("other"), [["sys/thread.ts", "lock:thread:3", "lock:thread:other"]]);
  for (const backend of BACKENDS) {
    await new One(path(), { backend }).run(async () => {
      const stranger = new Other(path(), { backend });
      assertEquals(stranger.tryAcquire(), false);
      const error = await assertRejects(() => stranger.acquire({ timeout: 50 })) as Error; // the class is the other's
      assertEquals(error.name, "LockTimeoutError", error.message);
    });
    using free = new Other(path(), { backend });
    assertEquals(free.tryAcquire(), true);
    assertEquals(new One(path(), { backend }).tryAcquire(), false);
  }
});

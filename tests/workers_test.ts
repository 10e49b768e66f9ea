/** Threads: each is a stranger to the others; and what is left of the lock of a thread that has ended. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { existsSync, readFileSync } from "node:fs";
import { type Agent, mustBlock, ownKind, type Place, test, within } from "./support/harness.ts";
import { failure, kernelHolders, openIn } from "./support/lockers.ts";
import { recordIn, until } from "./support/pid_files.ts";

/** An agent with a Worker, and a stranger. */
async function threads({ freshAgent: agent, path }: Pick<Place, "freshAgent" | "path">, options: object = {}) {
  const [process, stranger] = [await agent(), await agent()];
  for (const each of [process, stranger]) await each.lock(path(), options);
  assertEquals(await process.call("worker", { worker: "w", path: path(), options }), { value: "ready" });
  return { process, stranger, tell: telling(process, "w") };
}

const telling = (process: Agent, worker: string) => (does: string, args: object = {}) =>
  within(60_000, process.call("tell", { worker, does, ...args }));

for (const backend of ["flock", "pidfile"] as const) {
  test(`tryAcquire() by ${backend} keeps two threads of one process apart, both ways`, async (place) => {
    const { process, stranger, tell } = await threads(place, { backend });
    assertEquals(await tell("try"), { value: true });
    assertEquals([await process.tryAcquire(), await stranger.tryAcquire()], [false, false]);
    await tell("release");
    assertEquals(await process.tryAcquire(), true);
    assertEquals([await tell("try"), await stranger.tryAcquire()], [{ value: false }, false]);
    await process.release();
    assertEquals(await tell("try"), { value: true });
  });
}

test("acquire() and acquireSync() wait for another thread of the process, which is no deadlock", async (place) => {
  const { process, tell } = await threads(place);
  await process.call("acquire", { name: "lock" });
  for (const sync of [false, true]) {
    const waits = tell("acquire", { sync, timeout: 30 });
    assertEquals(await waits, { error: "LockTimeoutError", code: "ETIMEDOUT" });
  }
  await process.release();
  await tell("try");
  for (const sync of [false, true]) {
    const error = await process.call("acquire", { name: "lock", sync, options: { timeout: 30 } }).catch((error) =>
      error
    );
    assertEquals(error.name, "LockTimeoutError");
  }
});

test("acquire() is granted to a thread when another one of its process releases", async (place) => {
  const { process, tell } = await threads(place);
  for (const sync of [false, true]) {
    await process.call("worker", { worker: `${sync}`, path: place.path() });
    assertEquals(await tell("try"), { value: true });
    const other = await process.call("tell", { worker: `${sync}`, does: "try" });
    assertEquals(other, { value: false });
    await tell("release");
    const granted = await process.call("tell", { worker: `${sync}`, does: "acquire", sync, timeout: 10_000 });
    assertEquals(typeof granted.value, "number");
    await process.call("tell", { worker: `${sync}`, does: "release" });
  }
});

/** What a runtime makes of a lock whose thread has ended, one way or the other. */
interface Afterwards {
  /** Whether it is free while the process lives. */
  readonly free: boolean;
  /** Whether the next holder is told of a holder that did not release. */
  readonly stale: boolean;
}

const AFTERWARDS: Record<"endWorker" | "terminate", Record<string, Afterwards>> = {
  endWorker: {
    deno: { free: true, stale: false },
    bun: { free: true, stale: false },
    node26: { free: true, stale: false },
  },
  terminate: {
    deno: { free: true, stale: true },
    bun: { free: false, stale: true },
    node26: { free: true, stale: true },
  },
};

for (const way of ["endWorker", "terminate"] as const) {
  const what = way === "terminate" ? "was terminated" : "ended by itself";
  test(`tryAcquire() after a Worker that held the lock ${what}: as this runtime does it, and free after the process`, async (place) => {
    const { process, stranger, tell } = await threads(place);
    assertEquals(await tell("try"), { value: true });
    assertEquals(kernelHolders(place.path()), [process.pid]);
    await within(60_000, process.call(way, { worker: "w" }));

    const free = await stranger.tryAcquire();
    const open = openIn(place.dir, process.pid);
    assertEquals(await process.tryAcquire(), false); // either way: held by the stranger now, or by what is left
    if (!free) {
      // It is held until the process ends, and by nobody else.
      assertEquals(kernelHolders(place.path()), [process.pid]);
      await process.kill();
      assertEquals(await stranger.tryAcquire(), true);
    }
    const stale = (await stranger.call("stale")).includes(process.pid);
    assertEquals({ free, stale, open }, { ...AFTERWARDS[way][ownKind], open: free ? 0 : 1 });
    await stranger.release();
    assertEquals(readFileSync(place.path(), "utf8"), "");
  });
}

for (const way of ["endWorker", "terminate"] as const) {
  const what = way === "terminate" ? "was terminated" : "ended by itself";
  test(`tryAcquire() by PID file after a Worker that held it ${what} is true, in its own process and in others`, async (place) => {
    const { process, stranger, tell } = await threads(place, { backend: "pidfile" });
    for (const next of [stranger, process]) {
      await process.call("worker", { worker: "w", path: place.path(), options: { backend: "pidfile" } });
      assertEquals(await tell("try"), { value: true });
      const { pid, thread } = recordIn(place.path("a.lock.pid"));
      assert(thread !== undefined && thread !== pid, "a Worker's record has its thread");
      assertEquals([await process.tryAcquire(), await stranger.tryAcquire()], [false, false]);
      await within(60_000, process.call(way, { worker: "w" }));
      await until("its thread has ended", () => !existsSync(`/proc/${pid}/task/${thread}`));
      assertEquals(await next.tryAcquire(), true);
      assertEquals(recordIn(place.path("a.lock.pid")).thread, undefined);
      await next.release();
      assertEquals((await next.call("stale")).includes(process.pid), way === "terminate");
    }
  });
}

test("acquire() says of a lock whose Worker was terminated what the runtime has made of it", async (place) => {
  const { process, stranger, tell } = await threads(place);
  assertEquals(await tell("try"), { value: true });
  const alive = await failure(process.call("acquire", { name: "lock", options: { timeout: 0 } }));
  assertMatch(alive.message, /which is this very process, by its thread \d+ \(a Worker\)/);
  const { pid, thread } = recordIn(place.path());
  await within(60_000, process.call("terminate", { worker: "w" }));
  await until("its thread has ended", () => !existsSync(`/proc/${pid}/task/${thread}`));
  if (ownKind !== "bun") {
    assertEquals((await stranger.call("look", { path: place.path() })).state, "stale");
    return;
  }
  const own = await failure(process.call("acquire", { name: "lock", options: { timeout: 0 } }));
  assertMatch(
    own.message,
    /by its thread \d+, a Worker that has ended: this runtime frees such a lock when the process ends/,
  );
  const other = await failure(stranger.call("acquire", { name: "lock", options: { timeout: 0 } }));
  assertMatch(other.message, /its thread \d+ \(a Worker\?\) has ended, while process \d+ is alive/);
});

if (ownKind === "deno") {
  test("tryAcquire() in deno-no-ffi is refused by the PID file of a Worker that was terminated, for it cannot know that", async ({ path, agent }) => {
    const process = await agent("deno-no-ffi");
    await process.lock(path(), { backend: "pidfile" });
    await process.call("worker", { worker: "w", path: path(), options: { backend: "pidfile" } });
    assertEquals(await process.call("tell", { worker: "w", does: "try" }), { value: true });
    await within(60_000, process.call("terminate", { worker: "w" }));
    assertEquals(await process.tryAcquire(), false);
    const late = await failure(process.call("acquire", { name: "lock", options: { timeout: 0 } }));
    // Without FFI it does not know its own boot or namespace: a container's process may have the same number.
    const why =
      "It counts as held because this process has that number too, and cannot tell whether the record is its own";
    assertStringIncludes(late.message, why);
    assertMatch(late.message, /a Worker that has ended may have left it, .+"holdfast break \S+" removes its PID file$/);
    assert(!late.message.includes("ps -o"), late.message); // it would show this very process
  });
}

test("tryAcquire() that is refused in a Worker leaves no descriptor behind when the Worker ends", async (place) => {
  const { process, stranger, tell } = await threads(place);
  assertEquals(await stranger.tryAcquire(), true);
  assertEquals(await tell("try"), { value: false });
  await within(60_000, process.call("endWorker", { worker: "w" }));
  assertEquals(openIn(place.dir, process.pid), 0);
  await stranger.release();
});

test("acquire() of another process waits while a Worker that holds the lock lives, and no longer than the process", async (place) => {
  const { process, stranger, tell } = await threads(place);
  assertEquals(await tell("try"), { value: true });
  const blocked = await mustBlock(stranger.call("acquire", { name: "lock" }));
  assertEquals(await process.tryAcquire(), false);
  await process.kill();
  assertEquals(await blocked.done(), true);
  assert((await stranger.call("stale")).includes(process.pid));
});

for (const sync of [false, true]) {
  test(`${sync ? "acquireSync()" : "acquire()"} of a Worker that is terminated while it waits leaves no ghost, in Deno after 2 s`, async (place) => {
    const { process, stranger, tell } = await threads(place);
    assertEquals(await stranger.tryAcquire(), true);
    assertEquals(await tell("try"), { value: false }); // and the runtime has loaded all that a wait takes
    await process.call("send", { worker: "w", does: "acquire", sync });
    await stranger.call("block", { milliseconds: 50 }); // by then it waits
    await within(60_000, process.call("terminate", { worker: "w" }));
    await stranger.release();
    if (sync && ownKind === "deno") {
      // Deno gives a Worker 2 s before it is stopped by force, and this one may get the lock in that time.
      await process.call("acquire", { name: "lock", options: { timeout: 20_000 } });
    } else {
      assertEquals(await process.tryAcquire(), true);
    }
    await stranger.call("block", { milliseconds: 50 }); // a ghost would have tried by then
    await process.release();
    assertEquals(await stranger.tryAcquire(), true);
    await stranger.call("block", { milliseconds: 50 });
    assertEquals(kernelHolders(place.path()), [stranger.pid]);
    await stranger.release();
    await stranger.call("block", { milliseconds: 50 });
    assertEquals(kernelHolders(place.path()), []);
  });
}

/** What is published of a lock on node:diagnostics_channel, once ./diagnostics is imported. */
import { hasSubscribers, subscribe, unsubscribe } from "node:diagnostics_channel";
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import process from "node:process";
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { Lock, LockLostError, LockTimeoutError } from "../mod.ts";
import { CHANNELS, type LockEvent } from "../src/diagnostics.ts";
import { history } from "../src/journal.ts";
import { mustBlock, test } from "./support/harness.ts";
import { underStrace } from "./support/lockers.ts";
import { deadOwner, kinds, leave, until } from "./support/pid_files.ts";

const BACKENDS = ["flock", "pidfile"] as const;

/** What is published of the locks in a folder while `fn` runs; each is complete when it is published. */
async function published(dir: string, fn: () => void | Promise<void>): Promise<LockEvent[]> {
  const events: LockEvent[] = [];
  const subscriber = (message: unknown, channel: string | symbol) => {
    const event = message as LockEvent; // the cast: only ours are published there
    assertEquals(channel, `holdfast:${event.event}`);
    if (event.path.startsWith(dir)) events.push(structuredClone(event));
  };
  for (const name of CHANNELS) subscribe(name, subscriber);
  try {
    await fn();
  } finally {
    assertEquals(CHANNELS.filter((name) => hasSubscribers(name)), [...CHANNELS]);
    for (const name of CHANNELS) assertEquals(unsubscribe(name, subscriber), true);
  }
  return events;
}

const eventsOf = (events: readonly LockEvent[]) => events.map(({ event }) => event);

for (const backend of BACKENDS) {
  test(`holdfast:acquired and holdfast:released are published once each, with all that is known (${backend})`, async ({ dir, path }) => {
    const lock = new Lock(path(), { backend, label: "nightly", reentrant: true });
    const events = await published(dir, async () => {
      assertEquals([lock.tryAcquire(), lock.tryAcquire()], [true, true]);
      lock.release();
      lock.release();
      await lock.acquire();
      lock[Symbol.dispose]();
      await lock.run(() => {});
      lock.runSync(() => {});
      lock.acquireSync().release();
    });
    const pair = ["acquired", "released"] as const;
    assertEquals(eventsOf(events), [...pair, ...pair, ...pair, ...pair, ...pair]);
    const { host, command, runtime } = events[0];
    const same = {
      path: path(),
      label: "nightly",
      mode: "exclusive",
      backend,
      pid: process.pid,
      host,
      command,
      runtime,
    };
    for (const { event, at, waited, held, ...rest } of events) {
      assertEquals(JSON.parse(JSON.stringify(rest)), JSON.parse(JSON.stringify(same)));
      assertEquals(new Date(at).toISOString(), at);
      assertEquals(
        [typeof waited, typeof held],
        event === "acquired" ? ["number", "undefined"] : ["undefined", "number"],
      );
      assert((waited ?? held ?? -1) >= 0);
    }
  });

  test(`holdfast:waiting is published once a wait, with whoever is in the way (${backend})`, async ({ dir, path, agent }) => {
    const other = await agent();
    await other.lock(path(), { backend });
    assertEquals(await other.tryAcquire(), true);
    const lock = new Lock(path(), { backend });
    const events = await published(dir, async () => {
      assertEquals(lock.tryAcquire(), false); // no wait
      const waits = await mustBlock(lock.acquire());
      await other.release();
      await waits.done();
      lock.release();
      await lock.acquire(); // nor this
      lock.release();
      await other.tryAcquire();
      assertThrows(() => lock.acquireSync({ timeout: 20 }), LockTimeoutError);
    });
    const pair = ["acquired", "released"] as const;
    assertEquals(eventsOf(events), ["waiting", ...pair, ...pair, "waiting"]);
    for (const { event, holder, pid } of events) {
      assertEquals([holder?.pid, pid], [event === "waiting" ? other.pid : undefined, process.pid]);
    }
    assert((events[1].waited ?? 0) >= 20, `waited ${events[1].waited} ms`);
    await other.release();
  });

  test(`holdfast:stale and holdfast:lost are published once, with who died and why it was lost (${backend})`, async ({ dir, path }) => {
    const file = backend === "flock" ? path() : path("a.lock.pid");
    const dead = deadOwner();
    leave(file, dead);
    const seen: string[] = [];
    const lock = new Lock(path(), { backend, onStale: ({ pid }) => seen.push(`${pid}`) });
    const events = await published(dir, () => {
      assertEquals(lock.tryAcquire(), true);
      writeFileSync(path("new"), "");
      renameSync(path("new"), file);
      assertEquals([lock.verify(), lock.verify()], [false, false]);
      assertThrows(() => lock.release(), LockLostError);
    });
    assertEquals(eventsOf(events), ["stale", "acquired", "lost"]);
    const [stale, , lost] = events;
    assertEquals([stale.holder?.pid, stale.holder?.nonce, seen], [dead.pid, dead.nonce, [`${dead.pid}`]]);
    assertStringIncludes(lost.reason ?? "", "deleted or replaced");
    assert((lost.held ?? -1) >= 0);
  });
}

/** Bun 1.4 collects a channel that is not referenced, and its subscribers with it. */
test("holdfast:acquired has its subscribers also after the garbage was collected", async ({ path }) => {
  let published = 0;
  const subscriber = (message: unknown) => published += Number((message as LockEvent).path === path()); // only ours are there
  subscribe("holdfast:acquired", subscriber);
  // The cast: each runtime may have one of the two, or neither.
  const { Bun, gc } = globalThis as { Bun?: { gc(now: boolean): void }; gc?: () => void };
  for (let i = 0; i < 3; i++) {
    await new Promise((resolve) => setImmediate(resolve));
    Bun?.gc(true);
    gc?.();
  }
  new Lock(path()).runSync(() => {});
  assertEquals([published, unsubscribe("holdfast:acquired", subscriber)], [1, true]);
});

for (const kind of kinds) {
  test(`holdfast:acquired in ${kind} is published from the import of ./diagnostics on, and no lock loads node:diagnostics_channel`, async ({ path, agent }) => {
    const { before, after } = await (await agent(kind)).call("deed", { deed: "publishing", path: path() });
    assertEquals(before.published, []);
    assertEquals(after.published, ["acquired", "waiting", "released"]);
    for (const { loaded } of [before, after]) {
      assertEquals(loaded.filter((name: string) => name.includes("diagnostics")), []);
    }
    assert(before.loaded.length > 0, "what a lock loads was seen");
    assertEquals(eventsOf(history(path())), ["acquired", "released", "acquired", "released"]);
  });

  test(`a subscriber in ${kind} that throws breaks no lock: what it throws is an uncaught error of the program`, async ({ path, agent }) => {
    for (const handled of [true, false]) {
      const holder = await agent(kind);
      await holder.lock(path(), { journal: true });
      if (handled) await holder.call("handleUncaught");
      await holder.call("publish");
      await holder.call("throwAt", { event: "acquired" });
      if (handled) {
        for (let i = 0; i < 2; i++) {
          assertEquals(await holder.tryAcquire(), true);
          assertEquals(await holder.call("held", { name: "lock" }), true);
          assertEquals(new Lock(path()).tryAcquire(), false);
          await holder.release();
          assertEquals(new Lock(path()).inspect().state, "free");
        }
        await until("it is told twice", () => holder.errors.split("thrown on purpose at acquired").length === 3);
        await holder.kill();
      } else {
        await holder.tryAcquire().catch(() => {}); // its answer, or its end, whichever comes first
        assertEquals((await holder.ended).code !== 0, true);
        assertStringIncludes(holder.errors, "thrown on purpose at acquired");
        // It died of it, as of any other error: with the lock, which is free by that.
        const stale: number[] = [];
        assertEquals(new Lock(path(), { onStale: ({ pid }) => stale.push(pid) }).tryAcquire(), true);
        assertEquals(stale, [holder.pid]);
      }
    }
  });
}

/** Deno without FFI may not ask at all. */
for (const kind of kinds.filter((kind) => kind !== "deno-no-ffi")) {
  test(`acquire() in ${kind} asks who is in the way only if a subscriber wants to know`, async ({ path, agent }) => {
    const log = path("strace.log");
    const traced = () => readFileSync(log, "utf8");
    const refusals = () => traced().match(/\bflock\b.*= -1 E(?:AGAIN|ACCES)/g)?.length ?? 0;
    await underStrace(agent, kind, log, ["-e", "trace=?open,openat,flock"], async (waiter) => {
      await waiter.lock(path());
      await waiter.call("publish"); // which alone asks nothing
      const holder = new Lock(path());
      for (const subscribed of [false, true]) {
        if (subscribed) await waiter.call("subscribe", { events: ["waiting"], file: path("told") });
        assertEquals(holder.tryAcquire(), true);
        const before = refusals();
        const waits = await mustBlock(waiter.call("acquire", { name: "lock" }));
        await until("it was refused, and has tried again", () => refusals() > before + 1);
        if (subscribed) await until("it is told", () => existsSync(path("told")));
        holder.release();
        await waits.done();
        await waiter.release();
        assertEquals(traced().includes('"/proc/locks"'), subscribed);
      }
      assertEquals((await waiter.call("published")).map(({ holder }: LockEvent) => holder?.pid), [process.pid]);
    });
  });
}

/** Waiting without spinning, and signals during a wait: acquireSync() above all, which blocks its thread. */
import { assert, assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import process from "node:process";
import { type Agent, mustBlock, type Place, test, within } from "./support/harness.ts";

/** Processor time that a process has used, in milliseconds. */
function used(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, "utf8");
  const [user, system] = text.slice(text.lastIndexOf(")") + 2).split(" ").slice(11, 13); // proc(5): 14 and 15
  return (Number(user) + Number(system)) * 10; // USER_HZ is 100 on every Linux
}

/** An agent that holds the lock, and one that wants it. */
async function pair({ agent, path }: Pick<Place, "agent" | "path">): Promise<[Agent, Agent]> {
  const [holder, waiter] = [await agent(), await agent()];
  for (const each of [holder, waiter]) await each.lock(path());
  assertEquals(await holder.tryAcquire(), true);
  assertEquals(await waiter.tryAcquire(), false); // and the runtime has loaded all that a wait takes
  return [holder, waiter];
}

/** Lets it wait; the answer comes when that is over. */
async function waits(waiter: Agent, args: { sync: boolean; options?: { timeout?: number } }) {
  waiter.write(`${JSON.stringify({ id: "wait", command: "timed", name: "lock", ...args })}\n`);
  assertEquals(JSON.parse(await waiter.line()), { waits: true });
  const line = waiter.line();
  line.catch(() => {}); // it may end without one: asked below
  return (await mustBlock(line.then((text) => JSON.parse(text).value))).done;
}

/** Sends a signal so many times, one a turn of the event loop, so that few of them are merged. */
async function shower(pid: number, signals: NodeJS.Signals[], times: number): Promise<void> {
  for (let i = 0; i < times; i++) {
    for (const signal of signals) process.kill(pid, signal);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Until it has handled so many SIGINT, and never more. */
async function seenBy(waiter: Agent, times: number): Promise<void> {
  for (;;) {
    const { SIGINT } = await waiter.call("seen");
    assert(SIGINT <= times, `${SIGINT} of ${times}`);
    if (SIGINT === times) return;
  }
}

for (const sync of [true, false]) {
  const name = sync ? "acquireSync()" : "acquire()";

  test(`${name} uses next to nothing of the processor while it waits`, async (place) => {
    const [, waiter] = await pair(place);
    await (await waits(waiter, { sync, options: { timeout: 50 } }))(); // once, to load all
    const before = used(waiter.pid);
    const done = await waits(waiter, { sync, options: { timeout: 1_000 } });
    const { result, took } = await done();
    const cpu = used(waiter.pid) - before;
    assertEquals(result, "ETIMEDOUT");
    assert(took >= 999, `${took} ms`);
    assert(cpu < took / 3, `${cpu} ms of ${took} ms`); // a spin uses all it can get; what a try costs is the benchmark's
  });

  test(`${name} that waits ends with its process at a SIGINT that nobody handles`, async (place) => {
    const [, waiter] = await pair(place);
    const done = await waits(waiter, { sync });
    await waiter.kill("SIGINT");
    assertEquals(await within(60_000, waiter.ended), { code: null, signal: "SIGINT" });
    await done().then(() => assert(false, "it ended"), () => {});
  });

  test(`${name} is granted during 1,000 SIGUSR1 and SIGCHLD that a handler counts, and keeps its deadline`, async (place) => {
    const [holder, waiter] = await pair(place);
    for (const signal of ["SIGUSR1", "SIGCHLD"]) await waiter.call("listen", { signal });

    const late = await waits(waiter, { sync, options: { timeout: 500 } });
    await shower(waiter.pid, ["SIGUSR1", "SIGCHLD"], 1_000);
    const { result, took } = await late();
    assertEquals(result, "ETIMEDOUT");
    assert(took >= 499 && took < 50_000, `${took} ms`);

    const granted = await waits(waiter, { sync });
    await shower(waiter.pid, ["SIGUSR1", "SIGCHLD"], 500);
    await holder.release();
    await shower(waiter.pid, ["SIGUSR1", "SIGCHLD"], 500);
    assertEquals((await granted()).result, "granted");
    const seen = await waiter.call("seen");
    assert(seen.SIGUSR1 > 0 && seen.SIGCHLD > 0, JSON.stringify(seen)); // else nothing was tested
    await waiter.release();
  });

  test(`${name} is granted during 1,000 SIGCHLD that nobody handles`, async (place) => {
    const [holder, waiter] = await pair(place);
    const granted = await waits(waiter, { sync });
    await shower(waiter.pid, ["SIGCHLD"], 500);
    await holder.release();
    await shower(waiter.pid, ["SIGCHLD"], 500);
    assertEquals((await granted()).result, "granted");
    await waiter.release();
  });
}

test("acquireSync() lets a JavaScript handler of SIGINT run when the wait is over, and not before", async (place) => {
  const [holder, waiter] = await pair(place);
  await waiter.call("listen", { signal: "SIGINT" });
  for (const granted of [false, true]) {
    const done = await waits(waiter, { sync: true, options: { timeout: granted ? 30_000 : 500 } });
    const before = performance.now();
    await waiter.kill("SIGINT");
    if (granted) {
      await mustBlock(done());
      await holder.release();
    }
    const { result, took, seen } = await done();
    assertEquals(result, granted ? "granted" : "ETIMEDOUT");
    if (!granted) assert(took >= 499, `the signal ended the wait after ${performance.now() - before} ms`);
    assertEquals(seen, { SIGINT: Number(granted) }); // that of this wait is still to come
    await within(60_000, seenBy(waiter, 1 + Number(granted)));
  }
  await waiter.release();
});

test("acquire() lets a JavaScript handler of SIGINT run during the wait, and goes on waiting", async (place) => {
  const [holder, waiter] = await pair(place);
  await waiter.call("listen", { signal: "SIGINT" });
  const done = await waits(waiter, { sync: false });
  await waiter.kill("SIGINT");
  const granted = await mustBlock(done());
  await holder.release();
  assertEquals((await granted.done()).result, "granted");
  await within(60_000, seenBy(waiter, 1));
});

for (const sync of [true, false]) {
  test(`${sync ? "acquireSync()" : "acquire()"} in a Worker waits without spinning and keeps its deadline`, async (place) => {
    const [holder, waiter] = await pair(place);
    await waiter.call("worker", { worker: "w", path: place.path() });
    const tell = (timeout: number) => waiter.call("tell", { worker: "w", does: "acquire", sync, timeout });
    await tell(20); // once, to load all
    const [before, began] = [used(waiter.pid), performance.now()];
    assertEquals(await tell(1_000), { error: "LockTimeoutError", code: "ETIMEDOUT" });
    const [cpu, took] = [used(waiter.pid) - before, performance.now() - began];
    assert(took >= 999 && cpu < took / 3, `${cpu} ms of ${took} ms`);

    const blocked = await mustBlock(tell(30_000));
    await holder.release();
    assertEquals(typeof (await blocked.done()).value, "number");
    assertEquals(await holder.tryAcquire(), false);
  });
}

test("acquireSync() in a Worker lets the main thread work meanwhile, and end the process by process.exit and SIGINT", async (place) => {
  for (const end of ["process.exit", "SIGINT"] as const) {
    const [holder, waiter] = await pair(place);
    await waiter.call("worker", { worker: "w", path: place.path() });
    assertEquals(await waiter.call("tell", { worker: "w", does: "try" }), { value: false });
    await waiter.call("send", { worker: "w", does: "acquire", sync: true });
    await holder.call("block", { milliseconds: 50 }); // by then it waits
    assertEquals(await waiter.call("held", { name: "lock" }), false);
    const ended = end === "SIGINT" ? (await waiter.kill(end), waiter.ended) : waiter.die(end);
    const expected = end === "SIGINT" ? { code: null, signal: "SIGINT" } : { code: 0, signal: null };
    assertEquals(await within(60_000, ended), expected);
    await holder.release();
  }
});

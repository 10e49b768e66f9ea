/** src/record/options.ts: what the constructor and the waits accept. CASES row 43. */
import { mkdirSync, readdirSync } from "node:fs";
import process from "node:process";
import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { join, toFileUrl } from "@std/path";
import { Lock, type LockOptions, LockTimeoutError } from "../../mod.ts";
import { pause, Wait } from "../../src/wait/wait.ts";
import { AgentError, mustBlock, type Place, test, within } from "../support/harness.ts";

/** An agent that holds the lock. */
async function held({ path, agent }: Place) {
  const holder = await agent();
  await holder.lock(path());
  assertEquals(await holder.tryAcquire(), true);
  return holder;
}

const TOO_SMALL = [NaN, -1, -0.001, -Infinity];
const NO_NUMBERS = ["5", "", null, true, {}, [], 5n, new Date(5)];

test("acquire() and acquireSync() refuse a timeout that is not a number or is negative, also of a free lock", async ({ path, dir }) => {
  const lock = new Lock(path());
  for (const timeout of TOO_SMALL) {
    const text = `Cannot wait for a lock as "timeout" must not be negative: received ${timeout}`;
    assertEquals((await assertRejects(() => lock.acquire({ timeout }), RangeError)).message, text);
    assertEquals(assertThrows(() => lock.acquireSync({ timeout }), RangeError).message, text);
  }
  for (const value of NO_NUMBERS) {
    const timeout = value as number; // which it is not: that is the test
    const text = 'Cannot wait for a lock as "timeout" must be a number of milliseconds: received ';
    assertStringIncludes((await assertRejects(() => lock.acquire({ timeout }), TypeError)).message, text);
    assertStringIncludes(assertThrows(() => lock.acquireSync({ timeout }), TypeError).message, text);
    await assertRejects(() => lock.run(() => {}, { timeout }), TypeError, text);
    assertThrows(() => lock.runSync(() => {}, { timeout }), TypeError, text);
  }
  assertEquals([lock.held, readdirSync(dir)], [false, []]);
});

for (const timeout of [Infinity, undefined, 2 ** 31, 2 ** 31 - 1, 2 ** 32 + 1, 2 ** 40, Number.MAX_VALUE]) {
  test(`acquire() with a timeout of ${timeout} waits, and gets the lock when it is released`, async (place) => {
    const holder = await held(place);
    const lock = new Lock(place.path());
    const waiting = await mustBlock(lock.acquire({ timeout }));
    await holder.release();
    assertEquals(await waiting.done(), lock);
    lock.release();
  });
}

for (const timeout of [undefined, 2 ** 31, 2 ** 40]) {
  test(`acquireSync() with a timeout of ${timeout} waits, and gets the lock when it is released`, async (place) => {
    const holder = await held(place);
    const waiter = await place.agent(); // because it blocks its thread
    await waiter.lock(place.path());
    const waiting = await mustBlock(waiter.call("acquireSync", { name: "lock", options: { timeout } }));
    await holder.release();
    assertEquals(await waiting.done(), true);
  });
}

test("acquire() with an endless timeout ends when its signal aborts", async (place) => {
  await held(place);
  for (const timeout of [Infinity, 2 ** 31, 2 ** 40]) {
    const controller = new AbortController();
    const lock = new Lock(place.path());
    const waiting = await mustBlock(lock.acquire({ timeout, signal: controller.signal }));
    const reason = new Error("enough");
    controller.abort(reason);
    assertEquals(await assertRejects(() => waiting.done(), Error), reason);
    assertEquals(lock.held, false);
  }
});

test("pause() never gives setTimeout more than it takes, since it would fire at once", async () => {
  const limit = 2 ** 31 - 1;
  for (const timeout of [limit, 2 ** 31, 2 ** 40, Infinity]) {
    assertEquals(new Wait(timeout, () => 0).left, limit);
    const { done, wake } = pause(timeout);
    const waiting = await mustBlock(done);
    wake();
    await waiting.done();
  }
});

for (const timeout of [0, -0, 0.5, 1, 60.5]) {
  test(`acquire() and acquireSync() with a timeout of ${Object.is(timeout, -0) ? "-0" : timeout} give up in time`, async (place) => {
    await held(place);
    const lock = new Lock(place.path());
    const words = timeout === 0 ? "at once" : `within ${timeout} ms`;
    const calls = [
      () => lock.acquire({ timeout }),
      () => new Promise((resolve) => resolve(lock.acquireSync({ timeout }))),
    ];
    for (const call of calls) {
      const start = performance.now();
      const error = await within(60_000, assertRejects(call, LockTimeoutError));
      // A timer may be a millisecond early by this clock.
      assert(performance.now() - start >= timeout - 1, `after ${performance.now() - start} ms`);
      assertStringIncludes(error.message, `Cannot acquire ${JSON.stringify(place.path())} ${words}: held by pid `);
    }
  });
}

test("acquire() with a timeout of 0 gets a free lock", async ({ path }) => {
  const lock = new Lock(path());
  await lock.acquire({ timeout: 0 });
  lock.release();
  lock.acquireSync({ timeout: 0 }).release();
});

const WRONG: [object, new (message: string) => Error, string][] = [
  [{ mode: "x" }, TypeError, '"mode" must be "exclusive" or "shared": received "x"'],
  [{ mode: null }, TypeError, '"mode" must be "exclusive" or "shared": received null'],
  [{ mode: "Exclusive" }, TypeError, 'received "Exclusive"'],
  [{ mode: "toString" }, TypeError, 'received "toString"'],
  [{ backend: "fcntl" }, TypeError, '"backend" must be "auto" or "flock" or "pidfile": received "fcntl"'],
  [{ backend: 1 }, TypeError, '"backend" must be "auto" or "flock" or "pidfile": received 1'],
  [{ fileMode: "644" }, TypeError, '"fileMode" must be a number: received "644"'],
  [{ fileMode: null }, TypeError, '"fileMode" must be a number: received null'],
  [{ fileMode: -1 }, RangeError, '"fileMode" must be from 0 to 0o777: received -1'],
  [{ fileMode: 0o1000 }, RangeError, '"fileMode" must be from 0 to 0o777: received 512'],
  [{ fileMode: 1.5 }, RangeError, '"fileMode" must be from 0 to 0o777: received 1.5'],
  [{ fileMode: NaN }, RangeError, '"fileMode" must be from 0 to 0o777: received NaN'],
  [{ label: 5 }, TypeError, '"label" must be a string: received 5'],
  [{ label: null }, TypeError, '"label" must be a string: received null'],
  [{ label: "x".repeat(201) }, RangeError, '"label" must have at most 200 characters: received 201'],
  [{ onStale: "log" }, TypeError, '"onStale" must be a function: received "log"'],
  [{ onStale: null }, TypeError, '"onStale" must be a function: received null'],
];

test("new Lock() says of each wrong option what it must be and what it is", ({ path }) => {
  for (const [options, errorClass, text] of WRONG) {
    const error = assertThrows(() => new Lock(path(), options as LockOptions), errorClass); // the cast is the test
    assertStringIncludes(error.message, `Cannot create a lock as ${text.startsWith('"') ? text : ""}`);
    assertStringIncludes(error.message, text);
  }
  assertThrows(() => new Lock(path(), null as unknown as LockOptions), TypeError);
});

test("new Lock() takes each option at its limits, and undefined for its default", ({ path, dir }) => {
  for (const fileMode of [0, 0o777]) new Lock(path(), { fileMode });
  for (const label of ["", "x".repeat(200)]) new Lock(path(), { label });
  const none = { mode: undefined, backend: undefined, fileMode: undefined, label: undefined, onStale: undefined };
  const lock = new Lock(path(), none);
  assertEquals([lock.path, lock.held, lock.backend], [path(), false, undefined]);
  assertEquals(readdirSync(dir), []); // naming a lock touches nothing
});

test("new Lock() says of a wrong path what it must be", ({ path }) => {
  const wrong: [unknown, string][] = [
    ["", "its path must not be empty"],
    ["a\0b", 'its path must not hold a NUL: received "a\\u0000b"'],
    [undefined, "its path must be a string or a file URL: received undefined"],
    [null, "its path must be a string or a file URL: received null"],
    [5, "its path must be a string or a file URL: received 5"],
    [[path()], `its path must be a string or a file URL: received ${path()}`],
    [new URL("https://example.org/a.lock"), "its URL must be a file: received https://example.org/a.lock"],
    [new URL("data:,a"), "its URL must be a file: received data:,a"],
  ];
  for (const [value, text] of wrong) {
    const bad = value as string; // which it is not: that is the test
    assertEquals(assertThrows(() => new Lock(bad), TypeError).message, `Cannot create a lock as ${text}`);
    assertEquals(assertThrows(() => Lock.inspect(bad), TypeError).message, `Cannot inspect a lock as ${text}`);
  }
  for (const url of ["file:///tmp/a%2Fb", "file:///tmp/a%00b", "file://other.example/tmp/a"]) {
    assertThrows(() => new Lock(new URL(url)), TypeError);
  }
});

test("path is the file that a URL names, decoded", ({ path }) => {
  for (const name of ["a b.lock", "50%.lock", "é🔒.lock", "a#b?c.lock", "a\nb.lock"]) {
    assertEquals(new Lock(toFileUrl(path(name))).path, path(name));
  }
});

test("path stays the file that a relative path named, though the directory is changed later", ({ path, dir }) => {
  mkdirSync(path("one"));
  mkdirSync(path("two"));
  const back = process.cwd();
  try {
    process.chdir(path("one"));
    const [lock, before] = [new Lock("a.lock"), process.cwd()];
    assertEquals(lock.path, join(before, "a.lock"));
    process.chdir(path("two"));
    assertEquals(lock.tryAcquire(), true);
    assertEquals(new Lock("../one/a.lock").tryAcquire(), false);
    const other = new Lock("a.lock");
    assertEquals(other.tryAcquire(), true); // another file, another lock
    other.release();
    process.chdir(dir);
    lock.release();
  } finally {
    process.chdir(back);
  }
  assertEquals([readdirSync(path("one")), readdirSync(path("two"))], [["a.lock"], ["a.lock"]]);
});

test("new Lock() refuses the same options in an agent's process", async ({ path, agent }) => {
  const packed = await agent("node20"); // which runs the packed JavaScript
  const error = await assertRejects(() => packed.lock(path(), { fileMode: 512 }), AgentError);
  assertEquals([error.name, error.message.includes("received 512")], ["RangeError", true]);
});

test("Lock refuses options that it does not have, which would otherwise mean a wait for ever", async ({ path }) => {
  // The casts: JavaScript has no types to stop these.
  const wrong = (options: unknown) => options as LockOptions;
  assertThrows(() => new Lock(path(), wrong({ timeout: 100 })), TypeError, 'no option "timeout"');
  assertThrows(() => new Lock(path(), wrong(null)), TypeError, "must be an object");
  assertThrows(() => new Lock(path(), wrong("shared")), TypeError, "must be an object");
  assertThrows(() => new Lock(`${path()}/`), TypeError, "names a directory");
  const lock = new Lock(path());
  await assertRejects(() => lock.acquire({ timeoutMs: 1 } as object), TypeError, 'no option "timeoutMs"');
  await assertRejects(() => lock.acquire(wrong(2000) as object), TypeError, "must be an object");
  await assertRejects(() => lock.acquire({ signal: {} } as object), TypeError, "must be an AbortSignal");
  await assertRejects(() => lock.run({} as () => void), TypeError, "must be a function");
  assertEquals(lock.held, false);
});

/** src/record/errors.ts and src/record/messages.ts: every error class, as it is thrown. */
import { existsSync, mkdirSync, readFileSync, unlinkSync, writeFileSync } from "node:fs";
import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import {
  Lock,
  LockDeadlockError,
  LockError,
  LockHeldError,
  LockHolder,
  LockLostError,
  LockNotHeldError,
  LockTimeoutError,
  LockUnsupportedError,
} from "../mod.ts";
import { SystemError } from "../src/sys/contract.ts";
import { test } from "./support/harness.ts";

const CLASSES = {
  LockError,
  LockHeldError,
  LockTimeoutError,
  LockNotHeldError,
  LockLostError,
  LockDeadlockError,
  LockUnsupportedError,
};

/** Which of the classes an error is an instance of. */
const classesOf = (error: Error) =>
  Object.entries(CLASSES).filter(([, each]) => error instanceof each).map(([name]) => name);

const noAdvice = (error: Error) => assert(!/\b(delete|remove|unlink|rm)\b/i.test(error.message), error.message);

test("LockError is the class of all the others, and each carries what it was made with", () => {
  const cause = new Error("why");
  const parents: Record<string, string[]> = { LockTimeoutError: ["LockHeldError"] };
  for (const [name, ErrorClass] of Object.entries(CLASSES)) {
    const error = new ErrorClass("text", { code: "EXAMPLE", path: "/a", cause });
    assert(error instanceof Error);
    assertEquals(classesOf(error).sort(), [...new Set(["LockError", name, ...parents[name] ?? []])].sort());
    const { message, code, path } = error;
    assertEquals([error.name, message, code, path, error.cause], [name, "text", "EXAMPLE", "/a", cause]);
    assertStringIncludes(String(error), `${name}: text`);
    assertStringIncludes(String(error.stack), name);
    assertEquals("cause" in new ErrorClass("text", { code: "EXAMPLE", path: "/a" }), false);
  }
});

test("LockTimeoutError names the holder's pid and command, since when, and how to end it", async ({ path, agent }) => {
  const holder = await agent();
  await holder.lock(path(), { label: "nightly" });
  const earliest = Date.now();
  assertEquals(await holder.tryAcquire(), true);
  const lock = new Lock(path());
  const errors = [
    await assertRejects(() => lock.acquire({ timeout: 30 }), LockTimeoutError),
    assertThrows(() => lock.acquireSync({ timeout: 30 }), LockTimeoutError),
    await assertRejects(() => lock.run(() => {}, { timeout: 30 }), LockTimeoutError),
    assertThrows(() => lock.runSync(() => {}, { timeout: 30 }), LockTimeoutError),
  ];
  const { command, acquiredAt } = JSON.parse(readFileSync(path(), "utf8").split("\n")[1]);
  for (const error of errors) {
    assertEquals(classesOf(error), ["LockError", "LockHeldError", "LockTimeoutError"]);
    assertEquals([error.code, error.path, error.cause], ["ETIMEDOUT", path(), undefined]);
    assert(error.holder instanceof LockHolder);
    assertEquals([error.holder.pid, error.holder.command, error.holder.label], [holder.pid, command, "nightly"]);
    assertStringIncludes(
      error.message,
      `Cannot acquire ${JSON.stringify(path())} within 30 ms: held by pid ${holder.pid} (`,
    );
    assertStringIncludes(error.message, `(${command})`);
    assertStringIncludes(error.message, `, "nightly", since ${acquiredAt}. `);
    assertStringIncludes(error.message, `"kill ${holder.pid}" ends it`);
    noAdvice(error);
  }
  assertStringIncludes(command, "lock_process.mjs");
  const since = Date.parse(acquiredAt);
  assert(since >= earliest - 1 && since <= Date.now() + 1, acquiredAt);
});

test("LockTimeoutError names a holder that left no record as the kernel does", async ({ path, child }) => {
  const flock = child("flock", [path(), "sh", "-c", "echo held; read wait"]);
  assertEquals(await flock.line(), "held");
  const error = await assertRejects(() => new Lock(path()).acquire({ timeout: 0 }), LockTimeoutError);
  assertEquals(error.holder?.pid, flock.pid);
  assertMatch(error.message, new RegExp(`at once: held by pid ${flock.pid} \\(\\S*flock `));
  assertStringIncludes(error.message, `"fuser -v ${path()}" names`);
  noAdvice(error);
});

test("LockTimeoutError is what a second acquire() of the same object gets", async ({ path }) => {
  const lock = new Lock(path());
  assertEquals(lock.tryAcquire(), true);
  const error = await assertRejects(() => lock.acquire({ timeout: 0 }), LockTimeoutError);
  assertStringIncludes(error.message, "this very Lock object holds it");
  lock.release();
});

test("LockNotHeldError is thrown by release() of what is not held, and by a second release()", ({ path }) => {
  const lock = new Lock(path());
  for (let i = 0; i < 2; i++) {
    const error = assertThrows(() => lock.release(), LockNotHeldError);
    assertEquals(classesOf(error), ["LockError", "LockNotHeldError"]);
    assertEquals([error.code, error.path, error.cause], ["ENOTHELD", path(), undefined]);
    assertEquals(error.message, `Cannot release ${JSON.stringify(path())}: this object does not hold it`);
    lock.acquireSync().release();
  }
});

test("LockLostError is thrown once by release() of a lock whose file was replaced", ({ path }) => {
  const lock = new Lock(path());
  assertEquals(lock.tryAcquire(), true);
  unlinkSync(path());
  writeFileSync(path(), "");
  const error = assertThrows(() => lock.release(), LockLostError);
  assertEquals(classesOf(error), ["LockError", "LockLostError"]);
  assertEquals([error.code, error.path], ["ELOST", path()]);
  assertStringIncludes(error.message, `Cannot keep ${JSON.stringify(path())}: it was lost`);
  assertThrows(() => lock.release(), LockNotHeldError);
  assertEquals(lock.tryAcquire(), true);
  lock.release();
});

test("LockDeadlockError is thrown at once by acquireSync() of what this thread holds", ({ path }) => {
  const lock = new Lock(path());
  assertEquals(lock.tryAcquire(), true);
  for (const again of [lock, new Lock(path())]) {
    const error = assertThrows(() => again.acquireSync(), LockDeadlockError);
    assertEquals(classesOf(error), ["LockError", "LockDeadlockError"]);
    assertEquals([error.code, error.path], ["EDEADLK", path()]);
    assertStringIncludes(error.message, "this thread holds it already");
  }
  lock.release();
});

test("LockUnsupportedError is thrown for a shared PID file", ({ path }) => {
  const error = assertThrows(
    () => new Lock(path(), { mode: "shared", backend: "pidfile" }).tryAcquire(),
    LockUnsupportedError,
  );
  assertEquals(classesOf(error), ["LockError", "LockUnsupportedError"]);
  assertEquals([error.code, error.path], ["ENOTSUP", path()]);
  assertStringIncludes(error.message, `Cannot acquire ${JSON.stringify(path())} (shared): `);
});

test("LockError of a system call has its errno as code, and the runtime's own error as cause", async ({ path }) => {
  mkdirSync(path("directory"));
  writeFileSync(path("file"), "");
  const cases = [["no/a.lock", "ENOENT"], ["directory", "EISDIR"], ["file/a.lock", "ENOTDIR"]];
  for (const [name, code] of cases) {
    const lock = new Lock(path(name));
    const errors = [
      assertThrows(() => lock.tryAcquire(), LockError),
      assertThrows(() => lock.acquireSync(), LockError),
      await assertRejects(() => lock.acquire(), LockError),
    ];
    for (const error of errors) {
      assertEquals(classesOf(error), ["LockError"]);
      assertEquals([error.code, error.path, error.name], [code, path(name), "LockError"]);
      assertStringIncludes(error.message, `Cannot acquire ${JSON.stringify(path(name))}: ${code}: `);
      assert(error.cause instanceof Error);
      assertEquals((error.cause as NodeJS.ErrnoException).code, code); // node:fs throws these
    }
    assertEquals(lock.held, false);
  }
  // Where no runtime's error is behind it, ours is: a path that can be opened, and is no regular file.
  const error = assertThrows(() => new Lock("/dev/null").tryAcquire(), LockError, "it is a device");
  assert(error.cause instanceof SystemError);
});

test("LockError quotes a path so that its line breaks and quotes show", ({ path }) => {
  const odd = path('no/a\n"b".lock');
  const error = assertThrows(() => new Lock(odd).tryAcquire(), LockError);
  assertMatch(error.message, /a\\n\\"b\\"\.lock": ENOENT: its directory /);
  assertEquals(error.path, odd);
});

test("acquireSync() and runSync() refuse a signal, which could not abort a wait that blocks, and take no lock", ({ path }) => {
  const lock = new Lock(path());
  // The casts: the types do not let it through.
  const options = { signal: AbortSignal.abort() } as { timeout?: number };
  const text = 'Cannot wait for a lock as it has no option "signal": it has timeout';
  assertEquals(assertThrows(() => lock.acquireSync(options), TypeError).message, text);
  assertEquals(assertThrows(() => lock.runSync(() => {}, options), TypeError).message, text);
  assertEquals(existsSync(path()), false);
});

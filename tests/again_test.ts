/** A Lock that is refused and tries again: it keeps its file for a second, and is never fooled by it. */
import { renameSync, unlinkSync, writeFileSync } from "node:fs";
import process from "node:process";
import { assert, assertEquals } from "@std/assert";
import { Lock } from "../mod.ts";
import { tryFlock } from "../src/backend/flock.ts";
import { system } from "../src/sys/mod.ts";
import { test } from "./harness.ts";
import { openIn } from "./lockers.ts";
import { until } from "./pid_files.ts";

const openHere = (dir: string) => openIn(dir, process.pid);

test("tryAcquire() that is refused keeps one descriptor for the next try, and closes it a second later", async ({ dir, path }) => {
  const [holder, lock] = [new Lock(path()), new Lock(path())];
  assertEquals(holder.tryAcquire(), true);
  for (let i = 0; i < 3; i++) {
    assertEquals(lock.tryAcquire(), false);
    assertEquals(openHere(dir), 2);
  }
  await until("it is closed", () => openHere(dir) === 1);
  holder.release();
  await until("none is open", () => openHere(dir) === 0); // /proc/self/fd is no snapshot, so not from the first look
});

test("tryAcquire() of a hundred locks that are refused keeps sixteen descriptors", async ({ dir, path }) => {
  const holder = new Lock(path());
  assertEquals(holder.tryAcquire(), true);
  const locks = Array.from({ length: 100 }, () => new Lock(path()));
  for (const lock of [...locks, ...locks]) {
    assertEquals(lock.tryAcquire(), false);
    assert(openHere(dir) <= 17, `${openHere(dir)} are open`);
  }
  holder.release();
  // Those whose files are open, and those whose are not.
  for (const lock of locks) {
    assertEquals(lock.tryAcquire(), true);
    lock.release();
  }
  await until("all are closed", () => openHere(dir) === 0);
});

test("tryAcquire() after a refusal takes the file that stands there now, not the one that it has open", async ({ dir, path }) => {
  const [holder, lock] = [new Lock(path()), new Lock(path())];
  assertEquals(holder.tryAcquire(), true);
  assertEquals(lock.tryAcquire(), false);
  writeFileSync(path("new"), "");
  renameSync(path("new"), path());
  assertEquals(lock.tryAcquire(), true); // its holder has lost it
  assertEquals(holder.verify(), false);
  assertEquals(lock.verify(), true);
  assertEquals(new Lock(path()).tryAcquire(), false);
  lock.release();
  await until("all are closed", () => openHere(dir) === 0);
});

test("tryAcquire() after a refusal is granted when the file was released, deleted and made again", ({ path }) => {
  const [holder, lock] = [new Lock(path()), new Lock(path())];
  assertEquals(holder.tryAcquire(), true);
  assertEquals(lock.tryAcquire(), false);
  holder.release();
  unlinkSync(path());
  assertEquals(holder.tryAcquire(), true);
  assertEquals(lock.tryAcquire(), false); // by the new file
  holder.release();
  assertEquals(lock.tryAcquire(), true);
  assertEquals(lock.verify(), true);
  lock.release();
});

test("tryAcquire() that was refused keeps no writer's turn: readers come in", ({ path }) => {
  const [reader, writer, other] = [
    new Lock(path(), { mode: "shared" }),
    new Lock(path()),
    new Lock(path(), { mode: "shared" }),
  ];
  assertEquals(reader.tryAcquire(), true);
  for (let i = 0; i < 3; i++) assertEquals(writer.tryAcquire(), false);
  assertEquals(other.tryAcquire(), true);
  for (const each of [reader, other]) each.release();
});

test("tryAcquire() that a PID file refuses does not lock the file even for a moment, and does not open it", ({ dir, path }) => {
  const holder = new Lock(path(), { backend: "pidfile" });
  assertEquals(holder.tryAcquire(), true);
  writeFileSync(path(), "");
  // Whoever locked it would refuse flock(1), be named as the holder, and wake every waiter when it closes.
  const opened: string[] = [];
  const sys = system();
  const watched = {
    ...sys,
    openLock: (...request: Parameters<typeof sys.openLock>) => (opened.push(request[0]), sys.openLock(...request)),
  };
  const attempt = tryFlock(watched, { path: path(), mode: "exclusive", fileMode: 0o644, label: undefined });
  assertEquals(["refusal" in attempt, opened], [true, []]);
  holder.release();
  assertEquals(openHere(dir), 0);
});

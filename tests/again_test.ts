/** A Lock that is refused and tries again. */
import { renameSync, unlinkSync, writeFileSync } from "node:fs";
import process from "node:process";
import { assertEquals } from "@std/assert";
import { Lock } from "../mod.ts";
import { tryFlock } from "../src/backend/flock.ts";
import { system } from "../src/sys/mod.ts";
import { test } from "./support/harness.ts";
import { openIn } from "./support/lockers.ts";
import { until } from "./support/pid_files.ts";

const openHere = (dir: string) => openIn(dir, process.pid);

test("tryAcquire() that is refused keeps no descriptor", ({ dir, path }) => {
  const [holder, lock] = [new Lock(path()), new Lock(path())];
  assertEquals(holder.tryAcquire(), true);
  for (let i = 0; i < 3; i++) {
    assertEquals(lock.tryAcquire(), false);
    assertEquals(openHere(dir), 1);
  }
  holder.release();
});

test("tryAcquire() after a refusal takes the file that stands there now, not the one that it was refused on", async ({ dir, path }) => {
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

test("tryAcquire() that a PID file refuses does not lock the file even for a moment, and does not open it", ({ dir, path }) => {
  const holder = new Lock(path(), { backend: "pidfile" });
  assertEquals(holder.tryAcquire(), true);
  writeFileSync(path(), "");
  // A lock on it would refuse flock(1), be named as the holder, and wake every waiter when it closes.
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

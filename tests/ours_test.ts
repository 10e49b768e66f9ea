/** PID files that name this very thread: held by it, held by another copy of the library in it, or left by an earlier load. */
import { existsSync, readFileSync } from "node:fs";
import process from "node:process";
import { assertEquals, assertStringIncludes } from "@std/assert";
import { Lock } from "../mod.ts";
import { isOfThisCommand } from "../src/backend/ours.ts";
import type { HolderFields } from "../src/record/record.ts";
import { system } from "../src/sys/mod.ts";
import { test } from "./support/harness.ts";
import { failure } from "./support/lockers.ts";
import { leave, ownerOf, recordIn } from "./support/pid_files.ts";

/** What this very thread writes. */
const ownRecord = (other: Partial<HolderFields> = {}): HolderFields =>
  ownerOf(process.pid, { thread: system().self().thread, ...other });

/** A lock by PID file, and whom it was told of. */
function watched(path: string, backend: "pidfile" | "flock") {
  const stale: number[] = [];
  return { lock: new Lock(path, { backend, onStale: ({ pid }) => stale.push(pid) }), stale };
}

for (const backend of ["pidfile", "flock"] as const) {
  test(`tryAcquire() by ${backend} takes over the PID file that an earlier load of the program left in this thread, and calls it no death`, ({ path }) => {
    leave(path("a.lock.pid"), ownRecord());
    assertEquals(Lock.inspect(path()).state, "stale");
    const { lock, stale } = watched(path(), backend);
    assertEquals(lock.tryAcquire(), true);
    assertEquals(stale, []);
    if (backend === "pidfile") assertEquals(recordIn(path("a.lock.pid")).pid, process.pid);
    else assertEquals(existsSync(path("a.lock.pid")), false);
    lock.release();
  });

  test(`tryAcquire() by ${backend} is refused by a PID file of this process where one fact about its thread is not known, or is another`, ({ path }) => {
    const others: Partial<HolderFields>[] = [
      { nonce: undefined },
      { startTime: undefined },
      { pidNamespace: "4026539999" },
      { command: undefined },
      { command: "holdfast run --no-fork a.lock " + system().self().command }, // and became this program
    ];
    // In Deno's test runner this is not the first thread, which lives as well.
    if (system().thread() !== process.pid) others.push({ thread: undefined });
    for (const other of others) {
      const bytes = leave(path("a.lock.pid"), ownRecord(other));
      assertEquals(watched(path(), backend).lock.tryAcquire(), false, JSON.stringify(other));
      assertEquals(new Uint8Array(readFileSync(path("a.lock.pid"))), bytes);
    }
  });
}

test("tryAcquire() is refused by a PID file of this thread in Electron, where another program in it may hold it", ({ path }) => {
  const { versions } = process;
  leave(path("a.lock.pid"), ownRecord());
  const { lock } = watched(path(), "pidfile");
  Object.defineProperty(process, "versions", { value: { ...versions, electron: "40.0.0" }, configurable: true });
  try {
    assertEquals(lock.tryAcquire(), false);
  } finally {
    Object.defineProperty(process, "versions", { value: versions, configurable: true });
  }
  assertEquals(lock.tryAcquire(), true);
  lock.release();
});

test("isOfThisCommand() is true of a record with the beginning of a long command line, which is all that a record has", ({ path }) => {
  const command = "deno run watched.ts " + "é".repeat(2000);
  const sys = { ...system(), self: () => ({ ...system().self(), command }) };
  const holder = recordIn((leave(path("long"), ownRecord({ command })), path("long")));
  assertEquals(isOfThisCommand(sys, holder), true);
  assertEquals(isOfThisCommand(sys, { ...holder, command: "deno run watched.ts" }), false);
  const unknown = { ...system(), self: () => ({ ...system().self(), command: undefined }) };
  assertEquals(isOfThisCommand(unknown, { ...holder, command: undefined }), false);
});

test("tryAcquire() is refused by a PID file that another copy of this library holds in this thread, until that releases it", async ({ path }) => {
  const ours: typeof import("../src/backend/ours.ts") = await import(`../src/backend/ours.ts?${"another realm"}`);
  const mine = watched(path(), "pidfile");
  const held = ownRecord();
  leave(path("a.lock.pid"), held);
  ours.hold(held.nonce!); // `!`: ownerOf makes one
  assertEquals(mine.lock.tryAcquire(), false);
  const late = await failure(mine.lock.acquire({ timeout: 0 }));
  assertStringIncludes(late.message, "which is this very process, by other code in it: an earlier load of the program");
  ours.drop(held.nonce!); // `!` as above
  assertEquals(mine.lock.tryAcquire(), true);
  assertEquals(mine.stale, []);
  mine.lock.release();
});

test("tryAcquire() by flock calls the record of an earlier load in this thread no death, and any other one", ({ path }) => {
  const cases: [HolderFields, number][] = [
    [ownRecord(), 0],
    [ownRecord({ startTime: "1" }), 1],
    [ownRecord({ bootId: "another" }), 1],
  ];
  for (const [record, told] of cases) {
    leave(path(), record);
    const { lock, stale } = watched(path(), "flock");
    assertEquals(lock.tryAcquire(), true);
    assertEquals(stale.length, told, JSON.stringify(record));
    lock.release();
  }
});

/** What becomes of the lock file, and of descriptors: refused tries, records, users' data, times. CASES row 40. */
import { execFileSync } from "node:child_process";
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { Lock, LockTimeoutError } from "../mod.ts";
import { mustBlock, ownKind, test } from "./support/harness.ts";
import { command } from "./support/needs.ts";
import { failure, kernelHolders, openDescriptors, openIn, parties, partyOf, snapshot } from "./support/lockers.ts";
import { until } from "./support/pid_files.ts";

/** flock(1) is a process a try: fewer tell as much. */
const often = (kind: string, times: number) => kind === "node20" ? times / 50 : times;

test("tryAcquire() leaves as many descriptors open as before, after 1,000 refused tries", async (place) => {
  const { dir, path, agent } = place;
  const holder = await agent();
  await holder.lock(path());
  assertEquals(await holder.tryAcquire(), true);
  for (const party of await parties(place)) {
    const lock = await party.lockAt(path());
    assertEquals(await lock.tries(10), 0); // loads what is loaded at the first use
    const before = openDescriptors(lock.pid).length;
    assertEquals(await lock.tries(often(party.kind, 1000)), 0);
    // The last one keeps its file for the next, for a second.
    assert(openIn(dir, lock.pid) <= 1, party.kind);
    await until("it is closed", () => openIn(dir, lock.pid) === 0);
    // The runtime may have started a thread or two with a descriptor of its own.
    const more = openDescriptors(lock.pid).length - before;
    assert(more < 5, `${party.kind} has ${more} more`); // fewer, where what another test's refusals kept is closed by now
  }
});

test("tryAcquire() leaves no descriptor open after 300 tries that failed with an error", async (place) => {
  const { dir, path } = place;
  execFileSync("mkfifo", [path("fifo")]);
  mkdirSync(path("directory"));
  mkdirSync(path("behind"));
  writeFileSync(path("behind/a.lock"), "");
  mkdirSync(path("behind/a.lock.pid")); // a fault that shows only after the lock is taken
  for (const party of await parties(place)) {
    for (const name of ["fifo", "directory", "behind/a.lock"]) {
      const lock = await party.lockAt(path(name));
      for (let i = 0; i < often(party.kind, 300); i++) {
        assertEquals((await failure(lock.tryAcquire())).name, "LockError");
      }
      assertEquals(openIn(dir, lock.pid), 0, `${party.kind}: ${name}`);
    }
    assertEquals(kernelHolders(path("behind/a.lock")), [], "the lock that could not be used is given back");
    assertEquals(readFileSync(path("behind/a.lock"), "utf8"), "");
  }
});

test("tryAcquire() leaves bytes, mode and all times as they are, after 200 refused tries", async (place) => {
  const { dir, path, agent } = place;
  const holder = await agent();
  await holder.lock(path());
  assertEquals(await holder.tryAcquire(), true);
  const bytes = readFileSync(path());
  const before = snapshot(path());
  const folder = snapshot(dir);
  for (const party of await parties(place)) {
    assertEquals(await (await party.lockAt(path())).tries(often(party.kind, 200)), 0);
    assertEquals(snapshot(path()), before, party.kind);
  }
  assertEquals(readFileSync(path()), bytes);
  const { modified, changed } = snapshot(dir); // nothing was made beside it, not even for an instant
  assertEquals([modified, changed], [folder.modified, folder.changed]);
  assertEquals(readdirSync(dir), ["a.lock"]);
});

test("tryAcquire() shows in lslocks and in the file's first line, and release() leaves an empty file", async (place) => {
  const { path, agent } = place;
  const everyone = [...await parties(place), partyOf(await agent(ownKind))];
  for (const party of everyone) {
    const lock = await party.lockAt(path());
    assertEquals(await lock.tryAcquire(), true);
    const { inode } = snapshot(path());
    // In tries, because what it is made from is no snapshot: a line can be doubled or missing.
    let listed: string[][] = [];
    for (let i = 0; i < 3 && listed.length === 0; i++) {
      listed = execFileSync(command("lslocks"), ["-o", "PID,TYPE,INODE", "--noheadings"], { encoding: "utf8" })
        .split("\n").map((line) => line.trim().split(/\s+/)).filter((columns) => columns[2] === inode);
    }
    assert(listed.length > 0, party.kind);
    for (const [pid, type] of listed) {
      assertEquals(type, "FLOCK", party.kind);
      // The kernel names who called flock(2): there it was the flock(1) command, which has ended.
      if (party.kind !== "node20") assertEquals(pid, String(lock.pid), party.kind);
    }
    assertEquals(kernelHolders(path()).length, 1, party.kind);
    const first = execFileSync("head", ["-n", "1", path()], { encoding: "utf8" });
    assertEquals(first, `${lock.pid}\n`, party.kind);
    await lock.release();
    assert(existsSync(path()));
    assertEquals(readFileSync(path(), "utf8"), "");
    assertEquals(kernelHolders(path()), []);
  }
});

test("release() leaves what the user wrote over the record while the lock was held", async (place) => {
  const { path } = place;
  for (const party of await parties(place)) {
    for (const data of ["the user's\n", "4711\n", "4711\nand more\n", `${"x".repeat(5000)}\n`]) {
      const lock = await party.lockAt(path());
      assertEquals(await lock.tryAcquire(), true);
      writeFileSync(path(), data);
      await lock.release();
      assertEquals(readFileSync(path(), "utf8"), data, party.kind);
    }
    writeFileSync(path(), "");
  }
});

test("tryAcquire() leaves what a user appended to an earlier record", async (place) => {
  const { path } = place;
  for (const party of await parties(place)) {
    const lock = await party.lockAt(path());
    assertEquals(await lock.tryAcquire(), true);
    appendFileSync(path(), "a line of the user's log\n");
    await lock.release();
    const left = readFileSync(path(), "utf8");
    assert(left.endsWith("a line of the user's log\n"), `${party.kind} has released: ${left}`);
    assertEquals(await lock.tryAcquire(), true);
    const then = readFileSync(path(), "utf8");
    assert(then.endsWith("a line of the user's log\n"), `${party.kind} holds again: ${then}`);
    await lock.release();
    writeFileSync(path(), "");
  }
});

for (const year of [2000, 2100]) {
  test(`tryAcquire() decides the same with the file's times set to ${year}`, async (place) => {
    const { path, agent } = place;
    const touch = () => utimesSync(path(), new Date(Date.UTC(year, 0)), new Date(Date.UTC(year, 0)));
    const all = await parties(place);
    for (const holder of all) {
      const lock = await holder.lockAt(path());
      assertEquals(await lock.tryAcquire(), true);
      touch();
      for (const other of all) assertEquals(await (await other.lockAt(path())).tryAcquire(), false, other.kind);
      await lock.release();
      touch();
      assertEquals(await lock.tryAcquire(), true);
      await lock.release();
    }
    // A dead holder is as dead, however old or new its record looks.
    const dead = await agent();
    await dead.lock(path());
    assertEquals(await dead.tryAcquire(), true);
    await dead.kill();
    touch();
    const stale: number[] = [];
    const lock = new Lock(path(), { onStale: ({ pid }) => stale.push(pid) });
    assertEquals(lock.tryAcquire(), true);
    lock.release();
    assertEquals(stale, [dead.pid]);
  });
}

for (const [direction, jump] of [["forwards", 1e12], ["backwards", -1e12]] as const) {
  test(`acquire() waits as long as it was told while the wall clock jumps ${direction}`, async ({ path, agent }) => {
    const holder = await agent();
    await holder.lock(path());
    assertEquals(await holder.tryAcquire(), true);
    const TrueDate = globalThis.Date;
    const start = performance.now();
    const limited = assertRejects(() => new Lock(path()).acquire({ timeout: 300 }), LockTimeoutError);
    const endless = await mustBlock(new Lock(path()).acquire({ timeout: 60_000 }).then((lock) => lock.release()));
    globalThis.Date = class extends TrueDate {
      constructor(...values: [] | [number]) {
        super(...(values.length ? values : [TrueDate.now() + jump]) as [number]); // a copy of what Date takes
      }
      static override now = () => TrueDate.now() + jump;
    } as DateConstructor; // called without `new` by nobody here
    try {
      await limited;
      const waited = performance.now() - start;
      assert(waited >= 299 && waited < 10_000, `it waited ${waited} ms`);
      await holder.release();
      await endless.done();
    } finally {
      globalThis.Date = TrueDate;
    }
  });
}

test("acquire() on a program opens it to read only, so that it can be started, and leaves no record in it", async (place) => {
  const { path } = place;
  const script = "#!/bin/sh\necho it runs\n";
  for (const party of await parties(place)) {
    const program = path(`${party.kind}.sh`);
    writeFileSync(program, script, { mode: 0o755 });
    const lock = await party.lockAt(program);
    assertEquals(await lock.tryAcquire(), true);
    assertEquals(execFileSync(program, { encoding: "utf8" }), "it runs\n", party.kind); // else ETXTBSY
    assertEquals(kernelHolders(program).length, 1, party.kind);
    await lock.release();
    assertEquals(readFileSync(program, "utf8"), script);

    writeFileSync(path(`${party.kind}.empty`), "", { mode: 0o755 });
    const empty = await party.lockAt(path(`${party.kind}.empty`));
    assertEquals(await empty.tryAcquire(), true);
    assert(
      readFileSync(path(`${party.kind}.empty`), "utf8").includes('"holdfast":1'),
      "what holds nothing is a lock file",
    );
    await empty.release();
  }
});

/** The lock file is deleted or replaced while it is held or waited for: CASES rows 6 and 8. */
import { readFileSync, renameSync, unlinkSync, writeFileSync } from "node:fs";
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import process from "node:process";
import { toFileUrl } from "@std/path";
import { Lock, LockLostError, LockTimeoutError } from "../mod.ts";
import * as flockModule from "../src/backend/flock.ts";
import * as systemModule from "../src/sys/mod.ts";
import { copySource } from "./support/edits.ts";
import { type Child, KINDS, mustBlock, type Place, test, within } from "./support/harness.ts";
import { kernelHolders, snapshot } from "./support/lockers.ts";
import { needs } from "./support/needs.ts";
import { leave, ownerOf } from "./support/pid_files.ts";

/** What becomes of the file, and whether its holder loses the lock by that. */
const WAYS_TO_GO = [
  ["deleted", (file: string) => unlinkSync(file), false],
  ["replaced by another file", (file: string) => {
    writeFileSync(`${file}.new`, "");
    renameSync(`${file}.new`, file);
  }, true],
] as const;

for (const [how, go, loses] of WAYS_TO_GO) {
  test(`acquire() lets one waiter at a time in when the file is ${how}`, async ({ path, agent }) => {
    const holder = new Lock(path());
    assertEquals(holder.tryAcquire(), true);
    const agents = await Promise.all(KINDS.map((kind) => agent(kind)));
    for (const each of agents) {
      await each.lock(path());
      await each.call("begin", { name: "lock" }); // or, a newcomer after the deletion, it may be faster than the holder
    }
    const waiting = new Map(agents.map((each, i) => [i, each.call("granted", { name: "lock" }).then(() => i)]));
    const anyone = () => Promise.race(waiting.values());
    await mustBlock(anyone());
    go(path());
    if (!loses) {
      // Whoever waits has the file open, and finds it locked: it is held as before, and made again.
      assertEquals(holder.verify(), true);
      await mustBlock(anyone());
      assertEquals(readFileSync(path(), "utf8").split("\n")[0], String(process.pid));
      holder.release();
    }
    for (let served = 0; waiting.size > 0; served++) {
      const inside = await within(60_000, anyone());
      waiting.delete(inside);
      if (served === 0 && loses) {
        // The one who lost it is told so, and leaves the new holder's file alone.
        assertThrows(() => holder.release(), LockLostError, "deleted or replaced");
      }
      assertEquals(holder.held, false);
      // Not on the dead inode, which is free by now: what is locked is what stands at the path.
      assertEquals(kernelHolders(path()).length, 1, agents[inside].kind);
      assertEquals(readFileSync(path(), "utf8").split("\n")[0], String(agents[inside].pid));
      if (waiting.size > 0) await mustBlock(anyone());
      await agents[inside].release();
    }
    assertEquals(readFileSync(path(), "utf8"), "");
  });
}

/** A flock(1), which notices nothing of what becomes of its file. */
async function holdByFlock({ child, path }: Place): Promise<Child> {
  needs("flock");
  const holder = child("flock", ["-F", path(), "sh", "-c", "echo granted; exec cat"]);
  assertEquals(await holder.line(), "granted", holder.errors);
  return holder;
}

test("acquire() goes from the file that it waits for to another one that stands at the path by now, and is free", async (place) => {
  const { path } = place;
  const holder = await holdByFlock(place);
  const lock = new Lock(path());
  const waiting = await mustBlock(lock.acquire()); // it keeps the file open
  unlinkSync(path());
  writeFileSync(path(), "");
  (await waiting.done()).release();
  holder.close();
});

test("acquire() that waits leaves the file as it is when the lock goes to a holder by PID file", async (place) => {
  const { path } = place;
  const holder = await holdByFlock(place);
  const before = snapshot(path());
  const waiting = new Lock(path()).acquire({ timeout: 1_000 });
  const late = await mustBlock(assertRejects(() => waiting, LockTimeoutError, `held by pid ${process.ppid}`)); // it keeps the file open
  leave(path("a.lock.pid"), ownerOf(process.ppid));
  holder.close();
  await within(10_000, late.done());
  assertEquals(snapshot(path()), before);
});

test("acquire() never enters on a file that its holder deleted, 10 times over", async ({ path, agent }) => {
  writeFileSync(path("count"), "0");
  const agents = await Promise.all(KINDS.map((kind) => agent(kind)));
  for (const each of agents) await each.lock(path());
  const holder = new Lock(path(), { onStale: () => {} });
  for (let round = 1; round <= 10; round++) {
    assertEquals(holder.tryAcquire(), true);
    // Whoever enters on the dead file finds it lost at its release, which rejects here; or spoils the count.
    const counts = agents.map((each) => each.call("count", { name: "lock", file: path("count"), times: 1 }));
    const all = await mustBlock(Promise.all(counts));
    unlinkSync(path()); // nobody is inside; some have it open, between open(2) and flock(2)
    try {
      holder.release(); // made again before that: those who have the deleted one move to it by themselves
    } catch (error) {
      assert(error instanceof LockLostError, String(error)); // one of them came between, from its first try
    }
    await all.done();
    assertEquals(readFileSync(path("count"), "utf8"), String(round * agents.length));
  }
});

/** A try under whose hands the file is replaced between open(2) and flock(2); then another process' try. */
function replacedMeanwhile(flock: typeof flockModule, sys: typeof systemModule, path: string) {
  const system = sys.system();
  writeFileSync(path, "");
  let opened = 0;
  const openLock: typeof system.openLock = (...request) => {
    const file = system.openLock(...request);
    if (opened++ === 0) {
      unlinkSync(path);
      writeFileSync(path, "");
    }
    return file;
  };
  const attempt = flock.tryFlock({ ...system, openLock }, {
    path,
    mode: "exclusive",
    fileMode: 0o644,
    label: undefined,
  });
  assert("hold" in attempt);
  const other = new Lock(path, { onStale: () => {} });
  const both = other.tryAcquire();
  if (both) other.release();
  return { both, ended: attempt.hold.release(), opened };
}

test("tryFlock() opens anew when the file was replaced between its open and its lock", ({ path }) => {
  assertEquals(replacedMeanwhile(flockModule, systemModule, path()), { both: false, ended: undefined, opened: 2 });
});

test("tryFlock() without its inode check holds a deleted file while another process holds the new one", async ({ path }) => {
  const check = "(filelock#574).\n    if (sys.stat(path)?.identity !== token) return undefined;";
  copySource(path("mutant"), [["backend/flock.ts", check, "\n"]]);
  writeFileSync(path("mutant/package.json"), '{"type":"module"}'); // or Node warns
  const load = (source: string) => import(toFileUrl(path(`mutant/src/${source}`)).href);
  const outcome = replacedMeanwhile(await load("backend/flock.ts"), await load("sys/mod.ts"), path());
  assertEquals({ ...outcome, ended: outcome.ended !== undefined }, { both: true, ended: true, opened: 1 });
});

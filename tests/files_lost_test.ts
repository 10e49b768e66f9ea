/** The lock file is deleted or replaced while it is held or waited for: CASES rows 6 and 8. */
import { cpSync, mkdirSync, readFileSync, renameSync, unlinkSync, writeFileSync } from "node:fs";
import { assert, assertEquals, assertThrows } from "@std/assert";
import { fromFileUrl, join, toFileUrl } from "@std/path";
import { Lock, LockLostError } from "../mod.ts";
import * as flockModule from "../src/backend/flock.ts";
import * as systemModule from "../src/sys/mod.ts";
import { KINDS, mustBlock, test, within } from "./harness.ts";
import { kernelHolders } from "./lockers.ts";

const WAYS_TO_GO = [
  ["deleted, and made again by who waits", (file: string) => unlinkSync(file)],
  ["replaced by another file", (file: string) => {
    writeFileSync(`${file}.new`, "");
    renameSync(`${file}.new`, file);
  }],
] as const;

for (const [how, go] of WAYS_TO_GO) {
  test(`acquire() lets one waiter at a time in when the file is ${how}`, async ({ path, agent }) => {
    const holder = new Lock(path());
    assertEquals(holder.tryAcquire(), true);
    const agents = await Promise.all(KINDS.map((kind) => agent(kind)));
    for (const each of agents) await each.lock(path());
    const waiting = new Map(agents.map((each, i) => [i, each.call("acquire", { name: "lock" }).then(() => i)]));
    const anyone = () => Promise.race(waiting.values());
    await mustBlock(anyone());
    go(path());
    for (let served = 0; waiting.size > 0; served++) {
      const inside = await within(10_000, anyone());
      waiting.delete(inside);
      if (served === 0) {
        // The one who lost it is told so, and leaves the new holder's file alone.
        assertThrows(() => holder.release(), LockLostError, "deleted or replaced");
        assertEquals(holder.held, false);
      }
      // Not on the dead inode, which is free by now: what is locked is what stands at the path.
      assertEquals(kernelHolders(path()).length, 1, agents[inside].kind);
      assertEquals(readFileSync(path(), "utf8").split("\n")[0], String(agents[inside].pid));
      if (waiting.size > 0) await mustBlock(anyone());
      await agents[inside].release();
    }
    assertEquals(readFileSync(path(), "utf8"), "");
  });
}

test("acquire() never enters on a file that its holder deleted, 30 times over", async ({ path, agent }) => {
  writeFileSync(path("count"), "0");
  const agents = await Promise.all(KINDS.map((kind) => agent(kind)));
  for (const each of agents) await each.lock(path());
  const holder = new Lock(path(), { onStale: () => {} });
  for (let round = 1; round <= 30; round++) {
    assertEquals(holder.tryAcquire(), true);
    // Whoever enters on the dead file finds it lost at its release, which rejects here; or spoils the count.
    const counts = agents.map((each) => each.call("count", { name: "lock", file: path("count"), times: 1 }));
    const all = await mustBlock(Promise.all(counts));
    unlinkSync(path()); // nobody is inside; some have it open, between open(2) and flock(2)
    assertThrows(() => holder.release(), LockLostError);
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
  assertEquals(replacedMeanwhile(flockModule, systemModule, path()), { both: false, ended: "released", opened: 2 });
});

test("tryFlock() without its inode check holds a deleted file while another process holds the new one", async ({ path }) => {
  const check = "(filelock#574).\n    if (sys.stat(path)?.identity !== token) return undefined;";
  const repository = fromFileUrl(new URL("../", import.meta.url));
  mkdirSync(path("mutant"));
  for (const part of ["mod.ts", "src"]) cpSync(join(repository, part), path(`mutant/${part}`), { recursive: true });
  writeFileSync(path("mutant/package.json"), '{"type":"module"}'); // or Node warns
  const file = path("mutant/src/backend/flock.ts");
  const parts = readFileSync(file, "utf8").split(check);
  assertEquals(parts.length, 2, "the check stands in the source exactly once");
  writeFileSync(file, parts.join("\n"));
  const load = (source: string) => import(toFileUrl(path(`mutant/src/${source}`)).href);
  const outcome = replacedMeanwhile(await load("backend/flock.ts"), await load("sys/mod.ts"), path());
  assertEquals(outcome, { both: true, ended: "lost", opened: 1 });
});

/** The PID-file back end as a user sees it; CASES rows 3, 4, 21 and 45. */
import { existsSync, readFileSync, renameSync, unlinkSync, writeFileSync } from "node:fs";
import process from "node:process";
import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { Lock, LockDeadlockError, LockLostError, LockNotHeldError, LockTimeoutError } from "../mod.ts";
import { breakPidFile } from "../src/backend/break.ts";
import { mustBlock, type Place, test, within } from "./support/harness.ts";
import { failure, here, type Party, partyOf, snapshot } from "./support/lockers.ts";
import { deadOwner, ELSEWHERE, kinds, leave, names, ownerOf, recordIn, sleeper } from "./support/pid_files.ts";

const PIDFILE = { backend: "pidfile" } as const;

/** This process, and an agent of each kind that this runtime's run of the suite stands for. */
async function parties({ agent }: Place): Promise<Party[]> {
  return [here, ...(await Promise.all(kinds.map((kind) => agent(kind)))).map(partyOf)];
}

test("tryAcquire() by PID file is granted to one at a time, and leaves nothing behind", async (place) => {
  const { dir, path } = place;
  const all = await parties(place);
  for (const holder of all) {
    const lock = await holder.lockAt(path(), PIDFILE);
    assertEquals(await lock.tryAcquire(), true, holder.kind);
    assertEquals(await lock.tryAcquire(), false, `${holder.kind} again`);
    for (const other of all) {
      const refused = await other.lockAt(path(), PIDFILE);
      assertEquals(await refused.tryAcquire(), false, `${other.kind} while ${holder.kind} holds`);
      assertEquals((await failure(refused.release())).name, "LockNotHeldError");
    }
    assertEquals(names(dir), ["a.lock.pid"]); // the lock file itself is the kernel's
    assertEquals(recordIn(path("a.lock.pid")).pid, lock.pid);
    await lock.release();
    assertEquals(names(dir), []);
  }
});

test("tryAcquire() by PID file writes exactly one record, whatever longer one stood there", async (place) => {
  const { path } = place;
  for (const party of (await parties(place)).filter(({ kind }) => kind !== "deno-no-ffi")) {
    const old = leave(path("a.lock.pid"), deadOwner({ command: "x".repeat(950), label: "y".repeat(200) }));
    const lock = await party.lockAt(path(), { ...PIDFILE, label: "nightly", fileMode: 0o600 });
    assertEquals(await lock.tryAcquire(), true);
    const { label, pid, mode } = recordIn(path("a.lock.pid")); // which checks that nothing follows it
    assertEquals([label, pid, mode], ["nightly", lock.pid, "exclusive"]);
    assert(readFileSync(path("a.lock.pid")).length < old.length);
    assertEquals(snapshot(path("a.lock.pid")).mode, "600", party.kind);
    await lock.release();
  }
});

test("tryAcquire() by PID file makes no shared lock", async (place) => {
  const { dir, path } = place;
  for (const party of await parties(place)) {
    const error = await failure((await party.lockAt(path(), { ...PIDFILE, mode: "shared" })).tryAcquire());
    assertEquals([error.name, error.code, error.path], ["LockUnsupportedError", "ENOTSUP", path()]);
    assertStringIncludes(error.message, "a PID file cannot be held shared");
    assertEquals(names(dir), []);
  }
});

test('backend is "pidfile" from the first try on, and backendReason says that it was wished for', ({ path }) => {
  const lock = new Lock(path(), PIDFILE);
  assertEquals([lock.backend, lock.backendReason], [undefined, "nothing was tried yet"]);
  lock.acquireSync();
  assertEquals(lock.backend, "pidfile");
  assertMatch(lock.backendReason, /the option backend: "pidfile"/);
  const refused = new Lock(path(), PIDFILE);
  assertEquals([refused.tryAcquire(), refused.backend], [false, "pidfile"]);
  lock.release();
});

test("inspect() names the holder by PID file, and says when it died", async ({ path, agent }) => {
  const holder = await agent();
  await holder.lock(path(), { ...PIDFILE, label: "nightly" });
  assertEquals(await holder.tryAcquire(), true);
  const { state, backend, mode, holder: seen } = Lock.inspect(path());
  assertEquals([state, backend, mode, seen?.pid, seen?.label], ["held", "pidfile", "exclusive", holder.pid, "nightly"]);
  await holder.kill();
  assertEquals(Lock.inspect(path()).state, "stale");
  assertEquals(Lock.inspect(path()).holder?.pid, holder.pid);
});

test("release() by PID file is LockLostError when another's stands there, which stays", async (place) => {
  const { dir, path } = place;
  for (const party of await parties(place)) {
    for (const other of [ownerOf(sleeper(place)), { pid: sleeper(place) }, ownerOf(process.pid), deadOwner()]) {
      const lock = await party.lockAt(path(), PIDFILE);
      assertEquals(await lock.tryAcquire(), true);
      const bytes = leave(path("other"), other);
      renameSync(path("other"), path("a.lock.pid"));
      const error = await failure(lock.release());
      assertEquals([error.name, error.code, error.path], ["LockLostError", "ELOST", path()], party.kind);
      assertStringIncludes(error.message, "deleted or replaced");
      assertEquals(new Uint8Array(readFileSync(path("a.lock.pid"))), bytes);
      assertEquals((await failure(lock.release())).name, "LockNotHeldError");
      assertEquals(names(dir), ["a.lock.pid"]);
      unlinkSync(path("a.lock.pid"));
    }
  }
});

test("release() by PID file is LockLostError when the file is gone, or is no record any more", async (place) => {
  const { dir, path } = place;
  for (const party of await parties(place)) {
    for (
      const [go, left] of [[unlinkSync, []], [(file: string) => writeFileSync(file, "mine"), ["a.lock.pid"]]] as const
    ) {
      const lock = await party.lockAt(path(), PIDFILE);
      assertEquals(await lock.tryAcquire(), true);
      go(path("a.lock.pid"));
      assertEquals((await failure(lock.release())).name, "LockLostError", party.kind);
      assertEquals(names(dir), [...left]);
      if (left.length > 0) unlinkSync(path("a.lock.pid"));
      assertEquals(await lock.tryAcquire(), true);
      await lock.release();
    }
  }
});

test("dispose by PID file tells of a lost lock too, and of nothing else", ({ dir, path }) => {
  const lock = new Lock(path(), PIDFILE);
  lock[Symbol.dispose]();
  lock.acquireSync()[Symbol.dispose]();
  assertEquals([lock.held, names(dir).length], [false, 0]);
  lock.acquireSync();
  unlinkSync(path("a.lock.pid"));
  assertThrows(() => lock[Symbol.dispose](), LockLostError);
  assertThrows(() => lock.release(), LockNotHeldError);
});

test("new Lock() twice in one process is two strangers by PID file too", async ({ path }) => {
  const [one, two] = [new Lock(path(), PIDFILE), new Lock(path(), PIDFILE)];
  one.acquireSync();
  assertEquals(two.tryAcquire(), false);
  assertThrows(() => two.acquireSync(), LockDeadlockError);
  assertThrows(() => two.release(), LockNotHeldError);
  const waiting = await mustBlock(two.acquire());
  one.release();
  await waiting.done();
  assertEquals([one.held, two.held], [false, true]);
  assertEquals(one.tryAcquire(), false);
  two.release();
});

test("acquire() by PID file names its holder when the time is up, and the holder's end frees it", async ({ path, agent }) => {
  const holder = await agent();
  await holder.lock(path(), PIDFILE);
  assertEquals(await holder.tryAcquire(), true);
  const stale: number[] = [];
  const lock = new Lock(path(), { ...PIDFILE, onStale: ({ pid }) => stale.push(pid) });
  const error = await assertRejects(() => lock.acquire({ timeout: 30 }), LockTimeoutError);
  assertStringIncludes(error.message, `held by pid ${holder.pid} (`);
  const waiting = await mustBlock(lock.acquire());
  await holder.kill();
  await waiting.done();
  assertEquals(stale, [holder.pid]);
  lock.release();
});

test("tryAcquire() by PID file that is refused changes nothing on disk", async (place) => {
  const { dir, path } = place;
  const holder = new Lock(path(), PIDFILE).acquireSync();
  for (const owner of ["a holder", "a record of another host", "a takeover that is under way"]) {
    if (owner === "a record of another host") leave(path("a.lock.pid"), deadOwner(ELSEWHERE));
    if (owner === "a takeover that is under way") {
      const dead = deadOwner();
      leave(path("a.lock.pid"), dead);
      leave(path(`a.lock.pid.${dead.nonce}`), ownerOf(sleeper(place)));
    }
    const before = names(dir).map((name) => snapshot(path(name)));
    const folder = snapshot(dir);
    for (const party of await parties(place)) {
      // What a takeover in the making costs is a file that is made and removed.
      const lock = await party.lockAt(path(), PIDFILE);
      assertEquals(await lock.tries(20), 0, `${party.kind}, ${owner}`);
      for (const [i, name] of names(dir).entries()) {
        const { accessed: _, ...now } = snapshot(path(name));
        assertEquals({ ...now, accessed: before[i].accessed }, before[i], `${party.kind}, ${owner}, ${name}`);
      }
      assertEquals(names(dir).length, before.length);
      if (owner === "a takeover that is under way") continue;
      assertEquals(snapshot(dir).changed, folder.changed, `${party.kind}, ${owner}: something was made`);
    }
  }
  assertThrows(() => holder.release(), LockLostError);
});

for (const kind of kinds) {
  const orderly = ["return", "process.exit", ...(kind.startsWith("deno") ? ["Deno.exit"] : [])];
  for (const how of orderly) {
    test(`tryAcquire() by PID file is true at once after a holder in ${kind} ended by ${how}, and its file is gone`, async ({ dir, path, agent }) => {
      const holder = await agent(kind);
      await holder.lock(path(), PIDFILE);
      assertEquals(await holder.tryAcquire(), true);
      assert(existsSync(path("a.lock.pid")));
      if (how === "return") holder.close();
      assertEquals((await within(60_000, how === "return" ? holder.ended : holder.die(how))).code, 0, holder.errors);
      assertEquals(names(dir), []);
    });
  }

  for (const how of ["throw", "rejection", "SIGKILL", "SIGTERM"]) {
    // Deno without FFI does not say in its record where it ran: a person settles that.
    const settles = kind === "deno-no-ffi";
    const does = settles ? "is refused, until it is broken, by the PID file of" : "takes over from";
    test(`tryAcquire() by PID file ${does} a holder in ${kind} that ended by ${how}, and onStale is told`, async ({ dir, path, agent }) => {
      const holder = await agent(kind);
      await holder.lock(path(), PIDFILE);
      assertEquals(await holder.tryAcquire(), true);
      const stale: (string | undefined)[] = [];
      const lock = new Lock(path(), { ...PIDFILE, onStale: ({ nonce }) => stale.push(nonce) });
      assertEquals(lock.tryAcquire(), false);
      const before = recordIn(path("a.lock.pid"));
      if (how.startsWith("SIG")) process.kill(holder.pid, how);
      else await holder.die(how);
      await within(60_000, holder.ended);
      assertEquals(names(dir), ["a.lock.pid"]);
      if (settles) {
        assertEquals([lock.tryAcquire(), lock.inspect().state], [false, "unknown"]);
        assertMatch(lock.inspect().reason, /its record has no pidNamespace/);
        assertEquals(breakPidFile(path(), new Set([`${before.nonce}`])), "removed");
      }
      assertEquals(lock.tryAcquire(), true);
      assertEquals(stale, settles ? [] : [before.nonce]);
      assertEquals(names(dir), ["a.lock.pid"]);
      lock.release();
      assertEquals(names(dir), []);
    });
  }
}

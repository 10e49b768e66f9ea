/** The PID file and the kernel's lock exclude each other: each announces itself, and then looks. */
import { readFileSync, writeFileSync } from "node:fs";
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { Lock, LockTimeoutError } from "../mod.ts";
import { type Child, mustBlock, type Place, test } from "./support/harness.ts";
import { failure, here, type Party, partyOf, snapshot } from "./support/lockers.ts";
import { kinds, leave, names, ownerOf, sleeper } from "./support/pid_files.ts";
import { PYTHON } from "./support/needs.ts";

const PIDFILE = { backend: "pidfile" } as const;
const FLOCK = { backend: "flock" } as const;

async function parties({ agent }: Place): Promise<Party[]> {
  return [here, ...(await Promise.all(kinds.map((kind) => agent(kind)))).map(partyOf)];
}

for (const [mine, theirs] of [[FLOCK, PIDFILE], [PIDFILE, FLOCK]] as const) {
  test(`tryAcquire() by ${theirs.backend} is false while another holds it by ${mine.backend}`, async (place) => {
    const { dir, path } = place;
    const all = await parties(place);
    for (const holder of all) {
      for (const other of all) {
        const who = `${other.kind} while ${holder.kind} holds`;
        const held = await holder.lockAt(path(), mine);
        assertEquals(await held.tryAcquire(), true);
        const refused = await other.lockAt(path(), theirs);
        assertEquals(await refused.tries(3), 0, who);
        const left = mine === FLOCK ? ["a.lock"] : ["a.lock.pid"];
        assertEquals(names(dir).filter((name) => name !== "a.lock"), left.filter((name) => name !== "a.lock"), who);
        await held.release();
        assertEquals(await refused.tryAcquire(), true, `after ${holder.kind}, ${other.kind}`);
        assertEquals(await held.tryAcquire(), false);
        await refused.release();
        assertEquals(readFileSync(path(), "utf8"), "");
        assertEquals(names(dir), ["a.lock"]);
      }
    }
  });

  test(`acquire() by ${theirs.backend} waits for a holder by ${mine.backend}, in this process and in others`, async (place) => {
    for (const party of await parties(place)) {
      const held = await party.lockAt(place.path(), mine);
      assertEquals(await held.tryAcquire(), true);
      const lock = new Lock(place.path(), theirs);
      const error = await assertRejects(() => lock.acquire({ timeout: 0 }), LockTimeoutError);
      assertStringIncludes(error.message, `held by pid ${held.pid}`);
      const waiting = await mustBlock(lock.acquire());
      await held.release();
      await waiting.done();
      lock.release();
    }
  });

  test(`tryAcquire() by ${theirs.backend} that is refused because of ${mine.backend} changes nothing on disk`, async (place) => {
    const { dir, path } = place;
    writeFileSync(path(), ""); // which the kernel's lock may make, and which then stays
    const held = new Lock(path(), mine).acquireSync();
    const look = () => names(dir).map((name) => ({ ...snapshot(path(name)), name, accessed: "" }));
    const before = look();
    let folder = snapshot(dir).changed;
    for (const party of await parties(place)) {
      assertEquals(await (await party.lockAt(path(), theirs)).tries(5), 0);
      assertEquals(look(), before, party.kind);
      // Where /proc/locks cannot be read, P.pid has to be made before the kernel may be asked.
      if (party.kind === "deno-no-ffi" && theirs.backend === "pidfile") folder = snapshot(dir).changed;
      assertEquals(snapshot(dir).changed, folder, `${party.kind} made something, if only for a moment`);
    }
    held.release();
  });
}

/** Holds P by the kernel and without a record. */
const STRANGERS: Record<string, (place: Place) => Promise<Child>> = {
  "flock(1)": async ({ child, path }) => {
    const holder = child("flock", ["-F", "-n", "-x", path(), "sh", "-c", "echo granted; exec cat"]);
    assertEquals(await holder.line(), "granted");
    return holder;
  },
  "flock(1), shared": async ({ child, path }) => {
    const holder = child("flock", ["-F", "-n", "-s", path(), "sh", "-c", "echo granted; exec cat"]);
    assertEquals(await holder.line(), "granted");
    return holder;
  },
  Python: async ({ child, path }) => {
    const script = fromFileUrl(new URL("./fixtures/contender.py", import.meta.url));
    const holder = child(PYTHON, [script, path()]);
    holder.write("exclusive\n");
    assertEquals(await holder.line(), "granted");
    return holder;
  },
};

for (const [name, hold] of Object.entries(STRANGERS)) {
  test(`tryAcquire() by PID file is false while ${name} holds the lock file without a record`, async (place) => {
    const { dir, path } = place;
    const stranger = await hold(place);
    for (const party of await parties(place)) {
      assertEquals(await (await party.lockAt(path(), PIDFILE)).tries(3), 0, party.kind);
      assertEquals(names(dir), ["a.lock"]);
    }
    const lock = new Lock(path(), PIDFILE);
    const error = await failure(lock.acquire({ timeout: 0 }));
    assertStringIncludes(error.message, `held by pid ${stranger.pid}`);
    const waiting = await mustBlock(lock.acquire());
    stranger.close();
    await waiting.done();
    lock.release();
  });
}

test("flock(1) is not kept out by a PID file, but does not get a holder thrown out either", async (place) => {
  const { path } = place;
  const lock = new Lock(path(), PIDFILE).acquireSync();
  const stranger = await STRANGERS["flock(1)"](place);
  assertEquals(new Lock(path(), PIDFILE).tryAcquire(), false);
  lock.release(); // not lost: what it holds is its own file
  assertEquals(lock.tryAcquire(), false);
  stranger.close();
  await stranger.ended;
  assertEquals(lock.tryAcquire(), true);
  lock.release();
});

test("tryAcquire() by PID file is true over the record of a kernel holder that died, which the next kernel holder reports", async (place) => {
  const { path, agent } = place;
  const dead = await agent();
  await dead.lock(path(), FLOCK);
  assertEquals(await dead.tryAcquire(), true);
  await dead.kill();
  const bytes = readFileSync(path(), "utf8");
  for (const party of await parties(place)) {
    const lock = await party.lockAt(path(), PIDFILE);
    assertEquals(await lock.tryAcquire(), true, party.kind);
    await lock.release();
    assertEquals(readFileSync(path(), "utf8"), bytes);
  }
  const stale: number[] = [];
  const lock = new Lock(path(), { ...FLOCK, onStale: ({ pid }) => stale.push(pid) });
  assertEquals([lock.tryAcquire(), stale], [true, [dead.pid]]);
  lock.release();
});

test("tryAcquire() by PID file leaves the lock file's record of a live process, and asks the kernel whether that holds it", async (place) => {
  const { dir, path } = place;
  const bytes = leave(path(), ownerOf(sleeper(place)));
  for (const party of await parties(place)) {
    const lock = await party.lockAt(path(), PIDFILE);
    assertEquals(await lock.tryAcquire(), true, party.kind);
    await lock.release();
    assertEquals([new Uint8Array(readFileSync(path())), names(dir)] as const, [bytes, ["a.lock"]]);
  }
});

test("tryAcquire() by PID file leaves a user's data in the lock file as it is", async (place) => {
  const { path } = place;
  const data = "the user's\n".repeat(1000);
  writeFileSync(path(), data);
  const before = snapshot(path());
  for (const party of await parties(place)) {
    const lock = await party.lockAt(path(), PIDFILE);
    assertEquals(await lock.tryAcquire(), true);
    await lock.release();
    assertEquals({ ...snapshot(path()), accessed: before.accessed }, before);
  }
  assertEquals(readFileSync(path(), "utf8"), data);
});

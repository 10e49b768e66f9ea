/**
 * What a lock says and does where something else goes on at the same time:
 * dispose while run() waits, a failure on top of another, a record of a dead
 * holder, onStale that releases.
 */
import { unlinkSync, writeFileSync } from "node:fs";
import process from "node:process";
import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { Lock, LockLostError, LockNotHeldError, LockTimeoutError } from "../mod.ts";
import { type Child, type Place, test, within } from "./support/harness.ts";
import { failure, partyOf } from "./support/lockers.ts";
import { timeoutError } from "../src/record/messages.ts";
import { type HolderFields, LockHolder } from "../src/record/record.ts";
import { deadOwner, kinds, leave, names, nonce, ownerOf, sleeper } from "./support/pid_files.ts";
import { PYTHON } from "./support/needs.ts";

const BACKENDS = ["flock", "pidfile"] as const;

/** Holds a file by the kernel and writes no record; it ends when its input does. */
async function stranger({ child }: Place, file: string): Promise<Child> {
  const holder = child("flock", ["-F", "-n", file, "sh", "-c", "echo granted; exec cat"]);
  assertEquals(await holder.line(), "granted");
  return holder;
}

for (const backend of BACKENDS) {
  test(`run() by ${backend} does not call its function after a dispose at once, and rejects with LockNotHeldError`, async ({ path }) => {
    const lock = new Lock(path(), { backend });
    let called = 0;
    const result = lock.run(() => void called++);
    lock[Symbol.dispose]();
    await assertRejects(() => within(60_000, result), LockNotHeldError);
    assertEquals([called, lock.held], [0, false]);
    assertEquals(await lock.run(() => lock.held), true);
  });

  test(`run() by ${backend} does not call its function where another object has got the lock meanwhile`, async ({ path }) => {
    const [lock, other] = [new Lock(path(), { backend }), new Lock(path(), { backend })];
    let called = 0;
    const result = lock.run(() => void called++);
    lock.release();
    assertEquals(other.tryAcquire(), true);
    await assertRejects(() => within(60_000, result), LockNotHeldError);
    assertEquals([called, other.held], [0, true]);
    other.release();
  });

  test(`run() and runSync() by ${backend} keep the function's error as the cause of LockLostError`, async ({ path }) => {
    const lock = new Lock(path(), { backend });
    const own = new Error("the function's own");
    const fail = () => {
      const file = backend === "flock" ? path() : path("a.lock.pid");
      unlinkSync(file);
      if (backend === "flock") writeFileSync(file, ""); // else it is made again, and not lost
      throw own;
    };
    const lost = [
      await assertRejects(() => lock.run(fail), LockLostError),
      await assertRejects(() => lock.run(async () => await Promise.reject(fail())), LockLostError),
      assertThrows(() => lock.runSync(fail), LockLostError),
    ];
    for (const error of lost) assert(error.cause === own, String(error.cause));
    assertEquals(lock.held, false);
  });

  test(`tryAcquire() by ${backend} is false where onStale releases`, ({ path }) => {
    leave(backend === "flock" ? path() : path("a.lock.pid"), deadOwner());
    const stale: number[] = [];
    const lock = new Lock(path(), {
      backend,
      onStale: ({ pid }) => {
        stale.push(pid);
        lock.release();
      },
    });
    assertEquals([lock.tryAcquire(), lock.held, stale.length], [false, false, 1]);
    assertEquals([lock.tryAcquire(), lock.held, stale.length], [true, true, 1]);
    lock.release();
  });

  test(`acquire() by ${backend} that is refused by flock(1) over a dead holder's record names flock(1), and ends nobody`, async (place) => {
    const { path } = place;
    const dead = deadOwner();
    leave(path(), dead);
    const holder = await stranger(place, path());
    for (const kind of kinds.filter((kind) => kind !== "deno-no-ffi")) { // which cannot see who it is
      const user = await place.agent(kind);
      await user.lock(path(), { backend });
      const error = await failure(user.call("acquire", { name: "lock", options: { timeout: 0 } }));
      assertEquals(error.name, "LockTimeoutError", error.message);
      assertStringIncludes(error.message, String(holder.pid), `${kind}: ${error.message}`);
      assert(!error.message.includes(String(dead.pid)), `${kind}: ${error.message}`);
      assert(!/\bkill \d/.test(error.message), `${kind}: ${error.message}`);
    }
  });

  test(`acquire() by ${backend} behind another waiter of its object names the real holder when its time is up`, async ({ path, agent }) => {
    const holder = await partyOf(await agent()).lockAt(path(), { backend });
    assertEquals(await holder.tryAcquire(), true);
    const lock = new Lock(path(), { backend });
    const first = lock.acquire({ timeout: 400 });
    const second = lock.acquire({ timeout: 100 });
    for (const waiting of [second, first]) {
      const error = await assertRejects(() => waiting, LockTimeoutError);
      assertEquals(error.holder?.pid, holder.pid);
      assertStringIncludes(error.message, `held by pid ${holder.pid} (`);
    }
    await holder.release();
  });
}

test("acquire() in no runtime advises to end the process of a dead holder's record where who holds it cannot be seen", async (place) => {
  const { path } = place;
  const dead = deadOwner();
  leave(path(), dead);
  await stranger(place, path());
  for (const kind of kinds) {
    const user = await place.agent(kind);
    for (const backend of BACKENDS) {
      await user.lock(path(), { backend });
      const error = await failure(user.call("acquire", { name: "lock", options: { timeout: 0 } }));
      assertEquals(error.name, "LockTimeoutError", error.message);
      assert(!/\bkill \d/.test(error.message), `${kind}, ${backend}: ${error.message}`);
    }
  }
});

test("tryAcquire() by kernel that is refused by a live PID file makes nothing, not even for a moment", async (place) => {
  const { dir, path, child } = place;
  leave(path("a.lock.pid"), ownerOf(sleeper(place)));
  const events = child(PYTHON, ["-uSEc", WATCH, dir]);
  assertEquals(await events.line(), "watching");
  for (const kind of kinds) {
    const user = await place.agent(kind);
    await user.lock(path(), { backend: "flock" });
    assertEquals(await user.call("tries", { name: "lock", times: 3 }), 0, kind);
    assertEquals(names(dir), ["a.lock.pid"], kind);
  }
  writeFileSync(path("end"), "");
  assertEquals(await within(60_000, events.line()), "end", "the first thing that was made in the folder");
});

/** Prints the name of whatever is made in a folder: inotify(7), IN_CREATE. */
const WATCH = `import ctypes, os, sys
libc = ctypes.CDLL(None)
fd = libc.inotify_init()
libc.inotify_add_watch(fd, sys.argv[1].encode(), 0x100)
print("watching")
while True:
    data = os.read(fd, 4096)
    while data:
        length = int.from_bytes(data[12:16], sys.byteorder)
        print(data[16:16 + length].rstrip(b"\\0").decode())
        data = data[16 + length:]`;

test("timeoutError() recommends to end a process only where it is known which one that is", () => {
  const told = (fields: Partial<HolderFields>, other: object = {}) => {
    const holder = new LockHolder({ pid: 4711, startTime: "100", nonce: nonce(), ...fields });
    return timeoutError("/l", 0, { holder, ...other }).message;
  };
  assertStringIncludes(told({}, { proof: true }), '("kill 4711" ends it)');
  assertEquals(/kill/.test(told({ pid: 1 }, { proof: true })), false); // the first process of a container
  // Not proven to have the lock; and another program's number.
  for (const fields of [{}, { startTime: undefined }, { nonce: undefined }]) {
    assertEquals(/kill/.test(told(fields)), false, told(fields));
  }
  // Of another PID namespace, also where it has our own number.
  for (const pid of [4711, 1, process.pid]) {
    const message = told({ pid }, { doubt: "it runs elsewhere", breakable: true });
    assertEquals(/kill|this very process/.test(message), false, message);
    assertStringIncludes(
      message,
      'held because it runs elsewhere. If no process holds it any more, "holdfast break /l"',
    );
  }
});

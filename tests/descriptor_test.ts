/** The lock's descriptor, and the child that is given it: the lock lasts until the last one closes it. */
import { readFileSync, readlinkSync, unlinkSync } from "node:fs";
import process from "node:process";
import { assert, assertEquals } from "@std/assert";
import { Lock } from "../mod.ts";
import { type Agent, type Kind, type Place, test } from "./support/harness.ts";
import { underStrace } from "./support/lockers.ts";
import { kinds, until } from "./support/pid_files.ts";

/** Deno without FFI shows no descriptor. */
const showing: readonly Kind[] = kinds.filter((kind) => kind !== "deno-no-ffi");

const sleeping = { name: "lock", program: "sleep", args: ["600"] };

const isAlive = (pid: number) => process.kill(pid, 0);

const isFree = (path: string) => {
  const lock = new Lock(path, { onStale: () => {} });
  if (!lock.tryAcquire()) return false;
  lock.release();
  return true;
};

/** An agent that holds the lock and has started a sleep(1), which is given the descriptor or is not. */
async function parent(
  { agent, path }: Place,
  kind: Kind,
  index: number | undefined,
  use: (agent: Agent, child: number, end: () => void) => Promise<void>,
) {
  const holder = await agent(kind);
  await holder.lock(path());
  assertEquals(await holder.tryAcquire(), true);
  const child = await holder.call("hand", { ...sleeping, index });
  let ended = false;
  const end = () => void (ended ||= process.kill(child, "SIGKILL")); // once: its number may be another's then
  try {
    await use(holder, child, end);
  } finally {
    end();
  }
}

test("fd is the open lock file's while the kernel lock is held, and undefined before and after", ({ path }) => {
  const lock = new Lock(path());
  assertEquals(lock.fd, undefined);
  for (let i = 0; i < 2; i++) {
    assertEquals(lock.tryAcquire(), true);
    assertEquals(readlinkSync(`/proc/self/fd/${lock.fd}`), path());
    const stranger = new Lock(path());
    assertEquals([stranger.tryAcquire(), stranger.fd], [false, undefined]);
    lock.release();
    assertEquals(lock.fd, undefined);
  }
});

test("fd is the new file's after a deleted one was made again", ({ path }) => {
  const lock = new Lock(path());
  assertEquals(lock.tryAcquire(), true);
  unlinkSync(path());
  assertEquals(readlinkSync(`/proc/self/fd/${lock.fd}`), `${path()} (deleted)`);
  assertEquals(lock.verify(), true);
  assertEquals(readlinkSync(`/proc/self/fd/${lock.fd}`), path());
  lock.release();
});

for (const kind of kinds) {
  test(`fd in ${kind} is undefined for a PID file${kind === "deno-no-ffi" ? ", and for a lock without FFI" : ""}`, async ({ path, agent }) => {
    const holder = await agent(kind);
    for (const backend of ["pidfile", "flock"] as const) {
      await holder.lock(path(backend), { backend });
      assertEquals(await holder.tryAcquire(), true);
      const fd = await holder.call("fd", { name: "lock" });
      if (backend === "pidfile" || kind === "deno-no-ffi") assertEquals(fd, null);
      else assertEquals(readlinkSync(`/proc/${holder.pid}/fd/${fd}`), path(backend));
      if (backend === "flock" && fd === null) {
        // Nothing was given away, so nobody has the deleted file alone.
        unlinkSync(path(backend));
        assertEquals(await holder.call("verify", { name: "lock" }), true);
      }
      await holder.release();
    }
  });

  test(`release() in ${kind} closes the file and never unlocks it, which would take it from a child`, async ({ path, agent }) => {
    const log = path("strace.log");
    await underStrace(agent, kind, log, ["-e", "trace=flock"], async (holder) => {
      await holder.lock(path());
      assertEquals(await holder.tryAcquire(), true);
      await holder.release();
      assertEquals(await holder.tryAcquire(), true);
      unlinkSync(path());
      assertEquals(await holder.call("verify", { name: "lock" }), true);
      await holder.release();
      assertEquals(await holder.tryAcquire(), true); // left for the end
    });
    const calls = readFileSync(log, "utf8");
    assert(calls.split("LOCK_EX").length > 4, calls);
    assert(!calls.includes("LOCK_UN"), calls);
  });
}

for (const kind of showing) {
  for (const index of [3, 7]) {
    test(`fd given to a child by ${kind} as its descriptor ${index} keeps the lock after release(), until the child ends`, async (place) => {
      const { path } = place;
      await parent(place, kind, index, async (holder, child, end) => {
        assertEquals(readlinkSync(`/proc/${child}/fd/${index}`), path());
        await holder.release();
        assertEquals([isFree(path()), await holder.tryAcquire()], [false, false]);
        assertEquals((await place.child("flock", ["-n", path(), "true"]).ended).code, 1);
        assertEquals(readFileSync(path(), "utf8"), "", "the parent's record is gone: it holds it no longer");
        const { state, holders } = Lock.inspect(path());
        assertEquals([state, holders.map(({ pid }) => pid)], ["held", [child]]);
        end();
        await until("it is free", () => isFree(path()));
        assertEquals(await holder.tryAcquire(), true);
      });
    });
  }

  test(`fd given to a child by ${kind} keeps the lock after kill -9 of the parent, until the child ends`, async (place) => {
    const { path } = place;
    await parent(place, kind, 3, async (holder, child, end) => {
      await holder.kill();
      assertEquals([isFree(path()), isAlive(child)], [false, true]);
      assertEquals(Lock.inspect(path()).holders.map(({ pid }) => pid), [child]);
      end();
      const stale: number[] = [];
      const next = new Lock(path(), { onStale: ({ pid }) => stale.push(pid) });
      await until("it is free", () => next.tryAcquire());
      assertEquals(stale, [holder.pid]);
    });
  });

  test(`fd of ${kind} that a child is not given does not keep the lock`, async (place) => {
    const { path } = place;
    await parent(place, kind, undefined, async (holder, child) => {
      await holder.release();
      // Not at once: the kernel lets the parent of a vfork(2) go on a moment before it closes the child's descriptors.
      await until("it is free", () => isFree(path()));
      assertEquals(isAlive(child), true);
      assertEquals(await holder.tryAcquire(), true);
      const other = await holder.call("hand", sleeping);
      try {
        await holder.kill();
        await until("it is free", () => isFree(path()));
        assertEquals(isAlive(other), true);
      } finally {
        process.kill(other, "SIGKILL");
      }
    });
  });
}

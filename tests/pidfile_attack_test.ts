/** The PID file under attack: holders without a record, circles of links, a release that fails, and what the dead leave. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Lock } from "../mod.ts";
import { type Agent, type Place, test, within } from "./support/harness.ts";
import { failure } from "./support/lockers.ts";
import { deadOwner, kinds, leave, names, nonce, recordIn } from "./support/pid_files.ts";

const PIDFILE = { backend: "pidfile" } as const;
const FLOCK = { backend: "flock" } as const;
/** Deno without FFI cannot tell that an owner is dead. */
const judging = kinds.filter((kind) => kind !== "deno-no-ffi");

test("tryAcquire() by PID file is false while the kernel's holder of a user's data file has no record", async ({ dir, path, agent }) => {
  writeFileSync(path(), "the user's\n".repeat(100));
  const holder = new Lock(path(), FLOCK).acquireSync();
  for (const kind of kinds) {
    const user = await agent(kind);
    await user.lock(path(), PIDFILE);
    assertEquals(await user.call("tries", { name: "lock", times: 3 }), 0, kind);
    assertEquals(names(dir), ["a.lock"], kind);
    holder.release();
    assertEquals(await user.tryAcquire(), true, kind);
    assertEquals(holder.tryAcquire(), false, kind);
    await user.release();
    assertEquals(holder.tryAcquire(), true, kind);
  }
  holder.release();
});

test("tryAcquire() by PID file is false while a shared holder, who writes no record, has the kernel's lock", async ({ path, agent }) => {
  const [reader, second] = [1, 2].map(() => new Lock(path(), { mode: "shared" }).acquireSync());
  for (const kind of kinds) {
    const user = await agent(kind);
    await user.lock(path(), PIDFILE);
    assertEquals(await user.tryAcquire(), false, kind);
    second.release();
    assertEquals(await user.tryAcquire(), false, kind);
    reader.release();
    assertEquals(await user.tryAcquire(), true, kind);
    await user.release();
    for (const each of [reader, second]) each.acquireSync();
  }
  for (const each of [reader, second]) each.release();
});

for (const kind of judging) {
  test(`tryAcquire() in ${kind} says ELOOP where a takeover's links lead in a circle, and the kernel's lock is not kept out by it`, async ({ path, agent }) => {
    const user = await agent(kind);
    for (const length of [1, 2, 3]) {
      const file = path(`${length}.lock`);
      const circle = Array.from({ length }, nonce);
      const owner = deadOwner();
      leave(`${file}.pid`, { ...owner, nonce: circle[0] });
      for (const [i, each] of circle.entries()) {
        leave(`${file}.pid.${each}`, { ...owner, nonce: circle[(i + 1) % length] });
      }
      await user.lock(file, PIDFILE);
      const error = await failure(within(60_000, user.tryAcquire()));
      assertEquals([error.name, error.code, error.path], ["LockError", "ELOOP", file], error.message);
      assertStringIncludes(error.message, `${file}.pid`);
      await user.lock(file, FLOCK);
      assertEquals(await within(60_000, user.tryAcquire()), true);
      await user.release();
    }
  });

  test(`tryAcquire() by kernel in ${kind} removes a dead owner's PID file and reports its holder once`, async ({ dir, path, agent }) => {
    const user = await agent(kind);
    const owner = deadOwner();
    leave(path("a.lock.pid"), owner);
    await user.lock(path(), FLOCK);
    assertEquals(await user.tryAcquire(), true);
    assertEquals([await user.call("stale"), names(dir)], [[owner.pid], ["a.lock"]]);
    await user.release();
    // What would be in the way once its number is another process's: there is nothing left to judge.
    assertEquals(await user.tryAcquire(), true);
    assertEquals([await user.call("stale"), names(dir)], [[owner.pid], ["a.lock"]]);
    await user.release();
    const next = new Lock(path(), PIDFILE);
    assertEquals(next.tryAcquire(), true);
    next.release();
  });
}

test("tryAcquire() by kernel is not kept out by this program's own bare PID beside the lock, which stays", async ({ path, agent }) => {
  for (const kind of kinds) {
    const [user, other] = [await agent(kind), new Lock(path(), FLOCK)];
    writeFileSync(path("a.lock.pid"), `${user.pid}\n`);
    await user.lock(path(), FLOCK);
    assertEquals(await user.tryAcquire(), true, kind);
    assertEquals(other.tryAcquire(), false, kind);
    assertEquals(readFileSync(path("a.lock.pid"), "utf8"), `${user.pid}\n`);
    await user.release();
    assertEquals(other.tryAcquire(), false, `${kind}: to others that file means what it says`);
    assertEquals(await user.tryAcquire(), true, kind);
    await user.release();
  }
});

/** An agent whose first unlink of a file fails; and the proof that it did. */
async function failing(place: Place, kind: typeof kinds[number], file: string, use: (agent: Agent) => Promise<void>) {
  const log = place.path("strace");
  const fault = ["-e", "trace=unlink,unlinkat", "-e", "inject=unlink,unlinkat:error=EIO:when=1"];
  const agent = await place.agent(kind, { by: ["strace", "-f", "-qq", "-o", log, "-P", file, ...fault] });
  try {
    await use(agent);
  } finally {
    agent.close(); // not killed: that would end strace and leave its agent
    await within(60_000, agent.ended);
  }
  const injected = readFileSync(log, "utf8").split("\n").filter((line) => line.endsWith("(INJECTED)"));
  assert(injected.length === 1 && injected[0].includes(file), injected.join("\n"));
}

for (const kind of kinds) {
  test(`release() in ${kind} by PID file that fails says so, holds the lock still, and can be repeated`, async (place) => {
    const { path } = place;
    await failing(place, kind, path("a.lock.pid"), async (holder) => {
      await holder.lock(path(), PIDFILE);
      assertEquals(await holder.tryAcquire(), true);
      const error = await failure(holder.release());
      assertEquals([error.name, error.code, error.path], ["LockError", "EIO", path()], error.message);
      assert(error.message.startsWith(`Cannot release "${path()}": `), error.message);
      assertEquals(await holder.call("held", { name: "lock" }), true);
      assertEquals(recordIn(path("a.lock.pid")).pid, holder.pid);
      const other = new Lock(path(), PIDFILE);
      assertEquals(other.tryAcquire(), false);
      await holder.release();
      assertEquals(await holder.call("held", { name: "lock" }), false);
      assertEquals(other.tryAcquire(), true);
      other.release();
    });
  });
}

// Who sees the kernel's lock in /proc/locks makes nothing that would have to be taken back.
for (const kind of kinds.filter((kind) => kind === "deno-no-ffi")) {
  test(`tryAcquire() in ${kind} by PID file that cannot take back its own file is not kept out by it for good`, async (place) => {
    const { path } = place;
    const kernel = new Lock(path(), FLOCK).acquireSync();
    await failing(place, kind, path("a.lock.pid"), async (user) => {
      await user.lock(path(), PIDFILE);
      // Twice: the first leaves its file there, and only the second's unlink works.
      for (let i = 0; i < 2; i++) assertEquals(await user.tryAcquire(), false);
      assert(!existsSync(path("a.lock.pid")));
      kernel.release();
      assertEquals(await user.tryAcquire(), true);
      assertEquals(new Lock(path(), PIDFILE).tryAcquire(), false);
      await user.release();
      assertEquals(await user.call("stale"), []);
    });
    assertEquals(kernel.tryAcquire(), true);
    kernel.release();
  });
}

/** acquire({ signalHolder }): one signal, to the verified holder, and to nobody else. */
import { chmodSync, writeFileSync } from "node:fs";
import process from "node:process";
import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { Lock, LockHeldError, LockTimeoutError } from "../mod.ts";
import { type Agent, type Kind, KINDS, ownKind, type Place, test, within } from "./support/harness.ts";
import { needs, needsPermission, PYTHON } from "./support/needs.ts";
import { failure } from "./support/lockers.ts";
import {
  asNobody,
  deadOwner,
  ELSEWHERE,
  kinds,
  leave,
  ownerOf,
  sleeper,
  startTimeOf,
  stateOf,
  threadId,
} from "./support/pid_files.ts";

const SIGTERM = { signalHolder: "SIGTERM" } as const;

/** A holder that could not be verified is not waited for much longer than this, in milliseconds. */
const PATIENCE = 1_000;

/** An agent that holds the lock and, if `yields`, gives it up at SIGTERM; it counts them. */
async function holding({ agent, path }: Place, kind: Kind, options: object = {}, yields = true): Promise<Agent> {
  const holder = await agent(kind);
  await holder.lock(path(), options);
  assertEquals(await holder.tryAcquire(), true);
  await holder.call("countSignals", { name: "lock", signal: "SIGTERM", yields });
  return holder;
}

/** Waits until it has handled so many signals; not for others that may come. */
async function counts(holder: Agent, expected: number): Promise<void> {
  const end = performance.now() + 10_000;
  let handled: number;
  do handled = await holder.call("signals"); while (handled < expected && performance.now() < end);
  assertEquals(handled, expected);
}

/** The error of a wait that must not signal: LockHeldError, after the time in which a holder may prove itself. */
async function refused(waiting: Promise<unknown>): Promise<LockHeldError> {
  const began = performance.now();
  const error = await within(8_000, assertRejects(() => waiting, LockHeldError));
  const took = performance.now() - began;
  assert(PATIENCE / 2 <= took, `refused after ${took} ms`); // it was under way a little before
  assertEquals([error.name, error.code], ["LockHeldError", "ELOCKED"]);
  assertStringIncludes(error.message, "was not sent SIGTERM, because ");
  return error;
}

const isAlive = (pid: number) => "RSD".includes(stateOf(pid));

const unless = (kind: Kind) => (each: Kind) => each !== kind;

for (const backend of ["flock", "pidfile"] as const) {
  for (const kind of (backend === "flock" ? KINDS : kinds).filter(unless("deno-no-ffi"))) {
    test(`acquire({ signalHolder }) gets the lock from a holder in ${kind} that drains at the signal (${backend})`, async (place) => {
      const holder = await holding(place, kind, { backend });
      const lock = new Lock(place.path(), { backend });
      assertEquals(await within(60_000, lock.acquire(SIGTERM)), lock);
      await counts(holder, 1);
      assertEquals([lock.held, await holder.call("held", { name: "lock" })], [true, false]);
      lock.release();
    });
  }

  test(`acquire({ signalHolder }) sends one signal, however long the holder takes (${backend})`, async (place) => {
    const holder = await holding(place, ownKind, { backend }, false);
    const lock = new Lock(place.path(), { backend });
    const error = await assertRejects(() => lock.acquire({ ...SIGTERM, timeout: 300 }), LockTimeoutError);
    assertStringIncludes(error.message, "it was sent SIGTERM");
    assertEquals(error.holder?.pid, holder.pid);
    await counts(holder, 1);
    await assertRejects(() => lock.acquire({ timeout: 0 }), LockTimeoutError, "held by");
    await counts(holder, 1);
    await assertRejects(() => lock.run(() => {}, { ...SIGTERM, timeout: 0 }), LockTimeoutError, "it was sent SIGTERM");
    await counts(holder, 2); // each wait sends its own
  });
}

for (const backend of ["flock", "pidfile"] as const) {
  test(`acquire({ signalHolder }) by ${backend} gets the lock from a holder that began under the host's former name`, async (place) => {
    needsPermission("unshare", "--uts");
    const { agent, path } = place;
    const by = ["unshare", "--uts", "sh", "-c", 'hostname former.example && exec "$@"', "sh"];
    const holder = await agent(ownKind, { by });
    await holder.lock(path(), { backend });
    assertEquals(await holder.tryAcquire(), true);
    const lock = new Lock(path(), { backend, onStale() {} });
    await within(10_000, lock.acquire(SIGTERM));
    assertEquals((await holder.ended).signal, "SIGTERM");
    lock.release();
  });
}

test("run({ signalHolder }) gets the lock too, and acquire() sends nothing where it is free", async (place) => {
  const holder = await holding(place, ownKind);
  const lock = new Lock(place.path());
  assertEquals(await within(60_000, lock.run(() => "done", SIGTERM)), "done");
  await lock.acquire(SIGTERM);
  lock.release();
  await counts(holder, 1);
});

test("acquire({ signalHolder }) sends another signal by its name, and gets the lock from one that dies of it", async (place) => {
  const holder = await place.agent("bun");
  await holder.lock(place.path());
  assertEquals(await holder.tryAcquire(), true);
  const stale: number[] = [];
  const lock = new Lock(place.path(), { onStale: ({ pid }) => stale.push(pid) });
  await within(60_000, lock.acquire({ signalHolder: "SIGUSR2" }));
  assertEquals([(await holder.ended).signal, stale], ["SIGUSR2", [holder.pid]]);
});

test("acquire({ signalHolder }) never signals a holder of another user, in either direction", async (place) => {
  const { agent, path, dir } = place;
  chmodSync(dir, 0o777);
  const [theirs, ours] = [path("theirs"), path("ours")];
  for (const file of [theirs, ours]) {
    writeFileSync(file, "");
    chmodSync(file, 0o666);
  }
  const [nobody, other] = [await agent(ownKind, asNobody()), await agent(ownKind)];
  await nobody.lock(theirs);
  await other.lock(ours);
  assertEquals([await nobody.tryAcquire(), await other.tryAcquire()], [true, true]);
  await nobody.lock(ours, {}, "ours");
  const [mine, foreign] = await Promise.all([
    refused(new Lock(theirs).acquire(SIGTERM)),
    within(8_000, failure(nobody.call("acquire", { name: "ours", options: SIGTERM }))),
  ]);
  for (const error of [mine, foreign]) {
    assertEquals([error.name, error.code], ["LockHeldError", "ELOCKED"]);
    assertStringIncludes(error.message, "it belongs to another user (uid ");
  }
  // They live, and hold it: SIGTERM would have ended them.
  assertEquals([await nobody.call("held", { name: "lock" }), await other.call("held", { name: "lock" })], [true, true]);
});

test("acquire({ signalHolder }) never signals whoever merely has the number of a dead holder", async (place) => {
  const { path } = place;
  const sleep = sleeper(place);
  const thread = await threadId(place);
  leave(path("reused.pid"), ownerOf(sleep, { startTime: "1" }));
  leave(path("thread.pid"), { ...deadOwner(), pid: thread, startTime: startTimeOf(thread) });
  leave(path("booted.pid"), ownerOf(sleep, { bootId: "another" }));
  leave(path("kernel"), ownerOf(sleep, { startTime: "1" }));
  for (const name of ["reused", "thread", "booted", "kernel"]) {
    const lock = new Lock(path(name), { backend: name === "kernel" ? "flock" : "pidfile", onStale: () => {} });
    await within(60_000, lock.acquire(SIGTERM));
    lock.release();
  }
  assertEquals([isAlive(sleep), isAlive(thread)], [true, true]);
});

test("acquire({ signalHolder }) never signals a holder that cannot be verified, and says why", async (place) => {
  needs("python3", "flock"); // before it has begun to wait
  const { path, child } = place;
  const sleep = sleeper(place);
  const records: Record<string, [record: ReturnType<typeof ownerOf>, why: string]> = {
    host: [ownerOf(sleep, ELSEWHERE), "it runs on another host"],
    namespace: [ownerOf(sleep, { pidNamespace: "1" }), "it runs in another PID namespace"],
    "no start time": [ownerOf(sleep, { startTime: undefined }), "its record has no startTime"],
    "no boot": [ownerOf(sleep, { bootId: undefined }), "its record has no bootId"],
    "no namespace": [ownerOf(sleep, { pidNamespace: undefined }), "its record has no pidNamespace"],
    "no host": [ownerOf(sleep, { host: undefined }), "its record has no host"],
    "bare number": [{ pid: sleep }, "it left no record of this library"],
  };
  for (const [name, [record]] of Object.entries(records)) {
    if (name === "bare number") writeFileSync(path(`${name}.pid`), `${sleep}\n`);
    else leave(path(`${name}.pid`), record);
  }
  const waits = Object.entries(records).map(async ([name, [, why]]) => {
    const error = await refused(new Lock(path(name), { backend: "pidfile" }).acquire(SIGTERM));
    assertStringIncludes(error.message, why, name);
    assertEquals([error.path, error.holder?.pid], [path(name), sleep], name);
  });
  // Programs that lock without a record; also beside the record of a process that lives and has nothing to do with it.
  const python = child(PYTHON, [fromFileUrl(new URL("fixtures/contender.py", import.meta.url)), path("python")]);
  python.write("exclusive\n");
  assertEquals(await python.line(), "granted");
  leave(path("flock"), ownerOf(sleep));
  const flock = child("flock", ["--no-fork", path("flock"), "sh", "-c", "echo in; exec sleep 600"]);
  assertEquals(await flock.line(), "in");
  for (const [name, { pid }] of [["python", python], ["flock", flock]] as const) {
    waits.push((async () => {
      const error = await refused(new Lock(path(name)).acquire(SIGTERM));
      assertStringIncludes(error.message, "it left no record of this library", name);
      assertEquals(error.holder?.pid, pid, name);
    })());
  }
  await Promise.all(waits);
  for (const pid of [sleep, python.pid, flock.pid]) assertEquals(isAlive(pid), true);
});

test("acquire({ signalHolder }) never signals this very process", async ({ path }) => {
  let signals = 0;
  const handler = () => signals++;
  process.on("SIGTERM", handler);
  try {
    await Promise.all((["flock", "pidfile"] as const).map(async (backend) => {
      const holder = new Lock(path(backend), { backend });
      assertEquals(holder.tryAcquire(), true);
      const error = await refused(new Lock(path(backend), { backend }).acquire(SIGTERM));
      assertStringIncludes(error.message, "it is this very process");
      assertEquals(error.holder?.pid, process.pid);
      holder.release();
    }));
    assertEquals(signals, 0);
  } finally {
    process.off("SIGTERM", handler);
  }
});

test("acquire({ signalHolder }) of the very object that holds it does not wait for ever", async ({ path }) => {
  const lock = new Lock(path());
  assertEquals(lock.tryAcquire(), true);
  const error = await within(4_000, assertRejects(() => lock.acquire(SIGTERM), LockHeldError));
  assertStringIncludes(error.message, "SIGTERM");
  assertEquals(lock.held, true);
  lock.release();
});

test("acquire({ signalHolder, timeout }) says that no signal was sent if the time is up before", async ({ path, child }) => {
  const flock = child("flock", ["--no-fork", path(), "sh", "-c", "echo in; exec sleep 600"]);
  assertEquals(await flock.line(), "in");
  for (const timeout of [0, 50]) {
    const error = await assertRejects(() => new Lock(path()).acquire({ ...SIGTERM, timeout }), LockTimeoutError);
    assertStringIncludes(error.message, "no SIGTERM was sent");
  }
  assertEquals(isAlive(flock.pid), true);
});

test("signalHolder must be a signal's name, and is no option of a call that blocks", async ({ path }) => {
  const lock = new Lock(path());
  for (const wrong of ["", "TERM", "sigterm", "SIGNOTHING", "toString", "__proto__", 15, null, true, {}]) {
    const options = { signalHolder: wrong as string }; // the cast: it is wrong on purpose
    await assertRejects(() => lock.acquire(options), TypeError, "signalHolder");
    await assertRejects(() => lock.run(() => {}, options), TypeError, "signalHolder");
  }
  const options: object = SIGTERM;
  assertThrows(() => lock.acquireSync(options), TypeError, "signalHolder");
  assertThrows(() => lock.runSync(() => {}, options), TypeError, "signalHolder");
  assertEquals([lock.held, lock.tryAcquire()], [false, true]);
  lock.release();
});

if (ownKind === "deno") {
  test("acquire({ signalHolder }) in Deno without --allow-ffi says what it takes, and signals nobody", async (place) => {
    const { agent, path } = place;
    for (const backend of ["flock", "pidfile"] as const) {
      const holder = await agent("bun");
      await holder.lock(path(backend), { backend });
      assertEquals(await holder.tryAcquire(), true);
      const waiter = await agent("deno-no-ffi");
      await waiter.lock(path(backend), { backend });
      const error = await within(8_000, failure(waiter.call("acquire", { name: "lock", options: SIGTERM })));
      assertEquals(error.name, "LockHeldError");
      assertStringIncludes(error.message, "--allow-ffi");
      assertEquals(await holder.call("held", { name: "lock" }), true);
    }
  });
}

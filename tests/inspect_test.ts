/** inspect(): who holds a lock, in each way in which a lock can be held, seen from another process. */
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import process from "node:process";
import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { Lock, LockError, type LockStatus } from "../mod.ts";
import { inspectPath } from "../src/inspect/inspect.ts";
import { placeOf } from "../src/record/place.ts";
import { system } from "../src/sys/mod.ts";
import { descriptorLocks, type Reader } from "../src/sys/proc.ts";
import { type Agent, type Child, type Kind, KINDS, ownKind, type Place, test, within } from "./support/harness.ts";
import { needs, PYTHON } from "./support/needs.ts";
import { failure, openDescriptors, openIn, said, snapshot } from "./support/lockers.ts";
import { deadOwner, ELSEWHERE, kinds, leave, ownerOf, startTimeOf, until } from "./support/pid_files.ts";

/** What an agent answers to "look". */
type Look = LockStatus & { phrases: string[] };

const pids = ({ holders }: LockStatus) => holders.map(({ pid }) => pid).sort();
const look = (agent: Agent, path: string): Promise<Look> => agent.call("look", { path });

/** A program that has the lock and says so; it ends when its input does. */
async function granted(child: Child): Promise<Child> {
  assertEquals(await within(60_000, child.line()), "granted", child.errors);
  return child;
}
const SAYS_SO = ["sh", "-c", "echo granted; cat"];
const byFlock = ({ child }: Place, path: string, ...options: string[]) =>
  granted(child("flock", [...options, path, ...SAYS_SO]));
const SCRIPT = `import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("granted", flush=True)
sys.stdin.read()`;

/** Kills a process that is nobody's child any more, and waits until its files are closed. */
async function end(pid: number, dir: string): Promise<void> {
  process.kill(pid, "SIGKILL");
  await until(`the end of ${pid}`, () => {
    try {
      return openIn(dir, pid) === 0;
    } catch {
      return true; // it is gone altogether
    }
  });
}

test("descriptorLocks() tells what may not be seen from what is not there", () => {
  const reader = (files: Record<string, string> | undefined, hidden = false): Reader => ({
    list: () => files && [".", "..", ...Object.keys(files)],
    text: (file) => hidden ? undefined : files?.[file.split("/")[4]],
    link: () => undefined,
    stat: () => undefined,
    ps: () => undefined,
  });
  const line = "1: FLOCK  ADVISORY  WRITE 7 fe:00:1 0 EOF";
  const files = { 0: "pos:\t0\n", 1: `pos:\t0\nlock:\t${line}\n`, 2: `lock:\t${line}\nlock:\t${line}\n` };
  assertEquals(descriptorLocks(7, reader(files)), [
    { fd: "1", locks: `${line}\n` },
    { fd: "2", locks: `${line}\n`.repeat(2) },
  ]);
  assertEquals(descriptorLocks(7, reader({})), [], "it has nothing open");
  // Older kernels list another user's descriptors, and refuse each.
  for (const hides of [reader(undefined), reader(files, true)]) assertEquals(descriptorLocks(7, hides), undefined);
});

test("inspect() names a holder of each kind with all of its record, in a sentence too", async ({ path, agent }) => {
  const holders = await Promise.all(KINDS.map((kind) => agent(kind)));
  for (const holder of holders) {
    await holder.lock(path(holder.kind), { label: "night's work" });
    assertEquals(await holder.tryAcquire(), true);
    const status = Lock.inspect(path(holder.kind));
    const { state, backend, mode, waiters, reason } = status;
    assertEquals([state, backend, mode, waiters], ["held", "flock", "exclusive", 0], `${holder.kind}: ${reason}`);
    assertMatch(said(reason), /^the kernel shows an exclusive lock on it(?:, taken by pid \d+)?$/);
    assertEquals(status.path, path(holder.kind));
    assertEquals(pids(status), [holder.pid]);
    assertEquals(status.holder, status.holders[0]);
    const { startTime, runtime, label, nonce, command } = status.holder!; // `!`: one is named
    assertEquals(startTime ?? "not told", holder.kind === "deno-no-ffi" ? "not told" : startTimeOf(holder.pid));
    assertEquals(label, "night's work");
    assertMatch(`${nonce}`, /^[0-9a-f]{32}$/);
    assertMatch(`${runtime}`, /^(deno|bun|node)\/\d/);
    assertStringIncludes(`${command}`, "lock_process.mjs");
    const phrase = String(status.holder);
    assert(phrase.startsWith(`pid ${holder.pid} (${command})`), phrase);
    assertMatch(phrase, /"night's work", since \d{4}-\d\d-\d\dT[\d:.]+Z$/);
    await holder.release();
    const after = Lock.inspect(path(holder.kind));
    assertEquals([after.state, after.holder, after.holders, after.waiters], ["free", undefined, [], 0]);
    assertEquals(said(after.reason), "the kernel shows no lock on it");
  }
});

for (const kind of kinds) {
  test(`inspect() in ${kind} sees what this process and another hold, and what nobody does`, async ({ path, agent }) => {
    const [viewer, holder] = [await agent(kind), await agent("bun")];
    await holder.lock(path("other"));
    await viewer.lock(path("own"));
    assertEquals([await holder.tryAcquire(), await viewer.tryAcquire()], [true, true]);
    for (const [name, pid] of [["other", holder.pid], ["own", viewer.pid]] as const) {
      const status = await look(viewer, path(name));
      // Without FFI it may not even ask whether another process lives.
      const state = kind === "deno-no-ffi" && name === "other" ? "unknown" : "held";
      assertEquals([status.state, status.backend, pids(status)], [state, "flock", [pid]], status.reason);
      assert(status.phrases[0].startsWith(`pid ${pid} (`), status.phrases[0]);
    }
    const missing = await look(viewer, path("missing"));
    const { state, backend, holders, reason } = missing;
    assertEquals([state, backend, holders, said(reason)], ["free", undefined, [], "there is no lock file"]);
  });
}

test("inspect() in Deno without FFI names whom the record names, and says what it cannot see", async (place) => {
  const { path, agent } = place;
  const [viewer, holder] = [await agent("deno-no-ffi"), await agent("bun")];
  await holder.lock(path("record"));
  assertEquals(await holder.tryAcquire(), true);
  writeFileSync(path("data"), "the user's\n");
  await byFlock(place, path("data"));
  const seen = await look(viewer, path("record"));
  assertEquals(
    [seen.state, pids(seen), seen.waiters ?? "not told"],
    ["unknown", [holder.pid], "not told"],
    seen.reason,
  );
  assertMatch(seen.reason, /^this process may not ask whether another one lives \(it takes --allow-ffi\); "ps /);
  assertMatch(seen.reason, /\/proc\/locks cannot be read here, so a holder without a record would not be seen/);
  const unseen = await look(viewer, path("data"));
  assertEquals([unseen.state, unseen.holders], ["free", []]);
  assertMatch(unseen.reason, /\/proc\/locks cannot be read here, so a holder without a record would not be seen/);
});

test("inspect() names flock(1) by its PID and command, and its child where it has the lock alone", async (place) => {
  const { path } = place;
  for (const [options, mode] of [[[], "exclusive"], [["-s"], "shared"]] as const) {
    writeFileSync(path(mode), "4711\n"); // another's PID file: the kernel knows better
    const command = await byFlock(place, path(mode), ...options);
    const status = Lock.inspect(path(mode));
    assertEquals([status.state, status.backend, status.mode], ["held", "flock", mode], status.reason);
    assertEquals(pids(status), [command.pid], "flock(1), which took it, and not its child");
    const { holder } = status;
    assert(holder?.command?.endsWith(["flock", ...options, path(mode), ...SAYS_SO].join(" ")), holder?.command);
    assertEquals([holder?.startTime, holder?.uid], [startTimeOf(command.pid), process.getuid?.()]);
    assertEquals(String(holder), `pid ${command.pid} (${holder?.command})`);
  }
});

test("inspect() names Python that holds it by fcntl.flock", async ({ path, child }) => {
  const python = await granted(child(PYTHON, ["-SEc", SCRIPT, path()]));
  const status = Lock.inspect(path());
  assertEquals([status.state, status.mode, pids(status)], ["held", "exclusive", [python.pid]], status.reason);
  assertStringIncludes(`${status.holder?.command}`, `fcntl.flock(file, fcntl.LOCK_EX)`);
});

for (const kind of kinds.filter((kind) => kind !== "deno-no-ffi")) { // which has no descriptor to hand on
  test(`inspect() names the child that keeps the lock of a dead or released parent in ${kind}, and not the parent`, async ({ dir, path, agent }) => {
    for (const how of ["kill", "release"] as const) {
      const parent = await agent(kind);
      await parent.lock(path(how), { label: "nightly" }, how);
      assertEquals(await parent.tryAcquire(how), true);
      const since = Lock.inspect(path(how)).holder?.acquiredAt;
      const heir: number = await parent.call("heir", { name: how, program: "sleep", args: ["600"] });
      try {
        assertEquals(pids(Lock.inspect(path(how))), [parent.pid], "while it lives");
        // Before it has begun to be the program it has no command.
        await until("sleep", () => readFileSync(`/proc/${heir}/cmdline`, "utf8").includes("sleep"));
        if (how === "kill") await parent.kill();
        else await parent.release(how);
        const status = Lock.inspect(path(how));
        assertEquals([status.state, status.mode, pids(status)], ["held", "exclusive", [heir]], status.reason);
        assertMatch(`${status.holder?.command}`, /^(\/.*\/)?sleep 600$/);
        assertEquals(status.holder?.startTime, startTimeOf(heir));
        // What the dead one's record says of the hold is still true of it. (Node 20's was taken by flock(1): its
        // record could as well be of one that died before.)
        const inherited = how === "kill" && kind !== "node20" ? ["nightly", since] : [undefined, undefined];
        assertEquals([status.holder?.label, status.holder?.acquiredAt], inherited);
        // But it is said whose the record is, which only the user can put together with the rest.
        const record = how === "kill" && kind === "node20"
          ? ` \\(the record is of pid ${parent.pid} \\(.*\\) on .*, "nightly", since .*, and that has ended\\)`
          : "";
        assertMatch(said(status.reason), new RegExp(`: a process that has the same open file keeps it${record}$`));
        assertEquals(new Lock(path(how)).tryAcquire(), false);
      } finally {
        await end(heir, dir);
      }
      const after = Lock.inspect(path(how));
      assertEquals(after.state, how === "kill" ? "stale" : "free", after.reason);
    }
  });
}

/** A flock(1) that was killed, and its child that has the lock; which is to be ended. */
async function killedFlock({ child }: Place, path: string): Promise<{ pid: number; heir: number }> {
  const command = child("flock", [path, "sh", "-c", "echo $$; exec sleep 600"]);
  const heir = Number(await command.line());
  await command.kill();
  return { pid: command.pid, heir };
}

test("inspect() names the child of a flock(1) that was killed", async (place) => {
  const { dir, path } = place;
  const { pid, heir } = await killedFlock(place, path());
  const status = Lock.inspect(path());
  assertEquals([status.state, pids(status), status.holder?.command], ["held", [heir], "sleep 600"], status.reason);
  assertMatch(status.reason, new RegExp(`pid ${pid} took it, and has ended: a process that has the same open file`));
  await end(heir, dir);
  assertEquals(Lock.inspect(path()).state, "free");
});

test("inspect() names all readers of a shared lock, in whatever runtime, until each has released it", async ({ path, agent }) => {
  const readers = await Promise.all((["bun", "node20", "deno-no-ffi"] as const).map((kind) => agent(kind)));
  for (const reader of readers) {
    await reader.lock(path(), { mode: "shared" });
    assertEquals(await reader.tryAcquire(), true);
  }
  for (let left = readers.length; left > 0; left--) {
    let status = Lock.inspect(path());
    // Who has inherited a file is looked for no longer than so; a busy machine may need more.
    for (let i = 0; i < 20 && /not found in time/.test(status.reason); i++) status = Lock.inspect(path());
    assertEquals([status.state, status.mode, status.backend], ["held", "shared", "flock"], status.reason);
    assertEquals(pids(status), readers.slice(-left).map(({ pid }) => pid).sort(), status.reason);
    assertMatch(status.reason, new RegExp(`^the kernel shows ${left} shared locks? on it, taken by pid `));
    for (const holder of status.holders) assertStringIncludes(`${holder.command}`, "lock_process.mjs");
    await readers[readers.length - left].release();
  }
  assertEquals(Lock.inspect(path()).state, "free");
});

test("inspect() names this process once, with the mode, while it holds a lock shared by two objects", async ({ path, agent }) => {
  const [one, two] = [0, 1].map(() => new Lock(path(), { mode: "shared" }).acquireSync());
  const views = [one.inspect(), await look(await agent("node20"), path())];
  for (const status of views) {
    assertEquals([status.state, status.mode, pids(status)], ["held", "shared", [process.pid]], status.reason);
  }
  one.release();
  assertEquals(two.inspect().state, "held");
  two.release();
  assertEquals(two.inspect().state, "free");
});

test("inspect() names the holder of a PID file, and of a stale one the dead one, by both back ends", async ({ path, agent }) => {
  for (const backend of ["pidfile", "flock"] as const) {
    const holder = await agent();
    await holder.lock(path(backend), { backend, label: "job" });
    assertEquals(await holder.tryAcquire(), true);
    const held = Lock.inspect(path(backend));
    assertEquals([held.state, held.backend, held.mode, pids(held)], ["held", backend, "exclusive", [holder.pid]]);
    if (backend === "pidfile") assertEquals(said(held.reason), `process ${holder.pid} is alive`);
    await holder.kill();
    const stale = Lock.inspect(path(backend));
    assertEquals([stale.state, stale.backend, pids(stale)], ["stale", backend, [holder.pid]], stale.reason);
    assertEquals([stale.holder?.label, stale.holder?.nonce], ["job", held.holder?.nonce]);
    assertMatch(said(stale.reason), new RegExp(`there is no process ${holder.pid}$`));
    new Lock(path(backend), { backend, onStale: () => {} }).acquireSync().release();
    assertEquals(Lock.inspect(path(backend)).state, "free");
  }
});

test("inspect() calls a lock unknown whose PID file or record is another host's, and one that a dead process left on this one stale", ({ path }) => {
  for (
    const [name, fields, state] of [["there", ELSEWHERE, "unknown"], ["here", {}, "stale"]] as const
  ) {
    for (const file of [name, `${name}2.pid`]) leave(path(file), deadOwner(fields));
    for (const status of [Lock.inspect(path(name)), Lock.inspect(path(`${name}2`))]) {
      assertEquals(status.state, state, status.reason);
      assertMatch(said(status.reason), state === "stale" ? /there is no process \d+$/ : /it runs on another host/);
    }
  }
});

/** Of a Deno without FFI: it does not say where it ran. */
const BLIND = { bootId: undefined, pidNamespace: undefined, timeNamespace: undefined, host: undefined };

test("inspect() calls a record stale that does not say where its writer ran, as the kernel shows no lock of any, and its PID file unknown", ({ path }) => {
  leave(path("record"), deadOwner(BLIND));
  leave(path("file.pid"), deadOwner(BLIND));
  leave(path("living"), ownerOf(process.pid, BLIND));
  const seen = ["record", "file", "living"].map((name) => Lock.inspect(path(name)));
  const isSure = system().fileSystem(path(".")) === "local";
  assertEquals(seen.map(({ state }) => state), [isSure ? "stale" : "unknown", "unknown", "unknown"]);
  if (isSure) assertMatch(said(seen[0].reason), /there is no process \d+$/);
  assertMatch(seen[1].reason, /its record has no pidNamespace/);
});

test("inspect() does not take another PID namespace's record for that of a holder that has the same number here", async (place) => {
  const { path, child } = place;
  for (
    const [name, fields, isIts] of [["blind", BLIND, true], ["there", { pidNamespace: "4026539999" }, false]] as const
  ) {
    const holder = child("flock", ["-F", path(name), "sh", "-c", "echo granted; exec cat"]);
    assertEquals(await within(60_000, holder.line()), "granted", holder.errors);
    const record = ownerOf(holder.pid, fields);
    leave(path(name), record);
    const status = Lock.inspect(path(name));
    assertEquals([status.state, pids(status)], ["held", [holder.pid]]);
    assertEquals(status.holder?.nonce === record.nonce, isIts, status.reason);
  }
});

test("inspect() tells of the lock file or of the PID file beside it, whichever says more", ({ path }) => {
  for (
    const [name, record, pidFile, state, backend] of [
      ["dead beside dead", {}, {}, "stale", "flock"],
      ["dead beside unknown", ELSEWHERE, {}, "unknown", "flock"],
      ["unknown beside dead", {}, ELSEWHERE, "unknown", "pidfile"],
      ["dead beside free", undefined, {}, "stale", "pidfile"],
    ] as const
  ) {
    if (record) leave(path(name), deadOwner(record));
    else writeFileSync(path(name), "");
    const beside = deadOwner(pidFile);
    leave(path(`${name}.pid`), beside);
    const status = Lock.inspect(path(name));
    assertEquals([status.state, status.backend], [state, backend], `${name}: ${status.reason}`);
    assertEquals(status.holder?.pid === beside.pid, backend === "pidfile", name);
  }
  // And a lock that is held is held, whoever left a PID file.
  const lock = new Lock(path("held")).acquireSync();
  leave(path("held.pid"), deadOwner());
  const { state, backend, holder } = lock.inspect();
  assertEquals([state, backend, holder?.pid], ["held", "flock", process.pid]);
  lock.release();
});

test("inspect() says how many processes wait in the kernel", async (place) => {
  const { path, child } = place;
  const lock = new Lock(path()).acquireSync();
  assertEquals(lock.inspect().waiters, 0);
  for (const [more, all] of [[1, 1], [2, 3]] as const) {
    for (let i = 0; i < more; i++) child("flock", [path(), "cat"]);
    await until(`${all} waiters`, () => lock.inspect().waiters === all);
    const status = lock.inspect();
    assertEquals([status.waiters, pids(status)], [all, [process.pid]], "and none of them is a holder");
  }
  lock.release();
  await until("one has it, and two wait", () => Lock.inspect(path()).waiters === 2);
  assertEquals(Lock.inspect(path()).holders.length, 1);
});

/** Another user, who may read nothing of root's. A process can become one without a file of the runtime being opened. */
const nobody: Kind = ownKind === "deno" ? "node26" : ownKind;

async function stranger({ agent }: Place): Promise<Agent> {
  needs("root");
  const user = await agent(nobody);
  assertEquals((await look(user, "/nonexistent")).state, "free"); // loads what is loaded at the first use
  assertEquals(await user.call("become", { uid: 65534 }), 65534);
  return user;
}

test("inspect() of another user names the holder: by its record, and by the kernel where the file may not be read", async (place) => {
  const { dir, path } = place;
  execFileSync("chmod", ["755", dir]);
  const user = await stranger(place);
  const isLocal = placeOf(system(), path()) === undefined;
  const modes = [["open", 0o644], ["closed", 0o600]] as const;
  for (const [name, fileMode] of modes) {
    const lock = new Lock(path(name), { fileMode }).acquireSync();
    const status = await look(user, path(name));
    const { state, backend, mode, holder, reason } = status;
    assertEquals([state, backend, mode, pids(status)], ["held", "flock", "exclusive", [process.pid]], reason);
    assertEquals(holder?.nonce !== undefined, name === "open", "the record, where it may be read");
    if (isLocal) assertEquals(status.complete, name === "open", "a child may have it too");
    assert(holder?.command && status.phrases[0].startsWith(`pid ${process.pid} (${holder.command})`));
    if (name === "closed") assertMatch(reason, /which files pid \d+ has open cannot be seen from here/);
    lock.release();
    const free = await look(user, path(name));
    assertEquals([free.state, free.holders], ["free", []], free.reason);
    if (name === "closed") {
      assertEquals(
        said(free.reason),
        "the kernel shows no lock on it; it may not be read, so how it was left is not known",
      );
    }
  }
  const command = await byFlock(place, path("command"));
  const status = await look(user, path("command"));
  assertEquals([status.state, pids(status)], ["held", [command.pid]], status.reason);
  assertStringIncludes(`${status.holder?.command}`, "flock ");
  // Whoever took it is gone, and who has it now is hidden: nobody is named rather than somebody wrong.
  const { heir } = await killedFlock(place, path("orphan"));
  const orphan = await look(user, path("orphan"));
  assertEquals([orphan.state, orphan.complete, orphan.holders], ["held", false, []]);
  assertMatch(said(orphan.reason), /has ended; the process that has the same open file cannot be seen from here$/);
  await end(heir, dir);
});

test("inspect() throws LockError for what is no regular file, and does not wait for a FIFO", async ({ path, agent }) => {
  mkdirSync(path("directory"));
  symlinkSync("nowhere", path("symlink"));
  execFileSync("mkfifo", [path("fifo")]);
  const agents = await Promise.all(kinds.map((kind) => agent(kind)));
  for (const [name, code] of [["directory", "EISDIR"], ["symlink", "ELOOP"], ["fifo", "EINVAL"]]) {
    const error = assertThrows(() => Lock.inspect(path(name)), LockError);
    assertStringIncludes(error.message, `Cannot inspect ${JSON.stringify(path(name))}: `);
    assertEquals([error.path, error.code], [path(name), code]);
    for (const user of agents) {
      const refused = await failure(within(60_000, look(user, path(name))));
      assertEquals([refused.name, refused.code], ["LockError", code], `${user.kind}, ${name}`);
    }
  }
});

test("inspect() changes no byte, mode or time, and leaves nothing open", async (place) => {
  const { dir, path, agent } = place;
  const dead = await agent("bun");
  await dead.lock(path("stale"));
  assertEquals(await dead.tryAcquire(), true);
  await dead.kill();
  writeFileSync(path("free"), "");
  leave(path("stale2.pid"), deadOwner());
  writeFileSync(path("damaged.pid"), '4711\n{"holdfast":');
  const held = [new Lock(path("held")), new Lock(path("held2"), { backend: "pidfile" })].map((lock) =>
    lock.acquireSync()
  );
  await byFlock(place, path("command"));
  const files = readdirSync(dir).sort();
  const view = () =>
    files.map((name) => {
      const { mode, size, inode, modified, changed } = snapshot(path(name));
      return [name, mode, size, inode, modified, changed, readFileSync(path(name), "latin1")];
    });
  const before = [view(), snapshot(dir).changed];
  const agents = await Promise.all(kinds.map((kind) => agent(kind)));
  for (const name of ["held", "held2", "command", "stale", "stale2", "damaged", "free", "missing"]) {
    for (const user of agents) {
      await look(user, path(name)); // loads what is loaded at the first use
      const open = openDescriptors(user.pid).length;
      await user.call("looks", { path: path(name), times: 20 });
      assertEquals(openIn(dir, user.pid), 0);
      const more = openDescriptors(user.pid).length - open; // the runtime may have started a thread or two
      assert(more < 5, `${user.kind} has ${more} more after looking at ${name}`);
    }
  }
  assertEquals([view(), snapshot(dir).changed], before);
  assertEquals(readdirSync(dir).sort(), files);
  for (const lock of held) lock.release();
});

test("inspect() does not disturb: a try beside it is granted every time", async ({ path, agent }) => {
  const [user, ...viewers] = await Promise.all([agent(), ...[ownKind, "node20" as const].map((kind) => agent(kind))]);
  await user.lock(path());
  await user.call("insist", { name: "lock" });
  const seen = await Promise.all(viewers.map((viewer) => viewer.call("looks", { path: path(), times: 20 })));
  const { granted, refused } = await user.call("desist");
  assertEquals(refused, 0);
  assert(granted > 10, `only ${granted}`);
  for (const states of seen) assertEquals(Object.keys(states).filter((state) => !/^(held|free)$/.test(state)), []);
});

test("inspect() does not take a dead holder's record with this process's number for its own shared hold, where the kernel does not list that", ({ path }) => {
  const dead = ownerOf(process.pid, { startTime: "1" }); // as in a container that was started anew
  leave(path(), dead);
  using lock = new Lock(path(), { mode: "shared" });
  assertEquals(lock.tryAcquire(), true);
  const unlisted = { ...system(), kernelLocks: () => undefined };
  const { state, mode, complete, holder } = inspectPath(unlisted, path());
  assertEquals([state, mode, complete, holder?.pid], ["held", undefined, false, process.pid]);
  assertEquals(holder?.startTime, system().self().startTime);
});

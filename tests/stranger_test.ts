/** A record is a claim: no process is signalled, and nobody is told to end it, because a file names it. */
import { chmodSync, chownSync, copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import process from "node:process";
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { Lock, LockHeldError, LockTimeoutError } from "../mod.ts";
import { proofOfOwner } from "../src/inspect/proof.ts";
import { whyNotToSignal } from "../src/hold/handover.ts";
import { hasLockOf } from "../src/inspect/holders.ts";
import { LockHolder } from "../src/record/record.ts";
import { system } from "../src/sys/mod.ts";
import type { System } from "../src/sys/contract.ts";
import { type Child, ownKind, type Place, test, within } from "./support/harness.ts";
import { failure } from "./support/lockers.ts";
import { asNobody, leave, ownerOf, recordIn, sleeper, stateOf, until } from "./support/pid_files.ts";
import { PYTHON } from "./support/needs.ts";

const SIGTERM = { signalHolder: "SIGTERM" } as const;
const NOBODY = 65534;

const isAlive = (pid: number) => "RSD".includes(stateOf(pid));
const isRunning = (pid: number, program: string) => readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith(program);

/** A process that holds the lock without a record, and that the kernel does not name: flock(1) took it for it. */
async function holdWithoutRecord({ child }: Place, file: string): Promise<Child> {
  const holder = child("bash", ["-c", 'exec 9<> "$0"; flock 9; echo granted; exec sleep 600', file]);
  assertEquals(await holder.line(), "granted", holder.errors);
  return holder;
}

/** Neither the wait's error nor that of a time that is up tells anybody to end the process; and it lives. */
async function assertSpared(pid: number, lock: Lock, why: string | RegExp, what: string): Promise<void> {
  const error = await within(8_000, assertRejects(() => lock.acquire(SIGTERM), LockHeldError));
  if (typeof why === "string") assertStringIncludes(error.message, why, what);
  else assert(why.test(error.message), `${what}: ${error.message}`);
  const late = await assertRejects(() => lock.acquire({ timeout: 0 }), LockTimeoutError);
  for (const { message } of [error, late]) assert(!message.includes(`"kill ${pid}"`), `${what}: ${message}`);
  assertEquals(isAlive(pid), true, what);
}

test("acquire({ signalHolder }) of another user does not signal a process that hides its files, whatever a record says", async (place) => {
  const { path, dir, child, agent } = place;
  chmodSync(dir, 0o755);
  writeFileSync(path(), "");
  chmodSync(path(), 0o666);
  // Executable and not readable, as a program that keeps keys may be: nobody but root may look at its files.
  copyFileSync("/bin/sleep", path("keeper"));
  chmodSync(path("keeper"), 0o711);
  const user = ["--reuid=nobody", "--regid=nogroup", "--clear-groups"];
  const keeper = child("setpriv", [...user, "env", path("keeper"), "600"]); // by env, because setpriv has root's rights
  await until("the keeper runs", () => isRunning(keeper.pid, path("keeper")));
  const waiter = await agent(ownKind, asNobody());
  await waiter.lock(path());
  const holder = await holdWithoutRecord(place, path());
  leave(path(), ownerOf(keeper.pid, { uid: NOBODY }));
  const error = await within(8_000, failure(waiter.call("acquire", { name: "lock", options: SIGTERM })));
  assertEquals(error.name, "LockHeldError");
  assertStringIncludes(error.message, "whose open files cannot be seen from here");
  const late = await failure(waiter.call("acquire", { name: "lock", options: { timeout: 0 } }));
  assert(!/kill \d/.test(late.message), late.message);
  assertEquals([isAlive(keeper.pid), isAlive(holder.pid)], [true, true]);
});

test("acquire({ signalHolder }) does not signal a process that has the file open, or had the lock, and has it no longer", async (place) => {
  const { path, child, agent } = place;
  const python = (script: string, file: string) => child(PYTHON, ["-uSEc", `import fcntl, os, sys\n${script}`, file]);
  // It took the lock, and only its child has it now.
  const taker = python(
    `file = os.open(sys.argv[1], os.O_RDWR)
fcntl.flock(file, fcntl.LOCK_EX)
if os.fork() == 0:
  print("granted")
  sys.stdin.read(); os._exit(0)
os.close(file)
sys.stdin.read()`,
    (writeFileSync(path("taker"), ""), path("taker")),
  );
  assertEquals(await taker.line(), "granted", taker.errors);
  await until("the taker has closed it", () => hasLockOf(system(), system().stat(path("taker"))!)(taker.pid) === false); // `!`: it is there
  await holdWithoutRecord(place, path("reader"));
  const reader = python('file = open(sys.argv[1]); print("open"); sys.stdin.read()', path("reader"));
  assertEquals(await reader.line(), "open");
  await holdWithoutRecord(place, path("waiter"));
  const waiter = await agent();
  await waiter.lock(path("waiter"));
  await waiter.call("begin", { name: "lock" }); // and keeps the file open
  await holdWithoutRecord(place, path("other"));
  const other = await agent();
  await other.lock(path("another"));
  assertEquals(await other.tryAcquire(), true);
  const named = { taker, reader, waiter, other };
  for (const [name, { pid }] of Object.entries(named)) leave(path(name), ownerOf(pid));
  await Promise.all(
    Object.entries(named).map(([name, { pid }]) =>
      assertSpared(
        pid,
        new Lock(path(name)),
        /is not proven: pid \d+ has no lock|it left no record of this library/,
        name,
      )
    ),
  );
});

test("acquire({ signalHolder }) signals the process that a PID file names only if no other user can have written that", async (place) => {
  const { path } = place;
  const made = (...parts: string[]) => {
    const directory = path(parts.join("/"));
    mkdirSync(directory, { recursive: true, mode: 0o755 });
    return directory;
  };
  const other = (file: string) => chownSync(file, NOBODY, NOBODY);
  /** What is done to a directory with a PID file, the file's name in it, and the words of the refusal. */
  const ways: Record<string, readonly [prepare: (dir: string, file: string) => void, why: string]> = {
    "file for all": [
      (_, file) => chmodSync(file, 0o666),
      'a.lock.pid" can be written by other users: its mode is 0666',
    ],
    "file for the group": [(_, file) => chmodSync(file, 0o664), "its mode is 0664"],
    "another's file": [(_, file) => other(file), `a.lock.pid" belongs to another user (uid ${NOBODY})`],
    "directory for all": [(dir) => chmodSync(dir, 0o777), '/d" can be written by other users: its mode is 0777'],
    "directory for the group": [(dir) => chmodSync(dir, 0o775), "its mode is 0775"],
    "sticky directory": [(dir) => chmodSync(dir, 0o1777), "its mode is 1777"], // a file of this user can be moved there
    "another's directory": [(dir) => other(dir), `/d" belongs to another user (uid ${NOBODY})`],
    "directory above for all": [(dir) => chmodSync(`${dir}/..`, 0o777), "its mode is 0777"],
    "another's directory above": [(dir) => other(`${dir}/..`), `belongs to another user (uid ${NOBODY})`],
  };
  const waits = Object.entries(ways).map(async ([name, [prepare, why]]) => {
    const directory = made(name, "d");
    const pid = sleeper(place);
    const file = `${directory}/a.lock.pid`;
    leave(file, ownerOf(pid));
    chmodSync(file, 0o644);
    prepare(directory, file);
    const lock = new Lock(`${directory}/a.lock`, { backend: "pidfile" });
    assertEquals(lock.tryAcquire(), false, name);
    await assertSpared(pid, lock, why, name);
  });
  await Promise.all(waits);
});

test("acquire({ signalHolder }) follows symlinks on the way to a PID file, and refuses another user's", async (place) => {
  const { path, child } = place;
  mkdirSync(path("d"), { mode: 0o755 });
  mkdirSync(path("links"));
  chmodSync(path("links"), 0o1777);
  symlinkSync(path("d"), path("links/ours"));
  symlinkSync("../links/ours/../d", path("links/twice"));
  symlinkSync("theirs", path("links/loop"));
  symlinkSync(path("d"), path("links/theirs"));
  await child("chown", ["-h", "nobody", path("links/theirs")]).ended;
  for (const link of ["ours", "twice"]) {
    const pid = sleeper(place);
    leave(path("d/a.lock.pid"), ownerOf(pid));
    const lock = new Lock(path(`links/${link}/a.lock`), { backend: "pidfile", onStale: () => {} });
    await within(8_000, lock.acquire(SIGTERM));
    lock.release();
  }
  const pid = sleeper(place);
  leave(path("d/a.lock.pid"), ownerOf(pid));
  for (const link of ["theirs", "loop"]) {
    const lock = new Lock(path(`links/${link}/a.lock`), { backend: "pidfile" });
    await assertSpared(pid, lock, `links/theirs" belongs to another user (uid ${NOBODY})`, link);
  }
});

test("proofOfOwner() does not believe a PID file on what is no local disk, or whose owner or mode is not known", ({ path }) => {
  const holder = new LockHolder(ownerOf(process.pid));
  leave(path("a.lock.pid"), holder);
  const sys = system();
  const proof = (other: Partial<System>) => proofOfOwner({ ...sys, ...other }, path(), holder);
  assertEquals(proof({}), true);
  const withStat = (more: object): Partial<System> => ({
    stat: (file) => {
      const stat = sys.stat(file);
      return stat &&
        { ...stat, kind: stat.kind, identity: stat.identity, inode: stat.inode, uid: 0, mode: 0o755, ...more };
    },
  });
  assertEquals(proof(withStat({})), true);
  for (
    const [what, other, why] of [
      ["nfs", { fileSystem: () => "nfs" }, "is not known to be on a local disk"],
      ["not told", { fileSystem: () => undefined }, "is not known to be on a local disk"],
      ["no user", { self: () => ({ ...sys.self(), uid: undefined }) }, "the user of this process is not known"],
      ["no owner", withStat({ uid: undefined }), "belongs to a user who is not known"],
      ["no mode", withStat({ mode: undefined }), "its mode is not known"],
    ] as [string, Partial<System>, string][]
  ) assertStringIncludes(String(proof(other)), why, what);
  const another = new LockHolder({ ...holder, nonce: "0".repeat(32) });
  assertStringIncludes(String(proofOfOwner(sys, path(), another)), "another one by now");
});

test("whyNotToSignal() looks at the start time at the very end, and takes nothing for proven that nothing proves", ({ path }) => {
  const lock = new Lock(path());
  assertEquals(lock.tryAcquire(), true);
  const holder = new LockHolder({ ...ownerOf(process.ppid), uid: undefined });
  const sys = system();
  const asked: string[] = [];
  /** The number becomes another process's after so many looks. */
  const reusedAfter = (looks: number): System => ({
    ...sys,
    processInfo(pid) {
      asked.push("look");
      return { ...sys.processInfo(pid), ...(asked.length > looks ? { startTime: "1" } : {}) };
    },
  });
  assertEquals(whyNotToSignal(reusedAfter(Infinity), { holder, proof: true }), undefined);
  const looks = asked.length;
  for (let i = 0; i < looks; i++) {
    asked.length = 0;
    assert(whyNotToSignal(reusedAfter(i), { holder, proof: true }), `after ${i} of ${looks} looks`);
  }
  for (const proof of [undefined, "a reason"] as const) {
    assertStringIncludes(whyNotToSignal(sys, { holder, proof }) ?? "", "is not proven: ");
  }
  assertEquals(recordIn(path()).pid, process.pid);
  lock.release();
});

test("whyNotToSignal() knows a holder whose host was renamed on a local disk only, and its own number in another namespace to be another's", () => {
  const sys = system();
  const holder = new LockHolder({ ...ownerOf(process.ppid), uid: undefined });
  const renamed: System = { ...sys, self: () => ({ ...sys.self(), host: "renamed" }) };
  const proof = true;
  assertEquals(whyNotToSignal(renamed, { holder, proof, fileSystem: "local" }), undefined);
  for (const fileSystem of [undefined, "nfs"]) {
    assertStringIncludes(whyNotToSignal(renamed, { holder, proof, fileSystem }) ?? "", "it runs on another host");
  }
  const own = ownerOf(process.pid), doubt = "it runs in another PID namespace";
  assertEquals(whyNotToSignal(sys, { holder: new LockHolder(own), proof }), "it is this very process");
  const other = new LockHolder({ ...own, pidNamespace: "4026539999" });
  assertEquals(whyNotToSignal(sys, { holder: other, proof, doubt }), doubt);
  // Without the doubt in words, as where a person asks.
  assertStringIncludes(whyNotToSignal(sys, { holder: other, proof }) ?? "", doubt);
});

test("hasLockOf() is not fooled by a file of the same number on another device, where the kernel shows neither's", () => {
  // Two subvolumes of one btrfs: /proc shows the file system's device for both, stat(2) one for each.
  const mounts = "36 25 0:47 / /mnt rw - btrfs /dev/vda rw\n";
  const stat = { kind: "file", identity: "48:257", inode: "257", size: 0, changed: 0 } as const;
  const locks = "1: FLOCK  ADVISORY  WRITE 7 00:2f:257 0 EOF\n";
  const seeing = (identity: string | undefined): System => ({
    ...system(),
    mounts: () => mounts,
    descriptorLocks: () => [{ fd: "3", locks }],
    descriptorStat: () => identity === undefined ? undefined : { ...stat, identity },
  });
  for (
    const [identity, vaguely, exactly] of [
      ["48:257", true, true],
      ["49:257", false, false],
      [undefined, true, false],
    ] as const
  ) {
    const sys = seeing(identity);
    assertEquals([hasLockOf(sys, stat)(7), hasLockOf(sys, stat, "exactly")(7)], [vaguely, exactly], identity);
  }
});

if (ownKind === "deno") {
  test("acquire({ signalHolder }) in Deno with --allow-ffi and one directory signals the holder of a kernel lock, and says what a PID file takes", async (place) => {
    const { dir, path, agent } = place;
    const checkout = fromFileUrl(new URL("../", import.meta.url));
    const flags = ["--allow-ffi", `--allow-read=${dir},${checkout}`, `--allow-write=${dir}`];
    for (const backend of ["flock", "pidfile"] as const) {
      const holder = await agent("bun");
      await holder.lock(path(backend), { backend });
      assertEquals(await holder.tryAcquire(), true);
      const waiter = await agent("deno", { flags });
      await waiter.lock(path(backend), { backend });
      const waiting = waiter.call("acquire", { name: "lock", options: SIGTERM });
      if (backend === "flock") {
        assertEquals(await within(8_000, waiting), true);
        assertEquals((await holder.ended).signal, "SIGTERM");
        continue;
      }
      const { name, message } = await within(8_000, failure(waiting));
      assertEquals(name, "LockHeldError");
      assertStringIncludes(message, 'pidfile.pid" cannot be seen: this process has no read permission for "/"');
      assertEquals(await holder.call("held", { name: "lock" }), true);
    }
  });
}

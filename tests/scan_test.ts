/** scan(): every lock in a directory, and nothing else; whatever happens there meanwhile. */
import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { Lock, LockError, type LockStatus, scan } from "../mod.ts";
import { type Kind, ownKind, type Place, test, within } from "./support/harness.ts";
import { needs, PYTHON } from "./support/needs.ts";
import { failure, openIn, snapshot } from "./support/lockers.ts";
import { deadOwner, ELSEWHERE, kinds, leave, nonce } from "./support/pid_files.ts";

/** What is told of each, by its name; the names in the order in which they were told. */
function byName(directory: string, statuses: LockStatus[]): Record<string, LockStatus> {
  for (const { path } of statuses) assert(path.startsWith(`${directory}/`), path);
  return Object.fromEntries(statuses.map((status) => [status.path.slice(directory.length + 1), status]));
}
const states = (directory: string, statuses: LockStatus[]) =>
  Object.fromEntries(Object.entries(byName(directory, statuses)).map(([name, { state }]) => [name, state]));

/** flock(1) that has a lock; it ends when its input does. */
async function byFlock({ child }: Place, path: string, ...options: string[]): Promise<number> {
  const command = child("flock", [...options, path, "sh", "-c", "echo granted; cat"]);
  assertEquals(await within(60_000, command.line()), "granted", command.errors);
  return command.pid;
}

test("scan() tells the state and the holder of every lock in a directory, in the order of their names", async (place) => {
  const { dir, path, agent } = place;
  const dead = await agent("bun");
  for (const backend of ["flock", "pidfile"]) {
    await dead.lock(path(`dead-${backend}.lock`), { backend }, backend);
    assertEquals(await dead.tryAcquire(backend), true);
  }
  await dead.kill();
  new Lock(path("free.lock")).acquireSync().release();
  const own = new Lock(path("own"), { label: "no suffix" }).acquireSync();
  const ownPidFile = new Lock(path("own-pidfile"), { backend: "pidfile" }).acquireSync();
  const reader = new Lock(path("reader.lock"), { mode: "shared" }).acquireSync();
  writeFileSync(path("command"), "the user's data\n");
  const command = await byFlock(place, path("command"));
  leave(path("elsewhere.lock.pid"), deadOwner(ELSEWHERE));
  leave(path("record-elsewhere"), deadOwner(ELSEWHERE));
  writeFileSync(path("damaged.lock.pid"), '4711\n{"holdfast":1');
  writeFileSync(path("bare.lock.pid"), "1\n");

  const told = scan(dir);
  assertEquals(told.map(({ path }) => path), told.map(({ path }) => path).sort());
  const all = byName(dir, told);
  assertEquals(
    Object.entries(all).map(([name, { state, backend, mode, holder }]) => [name, state, backend, mode, holder?.pid]),
    [
      ["bare.lock", "held", "pidfile", undefined, 1],
      ["command", "held", "flock", "exclusive", command],
      ["damaged.lock", "unknown", "pidfile", undefined, undefined],
      ["dead-flock.lock", "stale", "flock", "exclusive", dead.pid],
      ["dead-pidfile.lock", "stale", "pidfile", "exclusive", dead.pid],
      ["elsewhere.lock", "unknown", "pidfile", "exclusive", all["elsewhere.lock"].holder?.pid],
      ["free.lock", "free", undefined, undefined, undefined],
      ["own", "held", "flock", "exclusive", process.pid],
      ["own-pidfile", "held", "pidfile", "exclusive", process.pid],
      ["reader.lock", "held", "flock", "shared", process.pid],
      ["record-elsewhere", "unknown", "flock", "exclusive", all["record-elsewhere"].holder?.pid],
    ],
  );
  assertMatch(all["elsewhere.lock"].reason, /^it runs on another host/);
  // Each is told as inspect() tells it.
  for (const status of told) assertEquals(JSON.stringify(Lock.inspect(status.path)), JSON.stringify(status));
  for (const lock of [own, ownPidFile, reader]) lock.release();
});

test("scan() leaves out what is no lock, and what belongs to one", ({ dir, path }) => {
  const writer = new Lock(path("a.lock"), { journal: true }).acquireSync();
  writer.release();
  const pidFile = new Lock(path("b.lock"), { backend: "pidfile" }).acquireSync();
  const reader = new Lock(path("c.lock"), { mode: "shared" }).acquireSync();
  for (const name of ["data", "empty", "number"]) {
    writeFileSync(path(name), { data: "data\n", empty: "", number: "4711\n" }[name] ?? "");
  }
  writeFileSync(path("large.json"), "{}".repeat(10_000));
  writeFileSync(path("daemon.pid"), "1\n");
  // A takeover in the making, and one that was broken off.
  leave(path(`b.lock.pid.${nonce()}`), deadOwner());
  leave(path(`b.lock.pid.tmp-4711-${nonce()}`), deadOwner());
  leave(path("b.lock.pid.ino-4711-1700000000"), deadOwner());
  leave(path("b.lock.pid.ino-4711-1700000000-12"), deadOwner());
  mkdirSync(path("directory.lock"));
  writeFileSync(path("directory.lock/below.lock"), "");
  symlinkSync("a.lock", path("symlink.lock"));
  symlinkSync("nowhere", path("dangling.lock"));
  execFileSync("mkfifo", [path("fifo.lock")]);
  assertEquals(readdirSync(dir).includes("a.lock.journal"), true);
  assertEquals(states(dir, scan(dir)), { "a.lock": "free", "b.lock": "held", "c.lock": "held" });
  pidFile.release();
  reader.release();
  assertEquals(states(dir, scan(dir)), { "a.lock": "free", "c.lock": "free" });
});

test("scan() tells of a file called .pid that the kernel shows locked, as daemons lock theirs", async (place) => {
  const { dir, path } = place;
  writeFileSync(path("daemon.pid"), "1\n");
  const pid = await byFlock(place, path("daemon.pid"));
  const status = byName(dir, scan(dir))["daemon.pid"];
  assertEquals([status?.state, status?.holder?.pid], ["held", pid]);
});

for (const kind of kinds) {
  test(`scan() in ${kind} tells the same as inspect() there, and leaves nothing open`, async ({ dir, path, agent }) => {
    const [viewer, dead] = [await agent(kind), await agent("bun")];
    await dead.lock(path("stale.lock"));
    assertEquals(await dead.tryAcquire(), true);
    await dead.kill();
    const own = new Lock(path("held.lock")).acquireSync();
    const reader = new Lock(path("shared.lock"), { mode: "shared" }).acquireSync();
    const pidFile = new Lock(path("pid.lock"), { backend: "pidfile" }).acquireSync();
    writeFileSync(path("data"), "data\n");
    const before = [snapshot(path("held.lock")).changed, snapshot(dir).changed];
    const told: LockStatus[] = await viewer.call("scan", { directory: dir });
    assertEquals(Object.keys(states(dir, told)), ["held.lock", "pid.lock", "shared.lock", "stale.lock"]);
    for (const status of told) {
      const { phrases: _, ...one } = await viewer.call("look", { path: status.path });
      assertEquals(one, status);
    }
    assertEquals(openIn(dir, viewer.pid), 0);
    assertEquals([snapshot(path("held.lock")).changed, snapshot(dir).changed], before, "nothing was changed");
    for (const lock of [own, reader, pidFile]) lock.release();
  });
}

test("scan() shows names with newlines, blanks, emoji and a leading dot as they are", ({ dir, path }) => {
  const names = [
    " ",
    "-rf.lock",
    ".hidden.lock",
    "a\nb.lock",
    "two words.lock",
    "\u{1F512}.lock",
    `${"x".repeat(250)}.lock`,
  ];
  const locks = names.map((name) => new Lock(path(name)).acquireSync());
  const told = byName(dir, scan(dir));
  assertEquals(Object.keys(told).sort(), [...names].sort());
  for (const status of Object.values(told)) assertEquals([status.state, status.holder?.pid], ["held", process.pid]);
  for (const lock of locks) lock.release();
});

test("scan() says of a lock whose name is not UTF-8 that it is unknown, because no path can name it, and tells of the others", async ({ dir, path, agent }) => {
  const make = 'for name in "\\344.lock" "pid\\344.lock.pid" "data\\344"; do : > "$(printf "$name")"; done';
  execFileSync("sh", ["-c", make], { cwd: dir });
  mkdirSync(path("\ufffd.lock")); // the very name that the first one is shown by
  const lock = new Lock(path("a.lock")).acquireSync();
  for (const kind of kinds) {
    const told: LockStatus[] = await (await agent(kind)).call("scan", { directory: dir });
    assertEquals(told.map(({ path }) => path), ["a.lock", "pid\ufffd.lock", "\ufffd.lock"].map(path), kind);
    for (const { state, reason } of told.slice(1)) {
      assertEquals(state, "unknown");
      assertStringIncludes(reason, "its name is not UTF-8");
    }
  }
  lock.release();
});

test("scan() takes a relative path, a file URL and a slash at the end, and tells absolute paths", ({ dir, path }) => {
  const lock = new Lock(path("a.lock")).acquireSync();
  const before = process.cwd();
  const told = [scan(dir), scan(`${dir}/`), scan(`${dir}//`), scan(pathToFileURL(dir)), scan(pathToFileURL(`${dir}/`))];
  try {
    process.chdir(dir);
    told.push(scan("."), scan("./"));
    mkdirSync("below");
    process.chdir("below");
    told.push(scan(".."), scan("../"));
  } finally {
    process.chdir(before);
  }
  symlinkSync(dir, path("link"));
  for (const [i, statuses] of told.entries()) {
    const [{ path: one, state }] = statuses;
    assertEquals([statuses.length, state], [1, "held"]);
    assert(one.startsWith("/"), one);
    // `..` is left to the kernel, for what is before it may be a symlink.
    assertEquals(i < 7 ? one : snapshot(one).inode, i < 7 ? path("a.lock") : snapshot(path("a.lock")).inode);
  }
  assertEquals(scan(path("link")).map(({ path, state }) => [path, state]), [[path("link/a.lock"), "held"]]);
  lock.release();
});

test("scan() of the root does not throw", () => {
  for (const { path } of scan("/")) assertMatch(path, /^\/[^/]+$/);
});

test("scan() throws LockError for a directory that is missing, none, or closed, and says so", async ({ dir, path, agent }) => {
  writeFileSync(path("file"), "");
  for (const [name, code] of [["missing", "ENOENT"], ["missing/below", "ENOENT"], ["file", "ENOTDIR"]]) {
    const error = assertThrows(() => scan(path(name)), LockError);
    assertEquals([error.code, error.path], [code, path(name)]);
    assertStringIncludes(error.message, `Cannot scan ${JSON.stringify(path(name))}: ${code}`);
  }
  assertEquals(scan(dir), []);
  const blind = await agent("deno-no-ffi");
  const error = await failure(blind.call("scan", { directory: "/etc" }));
  assertEquals([error.name, error.code], ["LockError", "EACCES"]);
  assertStringIncludes(error.message, "--allow-read");
});

test("scan() throws TypeError for what is no path", () => {
  const wrong = ["", "a\0b", undefined, null, 7, {}, new URL("https://example.org/")];
  // The cast: JavaScript calls it with anything.
  for (const directory of wrong) assertThrows(() => scan(directory as string), TypeError, "Cannot scan a directory as");
});

test("scan() of another user asks the kernel about files that may not be read, and lists what it cannot see as unknown", async ({ dir, path, agent }) => {
  needs("root");
  // A process that has become another user can still use what its runtime has open; Deno cannot become one.
  const kind: Kind = ownKind === "deno" ? "node26" : ownKind;
  const user = await agent(kind);
  await user.call("scan", { directory: dir }); // loads what is loaded at the first use
  chmodSync(dir, 0o755);
  const lock = new Lock(path("held"), { fileMode: 0o600 }).acquireSync();
  writeFileSync(path("free.lock"), "data\n", { mode: 0o600 });
  writeFileSync(path("secret"), "", { mode: 0o600 });
  const pidFile = new Lock(path("hidden.lock"), { backend: "pidfile" }).acquireSync();
  chmodSync(path("hidden.lock.pid"), 0o600);
  mkdirSync(path("listed"), { mode: 0o755 });
  writeFileSync(path("listed/a.lock"), "");
  writeFileSync(path("listed/data"), "");
  chmodSync(path("listed"), 0o744);
  await user.call("become", { uid: 65534 });
  const told = byName(dir, await user.call("scan", { directory: dir }));
  assertEquals(Object.entries(told).map(([name, { state }]) => [name, state]), [
    ["free.lock", "free"],
    ["held", "held"],
    ["hidden.lock", "unknown"],
  ]);
  assertEquals(told.held.holder?.pid, process.pid);
  assertMatch(told["free.lock"].reason, /it may not be read/);
  assertMatch(told["hidden.lock"].reason, /EACCES|permission denied/i);
  const listed: LockStatus[] = await user.call("scan", { directory: path("listed") });
  assertEquals(states(path("listed"), listed), { "a.lock": "unknown" });
  lock.release();
  pidFile.release();
});

/** Makes, locks and deletes files as fast as it can, by all means there are. */
const CHURN = `import fcntl, itertools, os, sys
os.chdir(sys.argv[1])
print("up", flush=True)
for i in itertools.count():
    name = f"{i % 50}.lock"
    try:
        file = os.open(name, os.O_RDWR | os.O_CREAT)
        fcntl.flock(file, fcntl.LOCK_EX)
        os.write(file, b'%d\\n' % os.getpid())
        with open(f"{name}.pid", "w") as pid: pid.write("4711\\n")
        if i % 7 == 0: os.unlink(name)
        if i % 5 == 0: os.rename(f"{name}.pid", f"{name}.pid.ino-1-{i}")
        elif i % 3 == 0: os.unlink(f"{name}.pid")
        os.close(file)
        if i % 11 == 0:
            os.mkdir(f"{i}.d.lock"); os.symlink("nowhere", f"{i}.s.lock"); os.mkfifo(f"{i}.f.lock")
            os.rmdir(f"{i}.d.lock"); os.unlink(f"{i}.s.lock"); os.unlink(f"{i}.f.lock")
        if i % 400 == 0:
            for each in os.listdir("."):
                if each != "held.lock": os.unlink(each)
    except FileNotFoundError:
        pass
`;

test("scan() does not throw while files are made, locked, replaced and deleted, and does not miss a lock that is held all the time", async ({ dir, path, child, agent }) => {
  const own = new Lock(path("held.lock")).acquireSync();
  const [mad, viewers] = [child(PYTHON, ["-c", CHURN, dir]), await Promise.all(kinds.map((kind) => agent(kind)))];
  assertEquals(await mad.line(), "up", mad.errors);
  const scans = viewers.map((viewer) => viewer.call("scans", { directory: dir, milliseconds: 1_000 }));
  const end = performance.now() + 1_000;
  let seen = 0;
  while (performance.now() < end) {
    const status = byName(dir, scan(dir))["held.lock"];
    assertEquals([status?.state, status?.holder?.pid], ["held", process.pid], status?.reason);
    seen++;
    await new Promise((resolve) => setTimeout(resolve));
  }
  assert(seen > 0);
  for (const { times } of await Promise.all(scans)) assert(times > 0);
  assertEquals(mad.errors, "", "or it was over before");
  assertEquals(mad.process.exitCode, null);
  own.release();
});

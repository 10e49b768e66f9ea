/** What stands at the path, and how the path is written: CASES rows 22 to 25, 30 and 31. */
import { execFileSync } from "node:child_process";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import process from "node:process";
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { dirname, join, relative, toFileUrl } from "@std/path";
import { Lock, LockError } from "../mod.ts";
import { ownKind, SLOW, test, within } from "./support/harness.ts";
import { command, PYTHON } from "./support/needs.ts";
import { failure, parties, partyOf, snapshot, WITHOUT_FFI } from "./support/lockers.ts";

test("tryAcquire() refuses a symlink with ELOOP and leaves what it points to as it is", async (place) => {
  const { dir, path } = place;
  writeFileSync(path("data"), "precious\n");
  symlinkSync("data", path("link"));
  symlinkSync("missing", path("dangling"));
  const before = snapshot(path("data"));
  for (const party of await parties(place)) {
    for (const name of ["link", "dangling"]) {
      const lock = await party.lockAt(path(name));
      const error = await failure(lock.tryAcquire());
      assertEquals([error.name, error.code, error.path], ["LockError", "ELOOP", path(name)], party.kind);
      assertStringIncludes(error.message, "it is a symlink, and a lock file must be a regular file");
    }
  }
  assertThrows(() => Lock.inspect(path("link")), LockError, "ELOOP");
  assertEquals(snapshot(path("data")), before); // not even read
  assertEquals(readFileSync(path("data"), "utf8"), "precious\n");
  assertEquals(readlinkSync(path("link")), "data");
  assertEquals(readdirSync(dir).sort(), ["dangling", "data", "link"]);
});

const IRREGULAR = [
  ["FIFO", "fifo", (path: string) => void execFileSync("mkfifo", [path])],
  ["directory", "directory", (path: string) => mkdirSync(path)],
  ["socket", "socket", (path: string) => {
    execFileSync(command(PYTHON), [
      "-c",
      "import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])",
      path,
    ]);
  }],
  ["device", "device", undefined],
] as const;

for (const [name, kind, make] of IRREGULAR) {
  test(`tryAcquire() refuses a ${name} at once and never waits for it`, async ({ dir, path, agent }) => {
    const target = make ? path() : "/dev/null";
    make?.(target);
    const before = lstatSync(target);
    // In agents, because a call that hangs would take this process with it.
    for (const agentKind of [ownKind, ...WITHOUT_FFI]) {
      const party = partyOf(await agent(agentKind, { allow: `${dir},/dev/null,/dev/null.pid` }));
      const file = await party.lockAt(path("usual.lock"));
      const began = performance.now();
      assertEquals(await file.tryAcquire(), true);
      const usual = performance.now() - began;
      await file.release();
      const lock = await party.lockAt(target);
      let quickest = Infinity; // of three: the machine may be busy, but not with each of them
      for (let i = 0; i < 3; i++) {
        const start = performance.now();
        const error = await failure(within(60_000, lock.tryAcquire()));
        quickest = Math.min(quickest, performance.now() - start);
        assertEquals(error.name, "LockError", agentKind);
        assertStringIncludes(error.message, `it is a ${kind}, and a lock file must be a regular file`);
        assert(["EINVAL", "EISDIR", "ENXIO"].includes(String(error.code)), `${agentKind}: ${error.code}`);
      }
      assert(quickest < 100 * SLOW + 20 * usual, `${agentKind}: ${quickest} ms, and ${usual} ms for a file`);
    }
    const after = lstatSync(target);
    assertEquals([after.ino, after.mode], [before.ino, before.mode]);
  });
}

test("inspect() refuses a FIFO, and tryAcquire() one beside the lock file, without waiting for its other end", async (place) => {
  const { path, agent } = place;
  execFileSync("mkfifo", [path("fifo"), path("a.lock.pid")]);
  // In agents, because a call that hangs would take this process with it.
  for (const kind of [ownKind, ...WITHOUT_FFI]) {
    const process = await agent(kind);
    await process.lock(path("fifo"));
    const inspected = await failure(within(60_000, process.call("inspect", { name: "lock" })));
    assertEquals([inspected.name, inspected.code], ["LockError", "EINVAL"], kind);
    assertStringIncludes(inspected.message, "it is a fifo, and a lock file must be a regular file");
    const beside = await failure(within(60_000, (await partyOf(process).lockAt(path("a.lock"))).tryAcquire()));
    assertEquals([beside.name, beside.code], ["LockError", "EINVAL"], kind);
    assertStringIncludes(beside.message, `${JSON.stringify(path("a.lock.pid"))} is a fifo, not a file`);
  }
});

test("tryAcquire() locks a user's data file of 1 MiB, and each of its bytes stays", async (place) => {
  const { path } = place;
  const data = Uint8Array.from({ length: 2 ** 20 }, (_, i) => (i * 7919 >> 3) & 255);
  writeFileSync(path(), data);
  const { modified, changed } = snapshot(path());
  const intact = (when: string) => {
    const now = snapshot(path());
    assertEquals([now.modified, now.changed], [modified, changed], when);
    assert(readFileSync(path()).equals(data), when);
  };
  const all = await parties(place);
  for (const mode of ["exclusive", "shared"] as const) {
    for (const party of all) {
      const lock = await party.lockAt(path(), { mode });
      assertEquals(await lock.tryAcquire(), true);
      intact(`${party.kind} holds`);
      for (const other of all) {
        assertEquals(await (await other.lockAt(path())).tryAcquire(), false, `${other.kind} while ${party.kind} holds`);
      }
      intact(`${party.kind} holds and others were refused`);
      await lock.release();
      intact(`${party.kind} has released`);
    }
  }
});

test("tryAcquire() writes no record over content that is not a record", async (place) => {
  const { path } = place;
  const contents = [
    "hello\n",
    "123 apples",
    "4711\nhello\n",
    "0\n",
    "-1\n",
    '{"holdfast":1}',
    "\ufeff4711\n",
    "4711\r\n",
  ];
  const nulls = "\0".repeat(4097);
  for (const party of await parties(place)) {
    for (const content of [...contents, nulls]) {
      writeFileSync(path(), content);
      const lock = await party.lockAt(path());
      assertEquals(await lock.tryAcquire(), true);
      assertEquals(readFileSync(path(), "utf8"), content, `${party.kind} holds`);
      await lock.release();
      assertEquals(readFileSync(path(), "utf8"), content, `${party.kind} has released`);
    }
  }
});

test("tryAcquire() and acquire() name the directory that is missing, and do not wait for it", async (place) => {
  const { dir, path } = place;
  writeFileSync(path("file"), "");
  for (const party of await parties(place)) {
    const missing = await party.lockAt(path("no/such/a.lock"));
    for (const call of [() => missing.tryAcquire(), () => within(60_000, missing.acquire())]) {
      const error = await failure(call());
      assertEquals([error.name, error.code], ["LockError", "ENOENT"], party.kind);
      assertStringIncludes(error.message, `directory ${JSON.stringify(path("no/such"))} does not exist`);
    }
    const below = await party.lockAt(path("file/a.lock"));
    assertEquals((await failure(below.tryAcquire())).code, "ENOTDIR", party.kind);
    assertEquals(readdirSync(dir), ["file"]);
  }
});

test("new Lock() means the same lock by each way to write its path, also inside one process", async (place) => {
  const { dir, path } = place;
  mkdirSync(path("real"));
  symlinkSync("real", path("linked"));
  const file = join(dir, "real", "a.lock");
  const fromHere = relative(process.cwd(), file);
  const spellings: (string | URL)[] = [
    file,
    fromHere,
    `./${fromHere}`,
    `${dir}//real/../real/./a.lock`,
    path("linked/a.lock"),
    toFileUrl(file),
    new URL("linked/a.lock", toFileUrl(`${dir}/`)),
  ];
  for (const one of spellings) {
    const holder = new Lock(one);
    assertEquals(holder.tryAcquire(), true);
    for (const other of spellings) assertEquals(new Lock(other).tryAcquire(), false, `${other} while ${one} is held`);
    holder.release();
  }
  for (const kind of WITHOUT_FFI) {
    const agent = partyOf(await place.agent(kind, { cwd: path("real") }));
    for (const spelling of ["a.lock", "./a.lock", "../real/a.lock", file, path("linked/a.lock")]) {
      const holder = await agent.lockAt(spelling);
      assertEquals(await holder.tryAcquire(), true, `${kind} by ${spelling}`);
      for (const other of spellings) {
        assertEquals(new Lock(other).tryAcquire(), false, `${other}, ${kind} has ${spelling}`);
      }
      assertEquals(await (await agent.lockAt(file)).tryAcquire(), false);
      await holder.release();
    }
  }
  assertEquals(readdirSync(dirname(file)), ["a.lock"]);
});

test("new Lock() is a TypeError for an empty path and for one with a NUL", async (place) => {
  const { dir, path } = place;
  for (const party of await parties(place)) {
    for (const bad of ["", path("a\0b"), "\0", `${path()}\0`]) {
      const error = await failure(party.lockAt(bad));
      assertEquals(error.name, "TypeError", `${party.kind}: ${JSON.stringify(bad)}`);
    }
  }
  assertEquals(readdirSync(dir), []); // and not a file named as far as the NUL
});

test("tryAcquire() works on every file name that the system takes", async (place) => {
  const { path } = place;
  const longest = ["x".repeat(255), "é".repeat(127) + "n", "x".repeat(252), "x".repeat(251), "x".repeat(200)];
  const names = [...longest, "🔒.lock", "a\nb.lock", " ", "-rf", "'\"$(x)`;", "%00", "..lock", "\x1b[31m"];
  for (const party of await parties(place)) {
    for (const name of names) {
      const lock = await party.lockAt(path(name));
      assertEquals(await lock.tryAcquire(), true, `${party.kind}: ${JSON.stringify(name)}`);
      assertEquals(new Lock(path(name)).tryAcquire(), false, `${party.kind}: ${JSON.stringify(name)}`);
      assertEquals(readFileSync(path(name), "utf8").split("\n")[0], String(lock.pid));
      await lock.release();
    }
    assertEquals(readdirSync(place.dir).sort(), [...names].sort());
  }
});

test("tryAcquire() says ENAMETOOLONG for a path or a name that is too long", async (place) => {
  const { dir, path } = place;
  const long = join(dir, ...Array.from({ length: 25 }, () => "y".repeat(200)), "a.lock");
  assert(long.length > 5000);
  for (const party of await parties(place)) {
    for (const tooLong of [long, path("x".repeat(256)), path("é".repeat(128))]) {
      const error = await failure((await party.lockAt(tooLong)).tryAcquire());
      assertEquals([error.name, error.code, error.path], ["LockError", "ENAMETOOLONG", tooLong], party.kind);
    }
  }
  assert(!existsSync(path("y".repeat(200))));
});

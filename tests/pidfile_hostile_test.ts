/** What else can stand where a PID file or one of its links is expected: CASES rows 19 and 20. */
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync, unlinkSync, utimesSync, writeFileSync } from "node:fs";
import process from "node:process";
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { Lock } from "../mod.ts";
import { encode } from "../src/record/record.ts";
import { type Kind, ownKind, type Place, SLOW, test, within } from "./support/harness.ts";
import { command, PYTHON } from "./support/needs.ts";
import { failure, here, type Party, partyOf, snapshot } from "./support/lockers.ts";
import { deadOwner, ELSEWHERE, kinds, leave, names, nonce, ownerOf, recordIn, sleeper } from "./support/pid_files.ts";

const PIDFILE = { backend: "pidfile" } as const;
const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
const bytesOf = (content: string | Uint8Array) =>
  typeof content === "string" ? new TextEncoder().encode(content) : content;

/** Contents that name no owner. */
function damaged(): Record<string, string | Uint8Array> {
  const record = text(encode(deadOwner()));
  const nested = (value: unknown) => `4711\n${JSON.stringify({ holdfast: 1, pid: 4711, ...Object(value) })}\n`;
  return {
    ...Object.fromEntries(
      ["0", "-1", "+1", " 12 34", "99999999999", "1e3", "NaN", "2147483648", "0x10", "1\r", "1 "]
        .map((pid) => [`the PID ${JSON.stringify(pid)}`, `${pid}\n`]),
    ),
    "nothing": "",
    "five random bytes": new Uint8Array([0x9f, 0x03, 0xff, 0x00, 0x7a]),
    "half a record": record.slice(0, record.length >> 1),
    "a record but for its last byte": record.slice(0, -1),
    "half a JSON text": '{"pid": 47',
    "a MiB of zeros": new Uint8Array(2 ** 20),
    "invalid UTF-8": new Uint8Array([0x34, 0x37, 0xc3, 0x28, 0x0a]),
    "a path for a nonce": nested({ nonce: "../../x" }),
    "a long nonce": nested({ nonce: "a".repeat(3000) }),
    "a number for a nonce": nested({ nonce: 1 }),
    "another PID in its second line": nested({ pid: 1 }),
    "JSON a thousand deep": `4711\n{"holdfast":${"[".repeat(1000)}\n`,
  };
}

test("acquire() takes a damaged PID file for held at first, and for dead after 2 s", async ({ dir, path }) => {
  writeFileSync(path("aged.pid"), "");
  const contents = Object.entries(damaged());
  const waits = contents.map(async ([what, content], i) => {
    const file = path(`${i}.lock`);
    writeFileSync(`${file}.pid`, content);
    // A date in the past or the future, which anybody can give it, makes it no older or younger.
    if (i % 3 > 0) utimesSync(`${file}.pid`, new Date(0), new Date(i % 3 > 1 ? 0 : 4e12));
    const made = performance.now();
    const stale: unknown[] = [];
    const lock = new Lock(file, { ...PIDFILE, onStale: (holder) => stale.push(holder) });
    assertEquals(lock.tryAcquire(), false, what);
    assertEquals(new Lock(file).tryAcquire(), false, `${what}, by the kernel's lock`);
    assertMatch(
      (await failure(lock.acquire({ timeout: 0 }))).message,
      /is damaged, and so new that it may be in the making/,
    );
    assertEquals(new Uint8Array(readFileSync(`${file}.pid`)), bytesOf(content), what);
    await lock.acquire({ timeout: 60_000 * SLOW });
    const waited = performance.now() - made;
    assert(waited > 1900, `${what}: after ${waited} ms`);
    assertEquals(recordIn(`${file}.pid`).pid, process.pid, what);
    assertEquals(stale, [], `${what} names nobody who could have died`);
    lock.release();
  });
  await Promise.all(waits);
  const aged = new Lock(path("aged"), PIDFILE);
  assertEquals(aged.tryAcquire(), true); // it was old enough at the first look
  aged.release();
  assertEquals(names(dir).filter((name) => name.includes(".pid")), []);
});

for (const kind of kinds) {
  test(`acquire() in ${kind} takes over a damaged PID file, and a damaged link of a takeover, after 2 s`, async (place) => {
    const { dir, path } = place;
    // Deno without FFI cannot tell that an owner is dead, so nobody's takeover is left half done there.
    const roots = kind === "deno-no-ffi" ? ["file"] : ["file", "link"];
    await Promise.all(roots.map(async (root) => {
      const agent = await place.agent(kind);
      const owner = deadOwner();
      if (root === "link") leave(path(`${root}.pid`), owner);
      writeFileSync(path(root === "link" ? `${root}.pid.${owner.nonce}` : `${root}.pid`), "");
      const made = performance.now();
      await agent.lock(path(root), PIDFILE);
      assertEquals(await agent.tryAcquire(), false, root);
      await agent.call("acquire", { name: "lock", options: { timeout: 60_000 * SLOW } });
      const waited = performance.now() - made;
      assert(waited > 1900, `${root}: after ${waited} ms`);
      await agent.release();
    }));
    assertEquals(names(dir), []);
  });
}

test("inspect() of a damaged PID file changes nothing on disk", ({ dir, path }) => {
  writeFileSync(path("a.lock.pid"), "");
  const before = snapshot(dir).changed;
  assertMatch(Lock.inspect(path()).reason, /damaged/);
  assertEquals(snapshot(dir).changed, before);
});

const OBSTACLES: Record<string, (file: string, place: Place) => void> = {
  symlink: (file, { path }) => symlinkSync(path("precious"), file),
  "dangling symlink": (file, { path }) => symlinkSync(path("missing"), file),
  FIFO: (file) => void execFileSync("mkfifo", [file]),
  socket: (file) =>
    void execFileSync(command(PYTHON), [
      "-c",
      "import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])",
      file,
    ]),
  directory: (file) => mkdirSync(file),
};

for (const [what, make] of Object.entries(OBSTACLES)) {
  for (const where of ["the PID file", "a takeover's link"]) {
    test(`tryAcquire() throws LockError and names it where a ${what} stands for ${where}`, async (place) => {
      const { dir, path } = place;
      leave(path("precious"), deadOwner()); // as if what the symlink leads to could be taken over
      let obstacle = path("a.lock.pid");
      if (where === "a takeover's link") {
        const owner = deadOwner();
        leave(obstacle, owner);
        obstacle += `.${owner.nonce}`;
      }
      make(obstacle, place);
      const look = () => names(dir).map((name) => ({ ...snapshot(path(name)), name, accessed: "", changed: "" }));
      const before = look();
      const users: Kind[] = where === "the PID file" ? [...kinds] : kinds.filter((kind) => kind !== "deno-no-ffi");
      for (const kind of users) {
        const agent = await place.agent(kind); // a call that hangs would take this process with it
        await agent.lock(path(), PIDFILE);
        const error = await failure(within(60_000, agent.tryAcquire())); // what waits for a FIFO waits for ever
        assertEquals([error.name, error.path], ["LockError", path()], kind);
        assertMatch(String(error.code), /^(EINVAL|ELOOP|EISDIR|ENXIO)$/, kind);
        assertStringIncludes(error.message, obstacle);
        assertEquals(look(), before, kind);
      }
    });
  }
}

if (ownKind === "deno") {
  // With a permission for some paths only, Deno resolves a symlink itself, before the system could refuse it.
  for (const name of ["a.lock", "a.lock.pid"]) {
    test(`tryAcquire() in deno with FFI and rights to its folder refuses a symlink at ${name} with ELOOP`, async ({ dir, path, agent }) => {
      leave(path("precious"), deadOwner());
      const bytes = readFileSync(path("precious"), "utf8");
      const source = fromFileUrl(new URL("../", import.meta.url));
      const user = await agent("deno", {
        flags: ["--allow-ffi", `--allow-read=${dir},${source}`, `--allow-write=${dir}`],
      });
      for (const target of ["precious", "missing"]) {
        symlinkSync(path(target), path(name));
        for (const backend of name === "a.lock" ? ["flock", "pidfile"] : ["pidfile", "flock"]) {
          await user.lock(path(), { backend });
          const error = await failure(within(60_000, user.tryAcquire()));
          assertEquals([error.name, error.code, error.path], ["LockError", "ELOOP", path()], `${backend}, ${target}`);
        }
        assertEquals(names(dir).filter((each) => each !== "a.lock"), [...name === "a.lock" ? [] : [name], "precious"]);
        unlinkSync(path(name));
      }
      assertEquals(readFileSync(path("precious"), "utf8"), bytes);
    });
  }
}

for (const kind of kinds.filter((kind) => kind !== "deno-no-ffi")) {
  for (const length of [1, 2]) {
    test(`tryAcquire() in ${kind} ends where ${length} of a takeover's links lead in a circle`, async ({ path, agent }) => {
      const circle = Array.from({ length }, nonce);
      const owner = deadOwner();
      leave(path("a.lock.pid"), { ...owner, nonce: circle[0] });
      for (const [i, name] of circle.entries()) {
        leave(path(`a.lock.pid.${name}`), { ...owner, nonce: circle[(i + 1) % length] });
      }
      const user = await agent(kind);
      await user.lock(path(), PIDFILE);
      const error = await failure(within(60_000, user.tryAcquire()));
      assertEquals([error.name, error.path], ["LockError", path()], error.message);
    });
  }
}

test("tryAcquire() removes its own litter at a takeover, and nothing that looks like it", async (place) => {
  const { dir, path } = place;
  const [dead, live] = [deadOwner(), ownerOf(sleeper(place))];
  const parties: Party[] = [here, ...(await Promise.all(kinds.map((kind) => place.agent(kind)))).map(partyOf)];
  for (const party of parties.filter(({ kind }) => kind !== "deno-no-ffi")) {
    const litter = {
      [`a.lock.pid.${nonce()}`]: encode(deadOwner()),
      [`a.lock.pid.${nonce()} `.trim()]: encode(live), // whoever stands there fails at its second look
      [`a.lock.pid.tmp-${dead.pid}-${nonce()}`]: encode(dead),
      [`a.lock.pid.tmp-${deadOwner().pid}-${nonce()}`]: "",
    };
    const others = {
      "a.lock.pid.txt": "mine",
      "a.lock.pidx": "mine",
      "a.lock.pid.": "mine",
      "a.lock.pid.bak": encode(dead),
      "a.lock.pid.tmp-1-short": encode(dead),
      [`a.lock.pid.${nonce().slice(1)}`]: encode(dead),
      [`a.lock.pid.${nonce()}0`]: encode(dead),
      [`a.lock.pid.${nonce()}.txt`]: encode(dead),
      [`a.lock.pid.x${nonce()}`]: encode(dead),
      [`a.lock.pid.A${nonce().slice(1)}`]: encode(dead),
      [`a.lock.pid.tmp-${dead.pid}-${nonce().slice(1)}`]: encode(dead),
      [`a.lock.pid.tmp-${dead.pid}-${nonce()}.txt`]: encode(dead),
      [`a.lock.pid.tmp-0-${nonce()}`]: "",
      [`a.lock.pid.tmp-99999999999-${nonce()}`]: "",
      [`a.lock.pid.tmp-${live.pid}-${nonce()}`]: encode(live),
      [`a.lock.pid.tmp-${live.pid}-${nonce().slice(2)}00`]: "",
      [`a.lock.pid.tmp-${dead.pid}-${nonce().slice(2)}11`]: encode({ ...dead, ...ELSEWHERE }),
      [`b.lock.pid.${nonce()}`]: encode(dead),
      [`b.lock.pid.tmp-${dead.pid}-${nonce()}`]: encode(dead),
      [`x-a.lock.pid.${nonce()}`]: encode(dead),
      [`A.lock.pid.${nonce()}`]: encode(dead),
      "a.lock.pid-": "mine",
    };
    const folder = `a.lock.pid.${nonce()}`; // removing that takes more than unlink(2)
    mkdirSync(path(folder));
    for (const [name, content] of Object.entries({ ...litter, ...others })) writeFileSync(path(name), content);
    const before = Object.keys(others).map((name) => snapshot(path(name)));
    leave(path("a.lock.pid"), dead);
    const lock = await party.lockAt(path(), PIDFILE);
    assertEquals(await lock.tryAcquire(), true);
    assertEquals(names(dir), [...Object.keys(others), folder, "a.lock.pid"].sort(), party.kind);
    for (const [i, name] of Object.keys(others).entries()) {
      const { accessed: _, ...after } = snapshot(path(name));
      assertEquals({ ...after, accessed: before[i].accessed }, before[i], `${party.kind}: ${name}`);
    }
    await lock.release();
    for (const name of names(dir)) execFileSync("rm", ["-r", path(name)]);
  }
});

test("tryAcquire() by the kernel takes its own bare PID beside the file for its own, and its number in another PID namespace not", ({ path }) => {
  const pid = `${process.pid}\n`;
  const lock = new Lock(path(), { backend: "flock" });
  writeFileSync(path("a.lock.pid"), pid);
  assertEquals(lock.tryAcquire(), true);
  lock.release();
  writeFileSync(path("a.lock.pid"), `${pid}{"holdfast":1,"pid":${process.pid},"pidNamespace":"3"}\n`);
  assertEquals(lock.tryAcquire(), false);
});

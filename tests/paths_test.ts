/** Paths that only the kernel can resolve, and a current directory that is gone. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, symlinkSync } from "node:fs";
import process from "node:process";
import { assert, assertEquals, assertThrows } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { Lock, scan } from "../mod.ts";
import { history } from "../src/journal.ts";
import { ownKind, test, within } from "./support/harness.ts";
import { failure } from "./support/lockers.ts";
import { kinds, names } from "./support/pid_files.ts";

test("tryAcquire() with .. after a symlink locks the file that flock(1) locks", async ({ path, agent, child }) => {
  mkdirSync(path("far/away"), { recursive: true });
  symlinkSync(path("far/away"), path("link"));
  const file = `${path("link")}/../a.lock`; // far/a.lock, and not a.lock
  const stranger = child("flock", ["-F", "-n", file, "sh", "-c", "echo granted; exec cat"]);
  assertEquals(await stranger.line(), "granted");
  for (const kind of kinds) {
    const user = await agent(kind);
    await user.lock(file);
    assertEquals(await user.tryAcquire(), false, kind);
    assertEquals(await user.call("inspect", { name: "lock" }).then(({ path }) => path), file);
  }
  assertEquals(new Lock(path("far/a.lock")).tryAcquire(), false);
  stranger.close();
  await stranger.ended;
  const [lock, same] = [new Lock(file), new Lock(path("far/a.lock"))];
  assertEquals([lock.tryAcquire(), same.tryAcquire()], [true, false]);
  lock.release();
  assert(!existsSync(path()), "the other file, to which the path only looks as if it led, was made");
});

test("tryAcquire() with a relative path and .. after a symlink locks the file that flock(1) locks", async ({ dir, path, agent, child }) => {
  mkdirSync(path("far/away"), { recursive: true });
  symlinkSync(path("far/away"), path("link"));
  const user = await agent(ownKind, { cwd: dir });
  await user.lock("link/../a.lock");
  assertEquals(await user.tryAcquire(), true);
  assertEquals((await child("flock", ["-n", path("far/a.lock"), "true"]).ended).code, 1);
  assert(!existsSync(path()));
  await user.release();
});

if (ownKind === "deno") {
  // Unless everything is allowed, some of Deno's own calls take `link/..` for nothing, and others do not.
  const GRANTS: Record<string, (dir: string) => string[]> = {
    "FFI and rights to its folder": (dir) => ["--allow-ffi", `--allow-read=${dir},${source}`, `--allow-write=${dir}`],
    "rights to all files": () => ["--allow-read", "--allow-write"],
  };
  const source = fromFileUrl(new URL("../", import.meta.url));

  for (const [what, flags] of Object.entries(GRANTS)) {
    test(`tryAcquire() in Deno with ${what} and .. after a symlink means the same lock as in another runtime`, async ({ dir, path, agent }) => {
      mkdirSync(path("far/away"), { recursive: true });
      symlinkSync(path("far/away"), path("link"));
      const user = await agent("deno", { flags: flags(dir) });
      for (const backend of ["flock", "pidfile"] as const) {
        const other = new Lock(path("far/a.lock"), { backend });
        await user.lock(`${path("link")}/../a.lock`, { backend });
        assertEquals([await user.tryAcquire(), other.tryAcquire()], [true, false], backend);
        await user.release();
        assertEquals([other.tryAcquire(), await user.tryAcquire()], [true, false], backend);
        other.release();
      }
      assertEquals([names(dir), names(path("far"))], [["far", "link"], ["a.lock", "away"]]);
    });
  }
}

for (const kind of kinds) {
  test(`tryAcquire() in ${kind} with a relative path in a deleted directory throws LockError that names it`, async ({ dir, agent }) => {
    for (const backend of ["flock", "pidfile"]) {
      const user = await agent(kind);
      const options = { backend };
      const error = await failure(within(60_000, user.call("deed", { deed: "inDeletedDirectory", dir, options })));
      assertEquals([error.name, error.code], ["LockError", "ENOENT"], `${backend}: ${error.message}`);
      assert(error.message.startsWith('Cannot acquire "'), error.message);
    }
  });
}

test("new Lock() means the same file after chdir(), also with .. after a symlink", ({ dir, path }) => {
  mkdirSync(path("far/away"), { recursive: true });
  symlinkSync(path("far/away"), path("link"));
  const before = process.cwd();
  try {
    process.chdir(dir);
    const lock = new Lock("link/../a.lock");
    process.chdir(path("far/away"));
    assertEquals(lock.tryAcquire(), true);
    assertEquals(new Lock("../a.lock").tryAcquire(), false);
    lock.release();
    assert(existsSync(path("far/a.lock")));
  } finally {
    process.chdir(before);
  }
});

/** A folder whose name is an é of Latin-1, and a link to it: no runtime can call it by its name. */
function otherBytes(dir: string, path: (name: string) => string): string {
  execFileSync("sh", ["-c", 'mkdir "$(printf "caf\\351")" && ln -s "$(printf "caf\\351")" link'], { cwd: dir });
  return path("link");
}

test("new Lock() throws TypeError for a path that is not UTF-8 by the time it is text: its file would be another lock", ({ path }) => {
  const wrong = ["\ufffd", "\ud800", "\udc00", "\udc00\ud800"].map((name) => path(`${name}.lock`));
  for (const file of wrong) {
    for (const call of [() => new Lock(file), () => Lock.inspect(file), () => history(file), () => scan(file)]) {
      assertThrows(call, TypeError, "its path must be UTF-8");
    }
    assertThrows(
      () => new Lock(path(), { journal: file }),
      TypeError,
      "Cannot name a journal as its path must be UTF-8",
    );
  }
  for (const name of ["%EF%BF%BD", "%E9", "%ED%A0%80", "\ud800"]) {
    assertThrows(() => new Lock(new URL(`file://${path(name)}`)), TypeError, "must be UTF-8");
    assertThrows(() => scan(new URL(`file://${path(name)}/`)), TypeError, "must be UTF-8");
  }
  for (const name of ["\u{1f600}", "ä", "\ufeff", "\ufffc"]) assertEquals(new Lock(path(name)).path, path(name));
  assertEquals(new Lock(new URL("file:///tmp/%C3%A4")).path, "/tmp/ä");
});

test("new Lock() with a relative path throws TypeError in a directory whose name is not UTF-8; an absolute one is locked there", ({ dir, path }) => {
  const before = process.cwd();
  process.chdir(otherBytes(dir, path));
  try {
    assertThrows(() => new Lock("a.lock"), TypeError, "the current directory must be UTF-8");
    assertThrows(() => new Lock(path(), { journal: "j" }), TypeError, "the current directory must be UTF-8");
    assertThrows(() => scan("."), TypeError, "the current directory must be UTF-8");
    new Lock(path("link/a.lock")).acquireSync().release(); // by the link the kernel finds it
    assertEquals(readdirSync(path("link")), ["a.lock"]);
  } finally {
    process.chdir(before);
  }
  assertEquals(readdirSync(dir).length, 2, "nor was another directory made");
});

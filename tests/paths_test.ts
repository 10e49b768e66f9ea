/** Paths that only the kernel can resolve, and a current directory that is gone. */
import { existsSync, mkdirSync, symlinkSync } from "node:fs";
import process from "node:process";
import { assert, assertEquals } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { Lock } from "../mod.ts";
import { ownKind, test, within } from "./harness.ts";
import { failure } from "./lockers.ts";
import { kinds, names } from "./pid_files.ts";

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
      const error = await failure(within(10_000, user.call("deed", { deed: "inDeletedDirectory", dir, options })));
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

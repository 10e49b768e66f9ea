/** File systems through which two can hold one lock, and neither gets an error. */
import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { Lock, LockError, LockUnsupportedError } from "../../mod.ts";
import { Choice } from "../../src/backend/choice.ts";
import { reachOf } from "../../src/sys/mounts.ts";
import { placeOf } from "../../src/record/place.ts";
import { system } from "../../src/sys/mod.ts";
import { fileSystemName, NOT_LOCAL } from "../../src/sys/statfs.ts";
import type { System } from "../../src/sys/contract.ts";
import { CLI, holdfast } from "../support/cli.ts";
import { type Agent, KINDS, type Place, test } from "../support/harness.ts";
import { needs } from "../support/needs.ts";

/** A system whose statfs(2) and table of mounts say this. Device 0:47 is where all of its files are. */
const on = (type: string | undefined, mounts?: string): System => ({
  ...system(),
  fileSystem: () => type,
  stat: (path) => ({ ...system().stat("/")!, identity: `${47}:1`, inode: path }), // `!`: the root is there
  mounts: () => mounts && `22 1 254:0 / / rw - ext4 /dev/vda rw\n36 25 0:47 / /mnt rw,nosuid shared:5 - ${mounts}\n`,
});

test("placeOf() gives a terminal no escape sequence that a mount has in its name", () => {
  const place = placeOf(on("fuse", "fuse.bindfs /srv\x1b[2J\u202e rw"), "/mnt/a.lock");
  assertEquals(typeof place === "object" && place.where, String.raw`fuse.bindfs (/srv\u001b[2J\u202e) at /mnt`);
});

test("placeOf() finds out which mounts may grant one lock twice", () => {
  for (
    const [type, mounts, expected] of [
      ["local", "ext4 /dev/vda rw", undefined],
      [undefined, undefined, "unknown"],
      ["fuse", "fuseblk /dev/sdb1 rw", undefined], // ntfs-3g: a disk of this machine
      ["fuse", "fuse.sshfs me@host:/srv rw", true],
      ["fuse", "fuse.bindfs /srv rw", true],
      ["fuse", "virtiofs shared rw", true],
      ["fuse", "fuse.glusterfs server:/v rw", false],
      ["fuse", "fuseblk.ntfs /dev/sdb1 rw", undefined],
      // No table of mounts: the worse case.
      ["fuse", undefined, true],
      ["nfs", undefined, true],
      ["cifs", undefined, true],
      ["lustre", undefined, true],
      ["nfs", "nfs4 server:/srv rw,vers=4.2,local_lock=none", false],
      ["nfs", "nfs server:/srv rw,vers=3,local_lock=none", false],
      ["nfs", "nfs server:/srv rw,nolock", true],
      ["nfs", "nfs server:/srv rw,vers=3,local_lock=flock", true],
      ["nfs", "nfs server:/srv rw,vers=3,local_lock=all", true],
      ["nfs", "nfs server:/srv rw,vers=3,local_lock=posix", false],
      ["cifs", "cifs //server/share rw", true],
      ["cifs", "cifs //server/share rw,nobrl", true],
      ["9p", "9p host rw,trans=virtio", true],
      // By the number it is not local, and of that type of mount nobody here has heard.
      ["gpfs", "mmfs gpfs0 rw", false],
      ["9p", "gofer none rw", true],
    ] as const
  ) {
    const place = placeOf(on(type, mounts), "/mnt/a.lock");
    assertEquals(typeof place === "object" ? place.both : place, expected, `${type}: ${mounts}`);
  }
  const place = placeOf(on("nfs", "nfs4 server:/srv rw"), "/mnt/a.lock");
  assertEquals(typeof place === "object" && place.where, "nfs4 (server:/srv) at /mnt");
});

test("placeOf() names the mount that the path lies in, not another of the same file system", () => {
  const type = "fuse.sshfs me@host:/srv rw";
  const sys = on("fuse", `${type}\n37 25 0:47 /b /home/me/b rw - ${type}`);
  const where = (path: string) => {
    const place = placeOf(sys, path);
    return typeof place === "object" && place.where;
  };
  assertEquals(where("/mnt/a.lock"), "fuse.sshfs (me@host:/srv) at /mnt");
  assertEquals(where("/home/me/b/a.lock"), "fuse.sshfs (me@host:/srv) at /home/me/b");
  assertEquals(where("/link/a.lock"), "fuse.sshfs (me@host:/srv) at /home/me/b"); // one of them
});

test("placeOf() has words for every file system that statfs(2) tells", () => {
  for (const [number, name] of Object.entries(NOT_LOCAL)) {
    assert(reachOf(name), name);
    assertEquals(fileSystemName(Number(number) | 0), name, "some C libraries show the number signed");
  }
  assertEquals(fileSystemName(0xef53), "local");
  assertEquals(fileSystemName(0x12345), undefined, "what nobody here knows is not taken for local");
  // Those that coreutils' stat.c marks "remote" and Linux's own header does not have; a host's directory in its guest.
  const others = [0xaad7aaea, 0xbeefdead, 0x61636673, 0x013111a8, 0xa501fcf5, 0x564c, 0x20030528, 0x00c0ffee];
  assertEquals(others.map(fileSystemName).filter((name) => name === "local"), []);
});

/** One folder by two FUSE mounts that keep flock(2) to themselves, in a mount namespace that ends with this test. */
async function twoMounts({ child, dir }: Place): Promise<{ by: string[] }> {
  needs("bindfs", "/dev/fuse");
  for (const name of ["real", "one", "two"]) mkdirSync(`${dir}/${name}`);
  const script = 'cd "$0"; bindfs real one; bindfs real two; echo mounted; exec cat';
  const holder = child("unshare", ["-m", "sh", "-euc", script, dir]);
  assertEquals(await holder.line(), "mounted", holder.errors);
  return { by: ["nsenter", "-t", String(holder.pid), "-m"] };
}

/** All that it wrote to standard error, in lines. */
async function errorsOf(agent: Agent): Promise<string[]> {
  const closed = once(agent.process, "close");
  await agent.kill();
  await closed;
  return agent.errors.split("\n").filter((line) => line !== "");
}

test("acquire() tells once that a FUSE mount keeps its locks to itself, as inspect() does, and fileSystem: local refuses", async (place) => {
  const { path } = place;
  const { by } = await twoMounts(place);
  for (const kind of KINDS) {
    const agent = await place.agent(kind, { by });
    for (const name of ["one/a.lock", "two/a.lock", "one/b.lock"]) await agent.lock(path(name), {}, name);
    // What it is all about: the same file, held twice.
    assertEquals([await agent.tryAcquire("one/a.lock"), await agent.tryAcquire("two/a.lock")], [true, true], kind);
    assertEquals(await agent.tryAcquire("one/b.lock"), true);
    const { reason, complete } = await agent.call("inspect", { name: "one/a.lock" });
    // Held exclusively, and twice: who cannot ask about the file system does not know of that.
    assertEquals(complete, kind === "deno-no-ffi", kind);
    await agent.lock(path("one/local.lock"), { fileSystem: "local" });
    const refused = await agent.tryAcquire().catch((error) => error);
    assertEquals(refused.name, "LockUnsupportedError", kind);
    assertEquals(existsSync(path("real/local.lock")), false, "it was made all the same");
    const lines = await errorsOf(agent);
    if (kind === "deno-no-ffi") { // it may not ask
      assertMatch(refused.message, /is not known here: .*--allow-sys=statfs/);
      assertEquals(lines, []);
      continue;
    }
    assertMatch(refused.message, /it is on fuse.* which is no local disk: its program decides.*fileSystem: "local"/);
    assertMatch(reason, /It is on fuse.*its program decides what flock\(2\) means/);
    assertEquals(lines.length, 2, agent.errors);
    for (const [i, mount] of ["one", "two"].entries()) {
      assertMatch(
        lines[i],
        /^holdfast: ".*a\.lock" is on fuse .*another mount of the same files is not excluded\. Use/,
      );
      assertStringIncludes(lines[i], path(mount));
    }
  }
});

test("scan() tells of a FUSE mount what inspect() tells", async (place) => {
  const { by } = await twoMounts(place);
  const agent = await place.agent("bun", { by });
  await agent.lock(place.path("one/a.lock"));
  assertEquals(await agent.tryAcquire(), true);
  const [{ reason }] = await agent.call("scan", { directory: place.path("one") });
  assertMatch(reason, /\. It is on fuse.*its program decides what flock\(2\) means/);
  assertEquals(reason, (await agent.call("inspect", { name: "lock" })).reason);
});

test("acquire() with fileSystem: any says nothing, and with local takes a local disk, in each kind", async (place) => {
  const { path, dir } = place;
  const { by } = await twoMounts(place);
  for (const kind of KINDS) {
    const flags = ["--allow-sys=statfs", `--allow-read=${dir},${new URL("../..", import.meta.url).pathname}`];
    const options = kind === "deno-no-ffi" ? { by, flags: [...flags, `--allow-write=${dir}`] } : { by };
    const agent = await place.agent(kind, options);
    await agent.lock(path("one/any.lock"), { fileSystem: "any" }, "any");
    await agent.lock(path("local.lock"), { fileSystem: "local" });
    assertEquals([await agent.tryAcquire("any"), await agent.tryAcquire()], [true, true], kind);
    await agent.lock(path("missing/a.lock"), { fileSystem: "local" }, "missing");
    const { code, message } = await agent.tryAcquire("missing").catch((error) => error);
    assertEquals(code, "ENOENT", message);
    await agent.release("any");
    assertEquals(await errorsOf(agent), []);
  }
});

test("acquire() sees what was mounted where its file was: local refuses, and the default tells", async (place) => {
  const { path } = place;
  const { by: [nsenter, ...where] } = await twoMounts(place);
  mkdirSync(path("late"));
  const agent = await place.agent("bun", { by: [nsenter, ...where] });
  for (const fileSystem of ["local", "warn"]) {
    await agent.lock(path("late/a.lock"), { fileSystem }, fileSystem);
    assertEquals(await agent.tryAcquire(fileSystem), true);
    await agent.release(fileSystem);
  }
  const mounted = spawnSync(nsenter, [...where, "mount", "--bind", path("one"), path("late")], { encoding: "utf8" });
  assertEquals(mounted.status, 0, mounted.stderr);
  const refused = await agent.tryAcquire("local").catch((error) => error);
  assertEquals(refused.name, "LockUnsupportedError", String(refused));
  assertEquals(existsSync(path("real/a.lock")), false, "it was made all the same");
  assertEquals(await agent.tryAcquire("warn"), true);
  const lines = await errorsOf(agent);
  assertEquals(lines.length, 1, agent.errors);
  assertMatch(lines[0], /^holdfast: ".*late.a\.lock" is on fuse /);
});

test("acquire() in Deno does not fail because a line for people finds no room on standard error", async (place) => {
  const { path } = place;
  const { by } = await twoMounts(place);
  const full = [...by, "sh", "-c", 'exec "$@" 2>/dev/full', "sh"];
  writeFileSync(path("real/a.lock"), "2147483632\n"); // no process has that number
  const agent = await place.agent("deno", { by: full });
  await agent.lock(path("one/a.lock"), { journal: path("missing/journal") });
  assertEquals(await agent.tryAcquire(), true);
});

test("attempt() with fileSystem: local gives back what it was granted on what was mounted meanwhile", ({ path }) => {
  const types = ["local", "fuse"];
  const sys: System = { ...system(), fileSystem: () => types.shift(), mounts: () => undefined };
  const choice = new Choice(() => sys, { backend: "auto", fileSystem: "local" });
  const request = { path: path(), mode: "exclusive", fileMode: 0o644 } as const;
  assertThrows(() => choice.attempt(request), LockUnsupportedError, "it is on fuse, which is no local disk");
  const lock = new Lock(path());
  assertEquals(lock.tryAcquire(), true);
  lock.release();
});

test("acquire() with fileSystem: local blames what is no directory, and not statfs(2)", ({ path }) => {
  writeFileSync(path("file"), "");
  const lock = new Lock(path("file/a.lock"), { fileSystem: "local" });
  assertEquals((assertThrows(() => lock.tryAcquire(), LockError) as LockError).code, "ENOTDIR"); // checked by assertThrows
});

test("holdfast run --local refuses a FUSE mount with 69, and --quiet says nothing of it", async (place) => {
  const { by } = await twoMounts(place);
  const run = (...args: string[]) => holdfast(place, "bun", ["run", ...args, "true"], { by });
  const path = place.path("one/a.lock");
  const [refused, quiet, told] = [await run("--local", path), await run("-q", path), await run(path)];
  assertEquals([refused.code, quiet.code, told.code], [69, 0, 0], CLI.bun().join(" "));
  assertMatch(refused.err, /which is no local disk/);
  assertEquals(quiet.err, "");
  assertMatch(told.err, /^holdfast: ".*" is on fuse/);
});

/** What only Node has: its permission model, its warning of too many listeners, and flock(1) on the PATH. */
import { chmodSync, copyFileSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import process from "node:process";
import { assertEquals, assertMatch } from "@std/assert";
import { Lock } from "../../mod.ts";
import { test, within } from "../support/harness.ts";
import { failure } from "../support/lockers.ts";

for (const [kind, flag] of [["node26", "--permission"], ["node20", "--experimental-permission"]] as const) {
  const NODE_OPTIONS = `${flag} --allow-fs-read=* --allow-fs-write=*`;

  test(`tryAcquire() in ${kind} with ${flag} and nothing but files allowed takes the PID file, or says what is not to be had`, async ({ dir, path, agent }) => {
    const [user, twin] = [await agent(kind, { env: { NODE_OPTIONS } }), await agent(kind, { env: { NODE_OPTIONS } })];
    for (const each of [user, twin]) await each.lock(path());
    assertEquals([await user.tryAcquire(), await twin.tryAcquire()], [true, false]);
    const { backend, reason } = await user.call("backend", { name: "lock" });
    assertEquals(backend, "pidfile", reason);
    assertEquals(new Lock(path()).tryAcquire(), false);
    await user.release();
    const kernel = new Lock(path(), { backend: "flock" }).acquireSync();
    assertEquals(await twin.tryAcquire(), false);
    kernel.release();
    assertEquals(await twin.tryAcquire(), true);
    await twin.release();
    assertEquals(readdirSync(dir), ["a.lock"]);
    for (const options of [{ backend: "flock" }, { mode: "shared" }]) {
      await user.lock(path(), options);
      const error = await failure(user.tryAcquire());
      assertEquals([error.name, error.code, error.path], ["LockUnsupportedError", "ENOTSUP", path()], error.message);
      assertMatch(error.message, /may not|permission|restricted|--allow-/i);
    }
  });

  test(`tryAcquire() in ${kind} with ${flag} throws LockError where a folder may not be written`, async ({ path, agent }) => {
    const user = await agent(kind, { env: { NODE_OPTIONS: `${flag} --allow-fs-read=*` } });
    for (const backend of ["auto", "flock", "pidfile"]) {
      await user.lock(path(), { backend });
      const error = await failure(user.tryAcquire());
      assertMatch(error.name, /^Lock\w*Error$/, error.message);
      assertEquals(error.path, path());
    }
  });
}

test("tryAcquire() in node26 with --permission and --allow-ffi stays within the folders that are allowed", async ({ path, agent }) => {
  mkdirSync(path("allowed"));
  mkdirSync(path("other"));
  const here = new URL("../../", import.meta.url).pathname;
  const allow = [
    `--allow-fs-read=${here}*`,
    `--allow-fs-read=${path("allowed")}/*`,
    `--allow-fs-write=${path("allowed")}/*`,
  ];
  const user = await agent("node26", { env: { NODE_OPTIONS: `--permission --allow-ffi ${allow.join(" ")}` } });
  await user.lock(path("allowed/a.lock"));
  assertEquals(await user.tryAcquire(), true);
  await user.lock(path("other/a.lock"), {}, "other");
  const error = await failure(user.tryAcquire("other"));
  assertEquals([error.name, error.code], ["LockError", "EACCES"], error.message);
  assertEquals(readdirSync(path("other")), []);
});

test("acquire() in node20 50 times on one signal gives no warning of too many listeners", async ({ path, agent }) => {
  const user = await agent("node20"); // Node 26 gives none in any case
  const holder = new Lock(path()).acquireSync();
  const ends = await within(60_000, user.call("deed", { deed: "manyWaits", path: path(), times: 50 }));
  assertEquals(ends, Array(50).fill("enough"));
  user.close();
  await within(60_000, user.ended);
  assertEquals(user.errors, "");
  holder.release();
});

test("tryAcquire() in node20 takes a flock(1) that has no option for an exclusive lock, as macOS and FreeBSD may have", async ({ dir, path, agent }) => {
  // discoteq's flock, src/flock.c: getopt(argc, argv, "+suonw:"), and 64 for what is not among them.
  const script = `#!/bin/sh
for option; do
  case $option in
    -[!suonw]*) echo "usage: flock [-suno] [-w secs] <file-descriptor-number>" >&2; exit 64 ;;
  esac
done
exec ${dir}/real "$@"
`;
  copyFileSync("/usr/bin/flock", path("real"));
  writeFileSync(path("flock"), script);
  chmodSync(path("flock"), 0o755);
  const instead = `mount --bind ${path("flock")} /usr/bin/flock && exec "$@"`;
  const by = ["unshare", "-m", "sh", "-c", instead, "sh"];
  const [user, twin] = [await agent("node20", { by }), await agent("node20", { by })];
  for (const each of [user, twin]) await each.lock(path(), { backend: "flock" });
  assertEquals([await user.tryAcquire(), await twin.tryAcquire()], [true, false]);
  assertEquals(new Lock(path()).tryAcquire(), false);
  await user.release();
  for (const each of [user, twin]) await each.lock(path(), { backend: "flock", mode: "shared" }, "shared");
  assertEquals([await user.tryAcquire("shared"), await twin.tryAcquire("shared")], [true, true]);
});

test("tryAcquire() in node20 is not misled by a directory on the PATH that is called flock", async ({ dir, path, agent }) => {
  mkdirSync(path("bin/flock"), { recursive: true });
  const user = await agent("node20", { env: { PATH: `${dir}/bin:${process.env.PATH}` } });
  await user.lock(path(), { backend: "flock" });
  assertEquals(await user.tryAcquire(), true);
  assertEquals(new Lock(path()).tryAcquire(), false);
  await user.release();
});

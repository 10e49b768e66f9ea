/** What the command line says of a path that cannot be a lock, or that this user may not use: to whom, and where. */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { asNobody, FFI_KINDS, holdfast } from "../support/cli.ts";
import { type Place, test } from "../support/harness.ts";
import { needs } from "../support/needs.ts";
import { deno } from "../support/tools.ts";

const USER = "this user (uid 65534)";

/** A directory of root with a lock file in it. */
function directory({ path }: Place, name: string, mode: number): string {
  mkdirSync(path(name));
  writeFileSync(path(`${name}/a.lock`), "");
  chmodSync(path(name), mode);
  return path(name);
}

for (const kind of FFI_KINDS) {
  test(`holdfast status and run in ${kind} say alike what stands where a lock file should, and the path once`, async (place) => {
    const { path } = place;
    mkdirSync(path("directory.lock"));
    symlinkSync("nowhere", path("link.lock"));
    writeFileSync(path("file"), "");
    for (
      const [file, words] of [
        [path("directory.lock"), "EISDIR: it is a directory, and a lock file must be a regular file"],
        [path("link.lock"), "ELOOP: it is a symlink, and a lock file must be a regular file"],
        [path("file/a.lock"), `ENOTDIR: "${path("file")}" is not a directory`],
      ]
    ) {
      const status = await holdfast(place, kind, ["status", file]);
      assertEquals([status.code, status.out.split("\n")[2]], [3, `unknown: ${file}: ${words}`]);
      const run = await holdfast(place, kind, ["run", "-n", file, "true"]);
      assertEquals([run.code, run.err], [66, `holdfast: Cannot acquire "${file}": ${words}\n`]);
    }
  });
}

test("holdfast names the directory that denies it, and the user who is denied", async (place) => {
  const closed = directory(place, "closed", 0o700), listed = directory(place, "listed", 0o744);
  const entered = directory(place, "entered", 0o711);
  const readable = directory(place, "readable", 0o755);
  mkdirSync(`${closed}/below`);
  const enter = (directory: string) =>
    `EACCES: ${USER} may not enter the directory "${directory}"; its owner can allow`;
  for (
    const [args, code, words] of [
      [["status", `${closed}/a.lock`], 3, enter(closed)],
      [["status", `${closed}/below/a.lock`], 3, enter(closed)],
      [["run", "-n", `${closed}/a.lock`, "true"], 66, enter(closed)],
      [["break", `${closed}/a.lock`], 66, enter(closed)],
      [["history", `${closed}/a.lock`], 66, enter(closed)],
      [["list", `${closed}/below`], 66, enter(closed)],
      [["list", closed], 66, enter(closed)],
      [["list", entered], 66, `EACCES: ${USER} may not list it; its owner can allow that`],
      [["list", `${readable}/a.lock`], 66, `ENOTDIR: "${readable}/a.lock" is not a directory`],
      [["list", listed], 3, enter(listed)],
      [["run", "-n", `${readable}/b.lock`, "true"], 66, `cannot be made in "${readable}": ${USER} may not make files`],
    ] as const
  ) {
    const { code: status, out, err } = await asNobody(place, args);
    const said = `${out}${err}`;
    assertEquals(status, code, said);
    assertStringIncludes(said, words);
    assertEquals(said.match(/EACCES|ENOTDIR/g)?.length, 1, said);
    assertMatch(said, /^[^']*$/, "the runtime's own words");
  }
  chmodSync(`${readable}/a.lock`, 0o600);
  const unreadable = await asNobody(place, ["run", "-n", `${readable}/a.lock`, "true"]);
  assertStringIncludes(unreadable.err, `EACCES: ${USER} may not open it`);
});

test("holdfast says which directory the lock directory cannot be made in, and of one that is closed not that it is empty", async (place) => {
  const run = await asNobody(place, ["run", "-n", "nightly", "true"]);
  assertEquals(run.code, 66);
  assertStringIncludes(
    run.err,
    `its directory "${place.dir}/named" cannot be made: ${USER} may not make anything in "${place.dir}"`,
  );
  mkdirSync(place.path("named"), { mode: 0o700 });
  const list = await asNobody(place, ["list"]);
  assertEquals([list.code, list.out], [66, ""]);
});

/** What the doctor finds for a path as user 65534: the weight of each, and all of it as text. */
async function diagnosed(place: Place, path: string) {
  const { code, out, err } = await asNobody(place, ["doctor", "--json", path]);
  assertEquals(err, "");
  const { findings } = JSON.parse(out);
  const levels = Object.fromEntries(findings.map(({ about, level }: Record<string, string>) => [about, level]));
  return { code, levels, out };
}

test("holdfast doctor tells of a directory that this user may not enter, with all that it found before, and never throws", async (place) => {
  for (const [name, mode] of [["closed", 0o700], ["listed", 0o744]] as const) {
    const at = directory(place, name, mode);
    const { code, levels, out } = await diagnosed(place, `${at}/a.lock`);
    assertEquals([code, levels.runtime, levels.cleaners !== undefined, levels.permissions], [2, "ok", true, "error"]);
    assertMatch(out, /this user \(uid 65534\) may not enter it/);
    const below = await diagnosed(place, `${at}/below/a.lock`);
    assertEquals([below.code, below.levels], [2, { runtime: "ok", directory: "error" }]);
    assertStringIncludes(below.out, JSON.stringify(`may not enter the directory "${at}"`).slice(1, -1));
  }
  writeFileSync(place.path("file"), "");
  assertEquals((await diagnosed(place, place.path("file/a.lock"))).levels, { runtime: "ok", directory: "error" });
});

test("holdfast doctor agrees with run where the lock file is there and its directory may not be written", async (place) => {
  const at = directory(place, "shared", 0o755);
  for (
    const [name, mode, lock, selfTest, code, ran] of [
      ["a.lock", 0o666, "ok", "warning", 1, 0],
      ["a.lock", 0o644, "ok", "warning", 1, 0],
      ["a.lock", 0o600, "error", undefined, 2, 66],
      ["none.lock", undefined, "ok", "error", 2, 66],
    ] as const
  ) {
    const path = `${at}/${name}`;
    if (mode !== undefined) chmodSync(path, mode);
    const found = await diagnosed(place, path);
    assertEquals([found.code, found.levels.lock, found.levels["self-test"]], [code, lock, selfTest], found.out);
    assertEquals((await asNobody(place, ["run", "-n", path, "true"])).code, ran);
  }
});

test("a Deno that may use one directory only names the directory that denies it, and what is no directory", async ({ dir, path, child }) => {
  needs("root");
  mkdirSync(path("closed/a/b"), { recursive: true });
  writeFileSync(path("file"), "");
  chmodSync(path("closed"), 0o700);
  chmodSync(dir, 0o755);
  const repository = fileURLToPath(new URL("../..", import.meta.url));
  // It gives up root where all is loaded, which may lie in a home that is closed to the other user.
  writeFileSync(
    path("stranger.ts"),
    `import process from "node:process";
import { Lock } from "${new URL("../../mod.ts", import.meta.url)}";
process.setgid(65534);
process.setuid(65534);
for (const file of ["closed/a/b/c.lock", "file/c.lock"]) {
  try {
    new Lock(\`${dir}/\${file}\`).tryAcquire();
  } catch (error) {
    console.log(error.code, error.message);
  }
}
`,
  );
  const flags = [`--allow-read=${dir},${repository}`, `--allow-write=${dir}`, "--allow-sys"];
  const stranger = child(deno(), ["run", "--quiet", "--no-check", "--no-prompt", ...flags, path("stranger.ts")]);
  assertStringIncludes(await stranger.line(), `${USER} may not enter the directory "${path("closed")}"`);
  assertStringIncludes(await stranger.line(), `"${path("file")}" is not a directory`);
});

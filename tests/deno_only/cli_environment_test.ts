/** What a runtime adds of its own accord reaches neither COMMAND nor the command line; what is given arrives as it was. */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { chmodSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import process from "node:process";
import { makeExecutable } from "../../tasks/executable.ts";
import { CLI, FFI_KINDS, holdfast } from "../support/cli.ts";
import { wrapper } from "../support/flocks.ts";
import { type Place, test, within } from "../support/harness.ts";
import { command, PYTHON } from "../support/needs.ts";
import { deno } from "../support/tools.ts";

const EXACT = fileURLToPath(new URL("../fixtures/exact.py", import.meta.url));

/** No text in UTF-8, a name twice, one that a shell would drop or set, one without a value, and what is no variable. */
const STRANGE = [
  "NU\xe9=\xff",
  "TWICE=1",
  "TWICE=2",
  "A-B=x",
  "_=x",
  "PWD=/x",
  "SHLVL=7",
  "EMPTY=",
  "LINES=a\nb",
  "x",
  "=x",
  "",
];

/** Those that Bun would take from a `.env` of the current directory, if it were asked. */
function plant(dir: string): void {
  writeFileSync(`${dir}/.env`, `PLANTED=1\nEMPTY=1\nHOLDFAST_DIR=${dir}/planted\nLD_PRELOAD=${dir}/none.so\n`);
}

/** As `/proc/PID/environ` shows it, a character a byte. */
const bytes = (text: string) => Buffer.from(text).toString("latin1");

/** Deno without FFI, and all that `holdfast run` takes besides. */
const scopedDeno = () =>
  CLI.deno().flatMap((each) => each === "-A" ? ["-R", "-W", "-E", "--allow-run", "--no-prompt"] : [each]);

/** What COMMAND has of an environment of these bytes. */
async function passedOn({ child, dir, path }: Place, command: readonly string[], entries: readonly string[]) {
  writeFileSync(path("given"), entries.map((entry) => `${entry}\0`).join(""), "latin1");
  const [file, ...args] = command;
  const copy = child(
    PYTHON,
    [EXACT, path("given"), file, ...args, "/bin/cp", "/proc/self/environ", path("passed")],
    {
      cwd: dir,
    },
  );
  copy.close();
  assertEquals(await within(60_000, copy.ended), { code: 0, signal: null }, copy.errors);
  return readFileSync(path("passed"), "latin1").split("\0").slice(0, -1);
}

const WAYS = [["run", "a.lock"], ["run", "--close", "a.lock"], ["run", "-F", "a.lock"], ["flock", "a.lock"]]
  .map(([name, ...options]) => [name, ...options.slice(0, -1), `./${options.at(-1)}`]);

test("holdfast run and flock give COMMAND the environment that they were given, byte for byte, as flock(1) does", async (place) => {
  const { dir, path } = place;
  plant(dir);
  const program = path("bin/holdfast");
  mkdirSync(dirname(program));
  makeExecutable(program);
  const entries = [`PATH=${process.env.PATH}`, `HOME=${dir}`, ...STRANGE];
  assertEquals(await passedOn(place, [command("flock"), path()], entries), entries);
  const commands: Record<string, string[]> = { executable: [program] };
  for (const kind of FFI_KINDS) commands[kind] = CLI[kind]();
  for (const [kind, command] of Object.entries(commands)) {
    // All four are one code of ours, below what differs between the runtimes.
    for (const way of kind === "executable" ? WAYS : WAYS.filter(([, option]) => option === "-F")) {
      assertEquals(await passedOn(place, [...command, ...way], entries), entries, `${kind} ${way}`);
    }
  }
});

test("holdfast run where there is no FFI passes on all that is text, and refuses what it would have to change", async (place) => {
  plant(place.dir);
  const entries = [`PATH=${process.env.PATH}`, `HOME=${place.dir}`, bytes("NAME=ä"), "EMPTY=", "A-B=x"];
  for (const command of [CLI.node20(), scopedDeno()]) {
    const passed = await passedOn(place, [...command, "run", "./a.lock"], entries);
    assertEquals(passed.toSorted(), entries.toSorted(), String(command));
  }
  const [node, ...args] = CLI.node20();
  writeFileSync(place.path("given"), "N\xe9=x\0", "latin1");
  const copy = [EXACT, place.path("given"), node, ...args, "run", "./a.lock", "/bin/touch", "ran"];
  const refused = place.child(PYTHON, copy, { cwd: place.dir });
  assertEquals((await within(60_000, refused.ended)).code, 126);
  assertMatch(refused.errors, /^holdfast: cannot execute \/bin\/touch: the variable "N\ufffd" is not UTF-8/);
  assertEquals(existsSync(place.path("ran")), false);
});

test("holdfast run and flock leave COMMAND's streams as they were given, as flock(1) does", async ({ child, dir, path }) => {
  const flags = async (command: readonly string[]) => {
    const [file, ...args] = command;
    const words = [...args, "grep", "-h", "flags", ...[0, 1, 2].map((fd) => `/proc/self/fdinfo/${fd}`)];
    const run = child(file, words, { cwd: dir, env: { ...process.env, NO_COLOR: "1" } });
    const lines = [await within(60_000, run.line()), await run.line(), await run.line()];
    assertEquals((await run.ended).code, 0, run.errors);
    return lines;
  };
  const right = await flags(["flock", path()]);
  for (const kind of FFI_KINDS) {
    for (const way of kind === "bun" ? WAYS : WAYS.filter(([, option]) => option === "-F")) {
      assertEquals(await flags([...CLI[kind](), ...way]), right, `${kind} ${way}`);
    }
  }
});

test("holdfast takes no variable of a .env for its own, and the executable runs no script of a bunfig.toml", async (place) => {
  const { child, dir, path } = place;
  const program = path("bin/holdfast");
  mkdirSync(dirname(program));
  mkdirSync(path("planted"));
  makeExecutable(program);
  plant(dir);
  writeFileSync(path("planted/some-name.lock"), "");
  // Looked at only: without HOLDFAST_DIR it is the lock directory of this very user.
  const where = async (command: string[]) => {
    const { HOLDFAST_DIR: _, ...env } = process.env;
    const status = child(command[0], [...command.slice(1), "status", "--json", "some-name"], { cwd: dir, env });
    const [{ path: found }] = JSON.parse(await within(60_000, status.line()));
    return found;
  };
  const right = await where(CLI.node26()); // which reads no .env
  assertEquals(right.startsWith(dir), false);
  for (const command of [CLI.bun(), CLI.deno(), [program]]) assertEquals(await where(command), right, String(command));
  const { out } = await holdfast(place, "bun", ["doctor", "."]);
  assertMatch(out, /ok +self-test/);

  writeFileSync(path("bunfig.toml"), 'preload = ["./planted.ts"]\n');
  writeFileSync(path("planted.ts"), 'import { writeFileSync } from "node:fs"; writeFileSync("ran", "");');
  const version = child(program, ["version"], { cwd: dir });
  assertMatch(await within(60_000, version.line()), /^holdfast /);
  assertEquals((await version.ended).code, 0);
  assertEquals(existsSync(path("ran")), false);
});

for (const kind of FFI_KINDS) {
  test(`holdfast in ${kind} takes the variables of a file that the user has named to the runtime, and so does COMMAND`, async (place) => {
    const { child, dir, path } = place;
    plant(dir);
    writeFileSync(path("named.env"), `HOLDFAST_DIR=${dir}/asked\nNAMED=ä\nTWICE=file\n`);
    const [runtime, ...rest] = CLI[kind]();
    const at = kind === "deno" ? 1 : 0; // after `deno run`
    const command = [...rest.slice(0, at), `--env-file=${path("named.env")}`, ...rest.slice(at)];
    const print = 'echo "$NAMED $TWICE ${PLANTED-none}"; cat';
    for (const way of [["run"], ["run", "-F"]]) {
      const { HOLDFAST_DIR: _, ...env } = process.env;
      const run = child(runtime, [...command, ...way, "job", "sh", "-c", print], {
        cwd: dir,
        env: { ...env, TWICE: "given" },
      });
      assertEquals(await within(60_000, run.line()), "ä given none", `${way} ${run.errors}`);
      assertEquals(existsSync(path("asked/job.lock")), true);
      run.close();
      assertEquals((await within(60_000, run.ended)).code, 0);
    }
  });
}

test("holdfast run in Deno gives a Deno no permission and no argument that COMMAND does not name", async (place) => {
  const { child, dir, path } = place;
  const states = '["read", "run", "net", "ffi"].map((name) => Deno.permissions.querySync({ name }).state)';
  writeFileSync(path("x.ts"), `console.log(...${states}, Deno.args.join());`);
  const real = deno();
  symlinkSync(real, path("link"));
  writeFileSync(path("script"), `#!/usr/bin/env -S ${real} run --quiet --no-check\n${readFileSync(path("x.ts"))}`);
  chmodSync(path("script"), 0o755);
  const output = async (command: readonly string[]) => {
    // By a script: what runs this test would do to a word that is its own executable's path just what is tested here.
    const run = child(wrapper(dir, "start", command), [], { cwd: dir, env: { ...process.env, NO_COLOR: "1" } });
    run.close();
    const line = await within(60_000, run.line());
    await run.ended;
    return line;
  };
  const cases = [
    [real, "x.ts", "a"],
    [real, "run", "--no-prompt", "--deny-net", "x.ts"],
    [real, "--allow-read=/etc", "x.ts", "a"],
    [path("link"), "x.ts", "a"],
    [path("script"), "a"],
    ["sh", "-c", `${real} run x.ts a`],
    ["env", real, "run", "x.ts", "a"],
    ["/bin/sh", "-c", 'exec "$@"', "sh", real, "x.ts", "a"],
  ];
  for (const command of cases) {
    const right = await output(["flock", path(), ...command]);
    assertStringIncludes(right, "prompt");
    for (const ours of command[0] === real ? [CLI.deno(), scopedDeno()] : [CLI.deno()]) {
      assertEquals(await output([...ours, "run", path(), ...command]), right, `${ours} ${command}`);
    }
  }
  const nested = [...CLI.deno(), "run", path(), ...CLI.deno(), "run", path("b.lock"), real, "x.ts"];
  assertEquals(await output(nested), await output(["flock", path(), real, "x.ts"]));
});

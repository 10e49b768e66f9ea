/** `holdfast break`: shows, asks, and then removes by a takeover, or signals; and never a living holder's. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { Lock } from "../../mod.ts";
import { CLI, FFI_KINDS, holdfast, start } from "../cli.ts";
import { type Place, test, within } from "../harness.ts";
import { onTerminal } from "../terminal.ts";

const nonce = "0123456789abcdef0123456789abcdef";

/** The PID file of a process of another host. */
function plant({ path }: Place, fields: object = {}): string {
  const record = {
    holdfast: 1,
    pid: 4711,
    host: "elsewhere",
    command: "deno run nightly.ts",
    mode: "exclusive",
    nonce,
  };
  writeFileSync(path("a.lock.pid"), `4711\n${JSON.stringify({ ...record, ...fields })}\n`);
  return path();
}

/** On a terminal, where it is answered. */
async function answered(
  place: Place,
  answer: string,
  args: string[],
): Promise<{ code: number | null; said: string }> {
  const terminal = onTerminal(place, [...CLI.bun(), "break", ...args], { NO_COLOR: "1" });
  let said = "";
  terminal.process.stdout!.on("data", (text) => { // `!`: it is a pipe
    if (!said.includes("[y/N]") && `${said}${text}`.includes("[y/N]")) terminal.write(`${answer}\r`);
    said += text;
  });
  return { code: (await within(20_000, terminal.ended)).code, said };
}

test("holdfast break without a terminal and without --yes refuses, and changes nothing", async (place) => {
  const path = plant(place);
  const { code, out, err } = await holdfast(place, "bun", ["break", path]);
  assertEquals(code, 64);
  assertStringIncludes(
    out,
    "PID file of pid 4711 (deno run nightly.ts) on elsewhere: it may be alive, because it runs on another host",
  );
  assertMatch(err, /there is none: --yes/);
  assertEquals(readdirSync(place.dir), ["a.lock.pid"]);
});

for (const kind of FFI_KINDS) {
  test(`holdfast break --yes in ${kind} removes the PID file of an unknown owner, and makes no lock file`, async (place) => {
    const path = plant(place);
    assertEquals((await holdfast(place, kind, ["run", "-nq", path, "true"])).code, 1);
    const { code, out, err } = await holdfast(place, kind, ["break", "--yes", path]);
    assertEquals([code, err], [0, ""]);
    assertMatch(out, /^\S+ is unknown: .*\nPID file of .*\nthe PID file is removed\n$/);
    assertEquals(readdirSync(place.dir), []);
    assertEquals((await holdfast(place, kind, ["run", "-n", path, "true"])).code, 0);
  });
}

test("holdfast break asks on a terminal: n leaves everything, y removes it", async (place) => {
  const path = plant(place);
  const before = readFileSync(`${path}.pid`, "utf8");
  const no = await answered(place, "n", [path]);
  assertEquals([no.code, readFileSync(`${path}.pid`, "utf8")], [1, before], no.said);
  const yes = await answered(place, "y", [path]);
  assertEquals([yes.code, existsSync(`${path}.pid`)], [0, false], yes.said);
});

test("holdfast break leaves a living holder alone, with --yes too, and whoever took the lock in the meantime", async (place) => {
  for (const backend of ["flock", "pidfile"] as const) {
    const path = place.path(`${backend}.lock`);
    const lock = new Lock(path, { backend }).acquireSync();
    const { code, out, err } = await holdfast(place, "bun", ["break", "--yes", path]);
    assertEquals(code, 1);
    assertMatch(out, /^\S+ is held by pid \d+/);
    assertEquals(err, "holdfast: it is left alone: --signal asks its holder to go\n");
    assert(lock.verify());
    lock.release();
  }
  // Between the question and the answer the owner's file becomes another's.
  const path = plant(place);
  const terminal = onTerminal(place, [...CLI.bun(), "break", path]);
  await within(
    10_000,
    new Promise<void>((resolve) =>
      // `!`: it is a pipe
      terminal.process.stdout!.on("data", (text) => void (String(text).includes("[y/N]") && resolve()))
    ),
  );
  plant(place, { pid: 4711, command: "another", nonce: nonce.replaceAll("0", "f") });
  terminal.write("y\r");
  assertEquals((await within(10_000, terminal.ended)).code, 1);
  assertStringIncludes(readFileSync(`${path}.pid`, "utf8"), "another");
});

test("holdfast break --signal ends the verified holder's COMMAND, and no process that merely has a number", async (place) => {
  const run = start(place, "bun", ["run", "job", "sh", "-c", "echo up; exec cat"]);
  await run.line();
  const { code, out } = await holdfast(place, "deno", ["break", "--yes", "--signal", "job"]);
  assertEquals(code, 0);
  assertStringIncludes(out, `SIGTERM was sent to pid ${run.pid}`);
  assertEquals((await within(10_000, run.ended)).code, 128 + 15);

  // A living process by number, and no record of ours: who knows what that is.
  const cat = place.child("cat", []);
  writeFileSync(place.path("foreign.lock.pid"), `${cat.pid}\n`);
  const foreign = await holdfast(place, "bun", ["break", "--yes", "--signal=KILL", "./foreign.lock"]);
  assertEquals(foreign.code, 1);
  assertMatch(foreign.err, /^holdfast: no SIGKILL is sent to pid \d+.*cannot be verified\n$/);
  cat.close();
  assertEquals(await within(10_000, cat.ended), { code: 0, signal: null });
});

test("holdfast break of a lock that is free, or was left by a holder that died, has nothing to do", async (place) => {
  writeFileSync(place.path("stale.lock"), "5000000\n");
  for (const [name, state] of [["free", "free"], ["stale", "stale"]] as const) {
    const { code, out } = await holdfast(place, "bun", ["break", `./${name}.lock`]);
    assertEquals(code, 0);
    assertMatch(out, new RegExp(`^\\S+ is ${state}: .*\nthere is nothing to remove\n$`));
  }
  assertEquals(readdirSync(place.dir), ["stale.lock"]);
});

/** `holdfast break`: shows, asks, and then removes by a takeover, or signals; and never a living holder's. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { chmodSync, existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { Lock } from "../../mod.ts";
import { CLI, FFI_KINDS, holdfast, start } from "../support/cli.ts";
import { type Place, test, within } from "../support/harness.ts";
import { leave, ownerOf, sleeper, stateOf, until } from "../support/pid_files.ts";
import { onTerminal } from "../support/terminal.ts";

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
  return { code: (await within(60_000, terminal.ended)).code, said };
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

test("holdfast run and status name break where a PID file does not say where its owner ran, and break removes it", async (place) => {
  const path = plant(place, { host: undefined, runtime: "deno/2.9.6" });
  const run = await holdfast(place, "bun", ["run", "-n", path, "true"]);
  const status = await holdfast(place, "bun", ["status", path]);
  const how = `If no process holds it any more, "holdfast break ${path}" removes its PID file\n`;
  assertEquals([run.code, status.code], [1, 3]);
  for (const words of [run.err, status.out]) assertStringIncludes(words, how);
  assertStringIncludes(run.err, "its record has no pidNamespace");
  assertEquals((await holdfast(place, "bun", ["break", "--yes", path])).code, 0);
  assertEquals((await holdfast(place, "bun", ["run", "-n", path, "true"])).code, 0);
});

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
  assertEquals((await within(60_000, terminal.ended)).code, 1);
  assertStringIncludes(readFileSync(`${path}.pid`, "utf8"), "another");
});

test("holdfast break --signal ends the verified holder's COMMAND, and no process that merely has a number", async (place) => {
  const run = start(place, "bun", ["run", "job", "sh", "-c", "echo up; exec cat"]);
  await run.line();
  const { code, out } = await holdfast(place, "deno", ["break", "--yes", "--signal", "job"]);
  assertEquals(code, 0);
  assertStringIncludes(out, `SIGTERM was sent to pid ${run.pid}`);
  assertEquals((await within(60_000, run.ended)).code, 128 + 15);

  // A living process by number, and no record of ours: who knows what that is.
  const cat = place.child("cat", []);
  writeFileSync(place.path("foreign.lock.pid"), `${cat.pid}\n`);
  const foreign = await holdfast(place, "bun", ["break", "--yes", "--signal=KILL", "./foreign.lock"]);
  assertEquals(foreign.code, 1);
  assertMatch(foreign.err, /^holdfast: no SIGKILL is sent to pid \d+.*cannot be verified\n$/);
  cat.close();
  assertEquals(await within(60_000, cat.ended), { code: 0, signal: null });
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

test("holdfast break and status name all that have the lock's open file, and what ends them, but never pid 1", async (place) => {
  const { path, child } = place;
  // Who took it has ended; a shell and its child have inherited it.
  const shell = child("sh", [
    "-c",
    `exec 9>>"$0"; flock 9; sleep 60 & echo $!; read line; kill $!`,
    path("heirs.lock"),
  ]);
  const heir = Number(await shell.line());
  // Who took it lives, and so does its child.
  const taker = child("flock", [path("taken.lock"), "sh", "-c", "echo $$; read line"]);
  const taken = Number(await taker.line());
  const readers = [1, 2, 3].map(() => child("flock", ["-s", path("shared.lock"), "sh", "-c", "echo $$; read line"]));
  const read = await Promise.all(readers.map((each) => each.line()));
  for (
    const [name, pids] of [
      ["heirs", [shell.pid, heir]],
      ["taken", [taker.pid, taken]],
      ["shared", [...readers.map(({ pid }) => pid), ...read.map(Number)]],
    ] as const
  ) {
    const { code, err } = await holdfast(place, "bun", ["break", `./${name}.lock`]);
    assertEquals(code, 1);
    assertMatch(
      err,
      /: it is free when each of these has released it or ended: pid \d+ \([^)]+\); pid /,
    );
    const killed = /"kill ([\d ]+)" asks them to go/.exec(err)?.[1].split(" ").map(Number) ?? [];
    assertEquals(killed.toSorted(), pids.toSorted(), err);
  }
  const { out } = await holdfast(place, "bun", ["status", "./heirs.lock", "./taken.lock"]);
  assertMatch(
    out,
    new RegExp(`\n\\S+heirs.lock: it is free when each .*: pid ${heir} \\(sleep 60\\)|; pid ${heir} \\(`),
  );
  assert(!out.includes("taken.lock: it is free"), out);

  writeFileSync(path("first.lock.pid"), "1\n");
  const first = await holdfast(place, "bun", ["break", "./first.lock"]);
  assertMatch(first.err, /the number in \S+first\.lock\.pid, .* is that of pid 1 \(.+\); pid 1 is the first process/);
  assert(!/kill/.test(first.err), first.err);
  // Another program's number may be of another PID namespace: it is shown, and not to be signalled, nor woken.
  writeFileSync(path("number.lock.pid"), `${heir}\n`);
  for (const signal of ["SIGCONT", "SIGSTOP"] as const) {
    process.kill(heir, signal);
    await until("it is so", () => (stateOf(heir) === "T") === (signal === "SIGSTOP"));
    const number = await holdfast(place, "bun", ["break", "./number.lock"]);
    assertMatch(number.err, new RegExp(`is that of pid ${heir} .*"ps -fp ${heir}" shows what it is\n$`));
    const { out } = await holdfast(place, "bun", ["status", "./number.lock"]);
    assert(!/kill/.test(number.err + out), number.err + out);
  }
  process.kill(heir, "SIGCONT");
  for (const each of [shell, taker, ...readers]) each.write("go\n");
  for (const each of [shell, taker, ...readers]) await within(60_000, each.ended);
});

test("holdfast status and break say that a holder is stopped, and that a signal must wait for that", async (place) => {
  const run = start(place, "bun", ["run", "--close", "job", "sh", "-c", "echo up; exec cat"]);
  await run.line();
  await run.kill("SIGSTOP");
  await until("it is stopped", () => stateOf(run.pid) === "T"); // each of its threads has to notice
  const status = await holdfast(place, "bun", ["status", "job"]);
  assertMatch(status.out, new RegExp(`\nheld +job +${run.pid} stopped `));
  assertMatch(status.out, new RegExp(`\njob: its holder is stopped, and keeps it: "kill -CONT ${run.pid}" lets `));
  const left = await holdfast(place, "bun", ["break", "job"]);
  assertMatch(left.out, new RegExp(`pid ${run.pid} is stopped, and keeps it\n$`));
  assertMatch(left.err, /: --signal asks its holder to go; "kill -CONT/);
  const sent = await holdfast(place, "bun", ["break", "--yes", "--signal", "job"]);
  assertMatch(
    sent.out,
    new RegExp(`SIGTERM was sent to pid ${run.pid}; it is stopped, and does nothing until "kill -CONT ${run.pid}";`),
  );
  await run.kill("SIGCONT");
  assertEquals((await within(60_000, run.ended)).code, 128 + 15);
  // In a PID file, too.
  const agent = await place.agent("bun");
  await agent.lock(place.path("pid.lock"), { backend: "pidfile" });
  assertEquals(await agent.tryAcquire(), true);
  await agent.kill("SIGSTOP");
  await until("it is stopped", () => stateOf(agent.pid) === "T");
  assertEquals(Lock.inspect(place.path("pid.lock")).reason, `process ${agent.pid} is alive, but stopped`);
  assertMatch((await holdfast(place, "bun", ["status", "./pid.lock"])).out, new RegExp(` ${agent.pid} stopped `));
});

test("holdfast break and status recommend no signal to a process that a file merely names, and send it none", async (place) => {
  const { path } = place;
  const sleep = sleeper(place);
  const left = (name: string, mode: number) => {
    leave(path(`${name}.pid`), ownerOf(sleep));
    chmodSync(path(`${name}.pid`), mode);
    return path(name);
  };
  const [forged, right] = [left("forged.lock", 0o666), left("right.lock", 0o644)];
  writeFileSync(path("foreign.lock.pid"), `${sleep}\n`);
  const refused = await holdfast(place, "bun", ["break", "--yes", "--signal", forged]);
  assertEquals(refused.code, 1);
  assertMatch(refused.err, /^holdfast: no SIGTERM is sent to .*is not proven: ".*" can be written by other users/);
  const shown = await holdfast(place, "bun", ["break", forged]);
  assertMatch(shown.err, new RegExp(`pid ${sleep} is named, and that it has the lock is not proven: "`));
  const foreign = await holdfast(place, "bun", ["break", "./foreign.lock"]);
  assertMatch(
    foreign.err,
    new RegExp(`that pid ${sleep} has the lock is not proven: "ps -fp ${sleep}" shows what it is`),
  );
  for (const { err } of [shown, foreign]) assert(!/"kill|--signal asks/.test(err), err);
  process.kill(sleep, "SIGSTOP");
  await until("it is stopped", () => stateOf(sleep) === "T");
  const status = async (file: string) => (await holdfast(place, "bun", ["status", file])).out;
  assert(!/kill -CONT/.test(await status(forged)), await status(forged));
  assertMatch(await status(right), new RegExp(`"kill -CONT ${sleep}"`));
  process.kill(sleep, "SIGCONT");
  const sent = await holdfast(place, "bun", ["break", "--yes", "--signal", right]);
  assertStringIncludes(sent.out, `SIGTERM was sent to pid ${sleep}`);
});

test("holdfast break of a kernel lock that a record gives to another process names who has it, and only that one to be ended", async (place) => {
  const { path, child } = place;
  const sleep = sleeper(place);
  const holder = child("bash", ["-c", 'exec 9<> "$0"; flock 9; echo granted; exec sleep 600', path()]);
  await holder.line();
  leave(path(), ownerOf(sleep));
  const { err, code } = await holdfast(place, "bun", ["break", "--yes", path()]);
  assertEquals(code, 1);
  assertStringIncludes(err, `"kill ${holder.pid}" asks it to go`);
  assert(!err.includes(String(sleep)), err);
  const signalled = await holdfast(place, "bun", ["break", "--yes", "--signal", path()]);
  assertEquals(signalled.code, 1);
  assert("RSD".includes(stateOf(sleep)));
});

/** `holdfast status`, `list`, `history` and `doctor`: for people and for programs, whatever the names. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import process from "node:process";
import { Lock } from "../../mod.ts";
import { history } from "../../src/journal.ts";
import { CLI, cliEnv, FFI_KINDS, holdfast, start } from "../support/cli.ts";
import { type Place, test, within } from "../support/harness.ts";
import { lease } from "../support/lockers.ts";
import { onTerminal } from "../support/terminal.ts";

/** Longer than any PID that a Linux has (PID_MAX_LIMIT). */
const NOBODY = 5_000_000;

/** Names that a line, a table or a JSON document could break on. */
const AWKWARD = [
  "with blanks.lock",
  "line\nbreak.lock",
  'quote"and\\.lock',
  "\x1b[31mred.lock",
  "turned\u202e.lock",
  "red by C1\x9b31m.lock",
  "漢字.lock",
];

/** And one more whose name is not UTF-8: it has no path in JavaScript, and is unknown. */
function awkwardFiles({ path }: Place): void {
  for (const name of AWKWARD) writeFileSync(path(name), "");
  const made = spawnSync("sh", ["-c", `: > "$(printf '%s/bad\\377\\376.lock' "$1")"`, "sh", path(".")]);
  assertEquals(made.status, 0);
}

test("holdfast takes NAME.lock for the file of a named lock, and says so", async (place) => {
  for (const args of [["status", "nightly.lock"], ["run", "-n", "nightly.lock", "true"]]) {
    const { code, err } = await holdfast(place, "bun", args);
    assertEquals(code, 64);
    assertStringIncludes(err, 'nightly.lock is the file of the lock "nightly"; a file here is "./nightly.lock"');
  }
});

test("holdfast status, break and run say of a holder whose record cannot be read just that, and not that it left none", async (place) => {
  const path = place.path();
  writeFileSync(path, "");
  await lease(place, path); // what it keeps from being read on Linux; on Windows a Deno without FFI does
  const words = "held by a holder whose record cannot be read";
  const shown = await holdfast(place, "bun", ["status", path]);
  assertMatch(
    shown.out,
    new RegExp(`^held +.*\\n.*: it is ${words}: (?:pid \\d+|another program) has a lease on it`, "m"),
  );
  const broken = await holdfast(place, "bun", ["break", "--signal", path]);
  assertStringIncludes(broken.out, `is ${words}; it counts as held because `);
  assertMatch(broken.err, /no SIGTERM is sent to an owner that cannot be named: .* has a lease on it/);
  const refused = await holdfast(place, "bun", ["run", "-n", path, "true"]);
  assertStringIncludes(refused.err, `is ${words}; it counts as held because `);
});

test("holdfast status ends with 0 free, 1 held, 2 stale, 3 unknown, and the highest of many", async (place) => {
  const { path } = place;
  const held = new Lock(path("held.lock")).acquireSync();
  writeFileSync(path("stale.lock"), `${NOBODY}\n`);
  // The record of a process of another host.
  const elsewhere = { holdfast: 1, pid: 1, host: "elsewhere", mode: "exclusive", nonce: "0".repeat(32) };
  writeFileSync(path("unknown.lock.pid"), `1\n${JSON.stringify(elsewhere)}\n`);
  const status = async (...names: string[]) => {
    const { code, out, err } = await holdfast(place, "bun", ["status", ...names.map((name) => path(`${name}.lock`))]);
    assertEquals(err, "");
    return { code, out };
  };
  for (const [i, name] of ["free", "held", "stale", "unknown"].entries()) {
    const { code, out } = await status(name);
    assertEquals(code, i, out);
    assertMatch(out, new RegExp(`^STATE +LOCK.*\n${name} +\\S+/${name}\\.lock`));
  }
  const all = await status("stale", "unknown", "free", "held");
  assertEquals([all.code, all.out.split("\n").length], [3, 8]);
  // Whoever has mistyped a name is not calmed.
  assertMatch(all.out, /\n\S+free\.lock: there is no \S+free\.lock: it was never locked, or its path is another\n/);
  assertMatch(all.out, /\nunknown: \S+: .*another host/);
  assertMatch(all.out, new RegExp(`${NOBODY}†`));
  held.release();
});

test("holdfast status, list, history and doctor --json show a terminal no character that it could be misled by", async (place) => {
  const name = "red\x9b31m\u202e.lock", label = "turned\u2066 \x85 \u{e0001}";
  const lock = new Lock(place.path(name), { label, journal: true }).acquireSync();
  const all = [["status", "--json", `./${name}`], ["list", "--json", "."], ["history", "--json", `./${name}`]];
  for (const args of [...all, ["doctor", "--json", `./${name}`]]) {
    const terminal = onTerminal(place, [...CLI.bun(), ...args]);
    const line = await within(60_000, terminal.line());
    assertMatch(line.trimEnd(), /^[^\p{C}\u2028\u2029]+$/u, args[0]);
    const text = JSON.stringify(JSON.parse(line));
    assert(text.includes(args[0] === "doctor" ? name : label), `${args[0]}: ${line}`);
  }
  lock.release();
});

test("holdfast status of a name without a file says where it looked, and that another user's locks are elsewhere", async (place) => {
  const { dir } = place;
  const own = await holdfast(place, "bun", ["status", "nightly"], {
    env: { HOLDFAST_DIR: undefined, HOME: dir, XDG_STATE_HOME: dir },
  });
  assertEquals(own.code, 0);
  assertMatch(
    own.out,
    /\nnightly: there is no (?:directory )?\/\S+: it was never locked, or its name is another .*holdfast list/,
  );
  assertMatch(own.out, /; each user has a lock directory of their own, unless HOLDFAST_DIR/);
  mkdirSync(`${dir}/named`);
  const set = await holdfast(place, "bun", ["status", "nightly"]);
  assertStringIncludes(set.out, `\nnightly: there is no ${dir}/named/nightly.lock: it was never locked`);
  assert(!set.out.includes("each user"), set.out);
});

test("holdfast status and run agree that another program's PID file locks nothing, and do not say that its owner died", async (place) => {
  const path = place.path("daemon.lock");
  for (const args of [[], ["-q"]]) {
    writeFileSync(path, `${process.pid}\n`); // alive, and it has not locked this
    const status = await holdfast(place, "bun", ["status", path]);
    assertEquals(status.code, 0, status.out);
    assertMatch(
      status.out,
      new RegExp(`\nfree .*\n\\S+: .*; it names pid ${process.pid}, .* has no flock\\(2\\) lock on it: process`),
    );
    const run = await holdfast(place, "bun", ["run", "-n", "--journal", ...args, path, "true"]);
    const words = new RegExp(
      `^holdfast: "\\S+" named pid ${process.pid}, which had no flock\\(2\\) lock on it: process .*\n$`,
    );
    assertMatch(run.err, args.length > 0 ? /^$/ : words);
    assertEquals(run.code, 0);
  }
  assertEquals(history(path).map(({ event }) => event), ["acquired", "released", "acquired", "released"]);
  // Of a dead one it was the last holder's, as far as anybody can tell.
  writeFileSync(path, `${NOBODY}\n`);
  assertMatch(
    (await holdfast(place, "bun", ["run", "-n", path, "true"])).err,
    /died without releasing it: pid 5000000; /,
  );
});

/** What a daemon of libbsd's does: locks, goes on as its own child, and writes that one's number. */
const DAEMON = `import fcntl, os, sys, time
file = open(sys.argv[1], "w"); fcntl.flock(file, fcntl.LOCK_EX)
if os.fork(): os._exit(0)
print(os.getpid(), file=file, flush=True); open(sys.argv[1] + ".up", "w"); time.sleep(60)`;

test("holdfast status in a container does not take a daemon's lock for free, whose taker has ended and is not listed", async (place) => {
  const path = place.path("daemon.pid");
  const script = 'python3 -SEc "$0" "$1"; until [ -e "$1.up" ]; do sleep 0.01; done; shift; exec "$@"';
  const by = ["unshare", "-pf", "--mount-proc", "--kill-child", "sh", "-c", script, DAEMON, path];
  const { code, out } = await holdfast(place, "bun", ["status", path], { by });
  assertEquals(code, 1, out);
  assertMatch(out, /^held /m);
});

for (const kind of FFI_KINDS) {
  test(`holdfast in ${kind} in a container does not say plain free where a holder would not be seen, and status ends with 3`, async (place) => {
    const { path, child } = place;
    const by = ["unshare", "-pf", "--mount-proc", "--kill-child"];
    const holder = child("flock", [path("held.lock"), "sh", "-c", "echo granted; cat"]);
    assertEquals(await holder.line(), "granted");
    writeFileSync(path("stale.lock"), `${NOBODY}\n`);
    for (const name of ["held", "stale"]) {
      const state = name === "held" ? "free?" : "stale?";
      const { code, out } = await holdfast(place, kind, ["status", path(`${name}.lock`)], { by });
      assertEquals(code, 3, out);
      assertMatch(out, new RegExp(`\n${state.replace("?", "\\?")} +\\S+/${name}\\.lock`));
      assertMatch(out, /\n(?:free|stale)\?: \S+: .*so a holder without a record would not be seen\n/);
    }
    const list = await holdfast(place, kind, ["list", "--json", place.dir], { by });
    const all: { state: string; complete: boolean }[] = JSON.parse(list.out);
    assertEquals([list.code, all.map(({ state, complete }) => `${state} ${complete}`)], [3, [
      "free false",
      "stale false",
    ]]);
    const missing = await holdfast(place, kind, ["status", path("missing.lock")], { by });
    assertEquals([missing.code, /^free +\S+missing/m.test(missing.out)], [0, true], missing.out);

    const run = await holdfast(place, kind, ["run", "-n", path("held.lock"), "true"], { by });
    assertEquals(run.code, 1);
    assertMatch(run.err, /^holdfast: \S+ is held by a process that cannot be seen from here: .* would not be seen\n$/);
    const asked = await holdfast(place, kind, ["break", "--yes", "--signal", path("held.lock")], { by });
    assertMatch(asked.out, /^\S+ is free\?: /);
    assertEquals([asked.code, /its holder, if there is one, cannot be seen from here/.test(asked.err)], [1, true]);
    const doctor = await holdfast(place, kind, ["doctor", "--json", path("held.lock")], { by });
    const { findings } = JSON.parse(doctor.out);
    const lock = findings.find(({ about }: { about: string }) => about === "lock");
    assertEquals(lock.level, "warning");
    assertMatch(lock.what, /is free\?: .* would not be seen/);
  });

  test(`holdfast list and status in ${kind} show awkward names in one line each, and --json is valid`, async (place) => {
    awkwardFiles(place);
    const { code, out } = await holdfast(place, kind, ["list", "."]);
    // The title, the row of the last file, and why its state is unknown.
    assertEquals([code, out.trimEnd().split("\n").length], [3, AWKWARD.length + 3], out);
    // deno-lint-ignore no-control-regex -- that is what must not be there
    assert(!/[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]/.test(out), JSON.stringify(out));
    for (const name of ["with blanks", "line\\u000abreak", "漢字"]) assertStringIncludes(out, name);

    const json = await holdfast(place, kind, ["list", "--json", place.dir]);
    const statuses: { path: string; state: string }[] = JSON.parse(json.out);
    assertMatch(json.out, /^[^\p{C}\u2028\u2029]*\n$/u, "one line, and nothing that a terminal could be misled by");
    for (const name of AWKWARD) {
      assertEquals(statuses.find(({ path }) => path === place.path(name))?.state, "free", JSON.stringify(name));
    }
    assertEquals(statuses.find(({ path }) => path === place.path("bad\ufffd\ufffd.lock"))?.state, "unknown");
    assertEquals(statuses.length, AWKWARD.length + 1);

    const some = await holdfast(place, kind, ["status", "--json", ...AWKWARD.slice(0, 3).map((name) => `./${name}`)]);
    assertEquals(JSON.parse(some.out).map(({ path }: { path: string }) => path), AWKWARD.slice(0, 3).map(place.path));
  });

  test(`holdfast list in ${kind} ends without a word when its reader has seen enough`, async (place) => {
    for (let i = 0; i < 700; i++) writeFileSync(place.path(`${i}-${"x".repeat(120)}.lock`), "");
    const [program, ...args] = CLI[kind]();
    const script = 'set -o pipefail; "$@" | head -1; echo "${PIPESTATUS[0]}"';
    const pipe = place.child("bash", ["-c", script, "bash", program, ...args, "list", "."], {
      cwd: place.dir,
      env: cliEnv(place.dir),
    });
    assertMatch(await within(60_000, pipe.line()), /^STATE/);
    assertEquals(await within(60_000, pipe.line()), String(128 + 13));
    await pipe.ended;
    assertEquals(pipe.errors, "");
  });
}

test("holdfast list without DIR shows the lock directory by names, and nothing where there is none yet", async (place) => {
  const none = await holdfast(place, "bun", ["list"]);
  assertEquals([none.code, none.out], [0, `there is no lock in ${place.dir}/named\n`]);
  assertEquals((await holdfast(place, "bun", ["list", "--json"])).out, "[]\n");
  const run = start(place, "bun", ["run", "--label", "at night", "nightly", "sh", "-c", "echo up; cat"]);
  await run.line();
  const { code, out } = await holdfast(place, "bun", ["list"]);
  assertEquals(code, 1);
  assertMatch(out, new RegExp(`\nheld +nightly +${run.pid}\\S* .* seconds? ago|ms ago`));
  assertMatch(out, /at night +.*run --label at night nightly/);
  run.close();
  await run.ended;
  const missing = await holdfast(place, "bun", ["list", "none"]);
  assertEquals(missing.code, 66);
  assertMatch(missing.err, /^holdfast: Cannot scan .*ENOENT.*\n$/);
});

test("holdfast status on a terminal is coloured, unless NO_COLOR; 20 columns are enough, and nothing is lost in them", async (place) => {
  writeFileSync(place.path("stale.lock"), `${NOBODY}\n`);
  const shown = async (env: Record<string, string>) => {
    const terminal = onTerminal(place, [...CLI.bun(), "status", "./stale.lock"], env);
    const lines: string[] = [];
    for (let line; (line = await terminal.line().catch(() => undefined)) !== undefined;) lines.push(line.trimEnd());
    return lines;
  };
  assert((await shown({}))[1].startsWith("\x1b[35mstale\x1b[39m "));
  const plain = await shown({ NO_COLOR: "1" });
  assert(!plain.join("").includes("\x1b"), JSON.stringify(plain));
  const narrow = await shown({ NO_COLOR: "1", COLUMNS: "20" });
  for (const line of narrow) assert([...line].length <= 20, line);
  assertEquals(narrow[0], "stale");
  assertStringIncludes(narrow.map((line) => line.trim()).join(""), place.path("stale.lock"));
  assertEquals(narrow.at(-1), `  pid ${NOBODY}†`);
});

test("holdfast status --watch tells a pipe of changes only, and --json in a line each", async (place) => {
  const path = place.path();
  const watch = start(place, "bun", ["status", "--watch=0.1", path]);
  const json = start(place, "bun", ["status", "--watch=0.1", "--json", path]);
  assertMatch(await watch.line(), /^STATE/);
  assertMatch(await watch.line(), /^free /);
  assertEquals(JSON.parse(await json.line())[0].state, "free");
  const lock = new Lock(path).acquireSync();
  assertMatch(await within(60_000, watch.line()), /^held /);
  assertEquals(JSON.parse(await within(60_000, json.line()))[0].state, "held");
  lock.release();
  assertMatch(await within(60_000, watch.line()), /^free /);
});

test("holdfast history counts runs and crashes, names the longest wait and hold, and --json has all events", async (place) => {
  const none = await holdfast(place, "bun", ["history", "job"]);
  assertEquals([none.code, none.out], [1, ""]);
  assertMatch(none.err, /^holdfast: there is no directory \S+\/named, and no journal: it was never locked, or .*\n$/);
  const crashed = start(place, "bun", ["run", "--journal", "job", "sh", "-c", "echo up; cat"]);
  await crashed.line();
  const begun = async () => {
    const [json, people] = [
      await holdfast(place, "bun", ["history", "--json", "job"]),
      await holdfast(place, "bun", ["history", "job"]),
    ];
    return { ...JSON.parse(json.out), people: people.out };
  };
  const held = await begun();
  assertEquals([held.unreleased, /\n.* acquired .* held now /.test(held.people)], [[], true], held.people);
  await crashed.kill("SIGKILL");
  const died = await begun();
  assertEquals([died.runs, died.crashes, died.unreleased[0].pid], [1, 0, crashed.pid]);
  assertMatch(died.people, new RegExp(`\nnot released   1: pid ${crashed.pid} [^]* acquired .* not released `));
  for (const label of ["one", "two\nlines"]) {
    const { code } = await holdfast(place, "bun", ["run", "--journal", "-q", "--label", label, "job", "true"]);
    assertEquals(code, 0);
  }
  const { code, out } = await holdfast(place, "bun", ["history", "-n", "2", "job"]);
  assertEquals(code, 0);
  assertMatch(
    out,
    /^runs +3\ncrashes +1\nlost +0\nlongest wait .*\nlongest hold .*\n\nAT +EVENT .*\n.* acquired .*\n.* released .*two\\u000alines/,
  );
  assertEquals(out.trimEnd().split("\n").length, 9);
  const json = await holdfast(place, "node26", ["history", "--json", "job"]);
  const { runs, crashes, unreleased, events, longestHold } = JSON.parse(json.out);
  assertEquals({ runs, crashes, unreleased, events: events.length, held: typeof longestHold.held }, {
    unreleased: [],
    runs: 3,
    crashes: 1,
    events: 6,
    held: "number",
  });
  writeFileSync(place.path("plain.lock"), "");
  const plain = await holdfast(place, "bun", ["history", "./plain.lock"]);
  assertMatch(plain.err, /^holdfast: there is no journal of \S+plain.lock: "holdfast run --journal" writes one\n$/);
  const elsewhere = place.path("elsewhere.jsonl");
  await holdfast(place, "bun", ["run", `--journal=${elsewhere}`, "job", "true"]);
  const other = await holdfast(place, "bun", ["history", "--json", `--journal=${elsewhere}`, "job"]);
  assertEquals(JSON.parse(other.out).runs, 1);
});

for (const kind of FFI_KINDS) {
  test(`holdfast doctor in ${kind} tries two processes on the path, leaves nothing there, and --json is valid`, async (place) => {
    const directory = place.path('a "b"\nc');
    mkdirSync(directory);
    chmodSync(directory, 0o700);
    const { out, err, code } = await holdfast(place, kind, ["doctor", "--json", directory]);
    assertEquals(err, "");
    const { path, findings } = JSON.parse(out);
    assertEquals(path, directory);
    const levels = Object.fromEntries(findings.map(({ about, level }: Record<string, string>) => [about, level]));
    assertEquals([levels.runtime, levels["back end"], levels["self-test"], levels.permissions], [
      "ok",
      "ok",
      "ok",
      "ok",
    ], out);
    assertEquals(code, Object.values(levels).includes("warning") ? 1 : 0);
    assertEquals(readdirSync(directory), []);
  });
}

test("holdfast doctor warns of a directory that anybody may write, and ends with 2 where there is none", async (place) => {
  const open = place.path("open");
  mkdirSync(open);
  chmodSync(open, 0o777);
  const { out, code } = await holdfast(place, "bun", ["doctor", open]);
  assertEquals(code, 1);
  assertMatch(out, /warning permissions\n {2}\S+ has mode 0777[^→]*any user may delete[^→]*→/);
  const none = await holdfast(place, "bun", ["doctor", place.path("none/a.lock")]);
  assertEquals(none.code, 2);
  assertMatch(none.out, /error +directory\n {2}\S+ does not exist\n {2}→ mkdir -p /);
});

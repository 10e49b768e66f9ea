/** `holdfast run`: whose the exit status is, what COMMAND is given, and what is said of a holder. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { chmodSync, existsSync, readFileSync, renameSync, unlinkSync, writeFileSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { Lock } from "../../mod.ts";
import { assertKeeps, CLI, cliEnv, type CliKind, FFI_KINDS, holdfast, outcome, start } from "../support/cli.ts";
import { copySource } from "../support/edits.ts";
import { test, within } from "../support/harness.ts";
import { lease } from "../support/lockers.ts";
import { onTerminal } from "../support/terminal.ts";

/** The command line of such a copy takes the lock by PID file, as where there is no kernel lock. */
const BY_PID_FILE = 'new Lock(given, { ...options, backend: "pidfile" })';

// The cast: the keys of a table that is written out.
const KINDS = Object.keys(CLI) as CliKind[];

const free = (path: string) => {
  const lock = new Lock(path);
  const granted = lock.tryAcquire();
  if (granted) lock.release();
  return granted;
};

for (const kind of KINDS) {
  test(`holdfast run in ${kind} ends as COMMAND does, and with 126 or 127 where that cannot be executed`, async (place) => {
    const path = place.path();
    writeFileSync(place.path("plain"), "exit 5\n");
    writeFileSync(place.path("script"), 'echo "$1"\n');
    chmodSync(place.path("script"), 0o755);
    const cases: [command: string[], code: number, out: string][] = [
      [["sh", "-c", 'exit "$1"', "sh", "7"], 7, ""],
      [["--", "sh", "-c", "kill -KILL $$"], 128 + 9, ""],
      [[place.path("script"), "without its first line"], 0, "without its first line\n"],
      [["no-such-command"], 127, ""],
      [[place.path("plain")], 126, ""],
    ];
    for (const [command, code, out] of cases) {
      const result = await holdfast(place, kind, ["run", path, ...command]);
      assertEquals([result.code, result.out], [code, out], `${command}: ${result.err}`);
      if (code >= 126 && code <= 127) assertMatch(result.err, /^holdfast: cannot execute \S+: [^\n]+\n$/);
      assert(free(path), `${command} left it locked`);
    }
  });
}

for (const kind of FFI_KINDS) {
  test(`holdfast run in ${kind} gives COMMAND the lock, unless --close, and --no-fork becomes COMMAND with it`, async (place) => {
    const path = place.path();
    // Which descriptors are the lock's, whether it is held, and by whom.
    const look = 'for fd in /proc/$$/fd/*; do [ "$(readlink "$fd")" = "$1" ] && echo "${fd##*/}"; done; ' +
      'flock -n "$1" true && echo free || echo held; echo $$';
    const run = async (...options: string[]) => {
      const child = start(place, kind, ["run", ...options, path, "sh", "-c", look, "sh", path]);
      const lines: string[] = [];
      for (;;) {
        const line = await child.line().catch(() => undefined);
        if (line === undefined) break;
        lines.push(line);
      }
      assertEquals(await within(60_000, child.ended), { code: 0, signal: null }, child.errors);
      return { lines, pid: child.pid };
    };
    const given = await run();
    assertEquals(given.lines.slice(0, 2), ["3", "held"]);
    assert(given.lines[2] !== String(given.pid));
    assertEquals((await run("--close")).lines.slice(0, 1), ["held"]);
    const become = await run("-F");
    assertEquals(become.lines.slice(1), ["held", String(become.pid)]);
    assertMatch(become.lines[0], /^\d+$/);
    assertEquals(readFileSync(path, "utf8"), "", "what --no-fork leaves would be told to the next as a crash");
    assert(free(path));
  });

  test(`holdfast run --no-fork in ${kind} leaves COMMAND no signal ignored that the runtime ignores, and says what cannot be executed`, async (place) => {
    const status = await holdfast(place, kind, ["run", "-F", place.path(), "grep", "SigIgn", "/proc/self/status"]);
    const ignored = BigInt(`0x${status.out.split("\t")[1].trim()}`);
    const { SIGPIPE, SIGXFSZ } = constants.signals; // what the runtimes ignore for themselves
    assertEquals([SIGPIPE, SIGXFSZ].filter((number) => ignored >> BigInt(number - 1) & 1n), [], status.out);
    const none = await holdfast(place, kind, ["run", "-F", place.path(), "no-such-command"]);
    assertEquals([none.code, none.err], [127, "holdfast: cannot execute no-such-command: there is no such command\n"]);
    assert(free(place.path()));
  });
}

for (const kind of FFI_KINDS) {
  test(`holdfast run --no-fork in ${kind} by PID file keeps the lock from COMMAND's own tries until COMMAND ends`, async (place) => {
    const copy = copySource(place.path("copy"), [["cli/target.ts", "new Lock(given, options)", BY_PID_FILE]]);
    const job = place.path("job.mjs"), path = place.path();
    writeFileSync(
      job,
      `const { Lock } = await import(${JSON.stringify(pathToFileURL(join(copy, "mod.ts")).href)});
const lock = new Lock(${JSON.stringify(path)}, { backend: "pidfile" });
console.log(process.pid, lock.tryAcquire(), lock.inspect().state);
await lock.acquire({ timeout: 0 }).catch(({ message }) => console.log(message));
`,
    );
    const [program, ...args] = CLI[kind]();
    const runtime = [program, ...args.slice(0, -1)]; // the last is the command line itself
    const running = place.child(program, [
      ...args.slice(0, -1),
      join(copy, "src/cli/main.ts"),
      "run",
      "-F",
      path,
      ...runtime,
      job,
    ], {
      env: cliEnv(place.dir),
    });
    running.close();
    const { code, out, err } = await outcome(running);
    assertEquals([code, out.split("\n")[0]], [0, `${running.pid} false held`], out + err);
    assertMatch(out, /which is this very process, by the program that it was before it became this one/);
    const stale: number[] = [];
    const next = new Lock(path, { backend: "pidfile", onStale: ({ pid }) => stale.push(pid) });
    assertEquals([next.tryAcquire(), stale], [true, [running.pid]]);
    next.release();
  });
}

test("holdfast run leaves the lock to what COMMAND leaves running, and with --close does not", async (place) => {
  const leave = async (...options: string[]) => {
    const args = ["run", ...options, place.path(), "sh", "-c", "sleep 60 > /dev/null 2>&1 & echo $!"];
    const { code, out } = await holdfast(place, "bun", args);
    assertEquals(code, 0);
    try {
      if (options.length > 0) assertEquals(Lock.inspect(place.path()).state, "free");
      else assertKeeps(place.path(), Number(out));
    } finally {
      process.kill(Number(out), "SIGKILL"); // nobody else is left who would
    }
  };
  await leave();
  await new Lock(place.path()).run(() => {}, { timeout: 10_000 });
  await leave("--close");
});

test("holdfast run says in one line who holds the lock, since when and with what; -q says nothing", async (place) => {
  const holder = start(place, "bun", ["run", "--label", "the nightly one", "nightly", "sh", "-c", "echo up; cat"]);
  assertEquals(await holder.line(), "up");
  const path = place.path("named/nightly.lock");
  const results = await Promise.all([
    holdfast(place, "deno", ["run", "-n", "nightly", "touch", place.path("ran")]),
    holdfast(place, "bun", ["run", "-w", "0.05", "-E", "42", path, "touch", place.path("ran")]),
    holdfast(place, "node26", ["run", "-nq", path, "touch", place.path("ran")]),
  ]);
  assertEquals(results.map(({ code }) => code), [1, 42, 1]);
  for (const { err } of results.slice(0, 2)) {
    assertMatch(
      err,
      /^holdfast: \S+ is held by pid \d+ \([^\n]+ run --label [^\n]+\)[^\n]*, "the nightly one", since \d{4}-\S+ \([^\n]+ ago\)[^\n]*\n$/,
    );
    assertStringIncludes(err, `pid ${holder.pid} `);
  }
  assertEquals(results[2].err, "");
  assertEquals(existsSync(place.path("ran")), false);
  holder.close();
  assertEquals(await within(60_000, holder.ended), { code: 0, signal: null });
});

test("holdfast run waits for the lock and says nothing of it where nobody looks; --shared is not in each other's way", async (place) => {
  const path = place.path();
  const readers = [1, 2].map(() => start(place, "bun", ["run", "-s", path, "sh", "-c", "echo reads; cat"]));
  for (const reader of readers) assertEquals(await reader.line(), "reads");
  const refused = await holdfast(place, "bun", ["run", "-n", path, "true"]);
  assertEquals(refused.code, 1);
  assertMatch(refused.err, /^holdfast: \S+ is held by pid \d+ \(.*\), and by pid \d+\n$/);
  const writer = start(place, "bun", ["run", path, "sh", "-c", "echo writes"]);
  const line = writer.line();
  for (const reader of readers) reader.close();
  assertEquals(await within(60_000, line), "writes");
  assertEquals(await within(60_000, writer.ended), { code: 0, signal: null });
  assertEquals(writer.errors, "");
});

test("holdfast run --signal-holder ends the holder's COMMAND, and then has the lock", async (place) => {
  const holder = start(place, "bun", ["run", "job", "sh", "-c", "echo up; exec cat"]);
  assertEquals(await holder.line(), "up");
  const next = await holdfast(place, "deno", ["run", "--signal-holder", "-w", "10", "job", "echo", "mine"]);
  assertEquals([next.code, next.out], [0, "mine\n"], next.err);
  assertEquals(await holder.ended, { code: 128 + 15, signal: null });
});

for (const kind of KINDS) {
  test(`holdfast run in ${kind}: a script may be its own lock file`, async (place) => {
    const script = place.path("job.sh");
    writeFileSync(script, '#!/bin/sh\n[ "$LOCKED" ] || LOCKED=yes exec "$@" "$0" "$0" "$@"\necho the job runs\n');
    chmodSync(script, 0o755);
    for (const options of [[], ["-F"]]) {
      const child = place.child(script, [...CLI[kind](), "run", "-n", ...options], { cwd: place.dir });
      assertEquals(await within(20_000, child.line()), "the job runs");
      assertEquals(await within(20_000, child.ended), { code: 0, signal: null }, child.errors);
    }
  });
}

for (const kind of FFI_KINDS) {
  test(`holdfast run --nofile in ${kind} sets the soft limit of open files, and not the hard one`, async (place) => {
    const limits = ["sh", "-c", "ulimit -Sn; ulimit -Hn"];
    const by = ["setsid", "sh", "-c", 'ulimit -Sn 1000; ulimit -Hn 2000; exec "$@"', "sh"];
    for (const options of [[], ["-F"]]) {
      const { out, err } = await holdfast(
        place,
        kind,
        ["run", "--nofile", "256", ...options, place.path(), ...limits],
        { by },
      );
      assertEquals(out, "256\n2000\n", err);
    }
    const above = await holdfast(place, kind, ["run", "--nofile", "2001", place.path(), "true"], { by });
    assertEquals(above.code, 64, above.err);
  });
}

test("holdfast run tells of a lost lock, lets COMMAND run on, and ends with 75; --signal-on-lost ends it", async (place) => {
  const run = async (...options: string[]) => {
    const path = place.path(`${options.length}.lock`);
    const child = start(place, "bun", ["run", ...options, path, "sh", "-c", "echo up; cat"]);
    assertEquals(await child.line(), "up");
    // Another file under its name: what a `mv` does.
    writeFileSync(place.path("other"), "");
    renameSync(place.path("other"), path);
    while (!child.errors.includes("\n")) await new Promise((resolve) => child.process.stderr?.once("data", resolve));
    if (options.length === 0) child.close();
    return { ...await within(60_000, child.ended), err: child.errors };
  };
  const onwards = await run();
  assertEquals(onwards.code, 75);
  assertMatch(onwards.err, /^holdfast: .*lost.*\. COMMAND runs on\n$/);
  const ended = await run("--signal-on-lost");
  assertEquals(ended.code, 75);
  assertMatch(ended.err, /^holdfast: .*lost.*\. COMMAND is sent SIGTERM\n$/);
});

test("holdfast run makes a deleted lock file again, says so at the end, and ends with 75 unless COMMAND failed or has no descriptor", async (place) => {
  for (const [i, [options, ends, code]] of ([[[], 0, 75], [[], 7, 7], [["-o"], 0, 0]] as const).entries()) {
    const path = place.path(`${i}.lock`);
    const command = ["sh", "-c", `echo up; cat; exit ${ends}`];
    const child = start(place, "bun", ["run", "--signal-on-lost", ...options, path, ...command]);
    assertEquals(await child.line(), "up");
    unlinkSync(path);
    while (!existsSync(path)) await new Promise((resolve) => setTimeout(resolve, 5));
    assertEquals((await holdfast(place, "bun", ["run", "-n", path, "true"])).code, 1);
    child.close();
    assertEquals(await within(60_000, child.ended), { code, signal: null });
    const words = /^holdfast: \S+ was deleted while COMMAND ran, and made again\. Whether another .*\n$/;
    assertMatch(child.errors, options.length > 0 ? /^$/ : words);
  }
});

for (const kind of KINDS) {
  test(`holdfast run in ${kind} does the same if its standard error is a pipe that no process reads`, async (place) => {
    const path = place.path();
    const dead = "import os, sys; r, w = os.pipe(); os.close(r); os.dup2(w, 2); os.execvp(sys.argv[1], sys.argv[1:])";
    const run = (...args: string[]) => start(place, kind, ["run", ...args], { by: ["setsid", "python3", "-c", dead] });
    const status = async (...args: string[]) => (await within(20_000, run(...args).ended)).code;

    writeFileSync(path, JSON.stringify({ holdfast: 1, pid: 2 ** 22 + 1 }) + "\n");
    assertEquals(await status("--verbose", path, "sh", "-c", "exit 3"), 3);
    assertEquals(await status(path, "no-such-command"), 127);
    {
      using holder = new Lock(path);
      holder.acquireSync();
      assertEquals(await status("-n", "-E", "7", path, "true"), 7);
    }
    const child = run(
      "--signal-on-lost",
      path,
      "sh",
      "-c",
      'trap "echo told; exit 3" TERM; echo up; while :; do sleep 0.1; done',
    );
    assertEquals(await child.line(), "up");
    writeFileSync(place.path("new"), "");
    renameSync(place.path("new"), path);
    assertEquals(await within(15_000, child.line()), "told");
    assertEquals(await within(10_000, child.ended), { code: 75, signal: null });
  });
}

test("holdfast run --signal-on-lost ends with the status of a COMMAND that failed before it could be signalled", async (place) => {
  const path = place.path();
  const args = ["run", "--signal-on-lost", path, "sh", "-c", `rm ${path}; touch ${path}; exit 3`];
  const { code, err } = await holdfast(place, "bun", args);
  assertEquals(code, 3, err);
  // Noticed by the watcher, or at the release: it is the machine that decides.
  assertMatch(err, /\. COMMAND had ended by then\n$|; what COMMAND has left running is without it\. /);
});

test("holdfast run --verbose says who is in the way where there is no terminal to show it on", async (place) => {
  const path = place.path();
  const holder = start(place, "bun", ["run", "--label", "first", path, "sh", "-c", "echo up; cat"]);
  assertEquals(await holder.line(), "up");
  const waiter = start(place, "bun", ["run", "--verbose", path, "true"]);
  while (!waiter.errors.includes("\n")) await new Promise((resolve) => waiter.process.stderr?.once("data", resolve));
  assertMatch(waiter.errors, /^holdfast: waiting for \S+, held by .*"first"/);
  holder.close();
  assertEquals(await within(60_000, waiter.ended), { code: 0, signal: null });
});

test("holdfast run brings nothing from a path's name to the terminal that would move its cursor", async (place) => {
  const path = place.path("\x1b[31mred\u009b.lock");
  writeFileSync(`${path}.pid`, "{damaged");
  const { code, err } = await holdfast(place, "bun", ["run", "-n", path, "true"]);
  assertEquals(code, 1, err);
  assertStringIncludes(err, '("fuser -v ');
  // deno-lint-ignore no-control-regex -- that is what must not be there
  assert(!/[\x00-\x09\x0b-\x1f\x7f-\x9f]/.test(err), JSON.stringify(err));
});

test("holdfast run --verbose says which lock, how, and what COMMAND is given", async (place) => {
  const { err, code } = await holdfast(place, "bun", ["run", "--verbose", "job", "true"]);
  assertEquals(code, 0);
  const lines = err.split("\n");
  assertMatch(
    lines[0],
    /^holdfast: got \S+\/named\/job\.lock \(exclusive\) after .*: flock\(2\) through the runtime's FFI$/,
  );
  assertMatch(lines[1], /^holdfast: executing true; the lock is its descriptor 3$/);
  assertMatch(lines[2], /^holdfast: it ended with 0 after /);
});

test("holdfast run in a Deno without FFI says in --verbose that COMMAND has no lock of its own", async ({ child, dir, path }) => {
  const [deno, ...flags] = CLI.deno();
  const allowed = flags.map((each) =>
    each === "-A" ? "--allow-read,--allow-write,--allow-run,--allow-env,--allow-sys" : each
  )
    .flatMap((each) => each.split(",")).concat("run", "--verbose", path(), "true");
  const run = child(deno, allowed, { cwd: dir, env: { ...process.env, NO_COLOR: "1" } });
  run.close();
  assertEquals(await within(60_000, run.ended), { code: 0, signal: null }, run.errors);
  assertMatch(
    run.errors,
    /executing true; it does not get the lock, and after a "kill -9" of pid \d+ would run on without/,
  );
});

test("holdfast run ends with flock(1)'s statuses where it cannot lock: 64, 66, 69, 73", async (place) => {
  const cases: [args: string[], code: number, message: RegExp][] = [
    [["run"], 64, /^holdfast: run: it takes a LOCK and a COMMAND\n/],
    [["run", "job"], 64, /it takes a COMMAND to run under job\n/],
    [["run", "a b", "true"], 64, /a path contains a "\/": "\.\/a b"\n/],
    [["run", "", "true"], 64, /LOCK is empty\n/],
    [["run", "-w", "soon", "job", "true"], 64, /--wait needs a number of 0 or more: received "soon"\n/],
    [["run", "-E", "256", "job", "true"], 64, /from 0 to 255: received "256"\n/],
    [["run", "-oF", "job", "true"], 64, /--no-fork and --close exclude each other\n/],
    [["run", "-n", "--signal-holder", "job", "true"], 64, /--signal-holder waits/],
    [["run", "--signal-holder=KIL", "job", "true"], 64, /there is no signal "KIL"\n/],
    [["run", place.path("none/a.lock"), "true"], 66, /its directory .* does not exist\n/],
    [["run", place.dir, "true"], 66, /EISDIR/],
    [["run", "--label", "x".repeat(201), "job", "true"], 64, /at most 200 characters: received 201\n/],
  ];
  for (const [args, code, message] of cases) {
    const { code: status, err, out } = await holdfast(place, "bun", args);
    assertEquals([status, out], [code, ""], `${args}: ${err}`);
    assertMatch(err, message);
  }
});

test("holdfast run works with closed descriptors, and with a long command line", async (place) => {
  const path = place.path();
  for (const kind of FFI_KINDS) {
    const [program, ...args] = CLI[kind]();
    const closed = place.child("sh", ["-c", '"$@" <&- >&-', "sh", program, ...args, "run", path, "true"], {
      cwd: place.dir,
    });
    assertEquals(await within(60_000, closed.ended), { code: 0, signal: null }, closed.errors);
  }
  assertEquals(readFileSync(path, "utf8"), "");
  const long = Array.from({ length: 2000 }, (_, i) => `argument-${i}`);
  const { code, out } = await holdfast(place, "bun", ["run", path, "sh", "-c", "echo $#", "sh", ...long]);
  assertEquals([code, out], [0, "2000\n"]);
});

test("holdfast run waits on a terminal for a lock file that another program has leased, and then runs COMMAND", async (place) => {
  const path = place.path();
  writeFileSync(path, "");
  const lessee = await lease(place, path);
  const terminal = onTerminal(place, [...CLI.bun(), "run", path, "echo", "it ran"], { NO_COLOR: "1" });
  // Shown after 100 ms, without a line break.
  let shown = "";
  terminal.process.stdout?.on("data", (bytes: Uint8Array) => shown += String(bytes));
  const told = async () => {
    while (!shown.includes(`: pid ${lessee.pid} has a lease`)) await new Promise((resolve) => setTimeout(resolve, 5));
  };
  await within(60_000, told());
  lessee.write("\n");
  assertEquals((await within(60_000, terminal.ended)).code, 0, shown);
  assertStringIncludes(shown, "it ran");
});

/** Signals to `holdfast run`: no lock without the work, and no work without the lock. */
import { assertEquals, assertMatch } from "@std/assert";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { fromFileUrl } from "@std/path";
import { Lock } from "../../mod.ts";
import { assertKeeps, CLI, type CliKind, FFI_KINDS, start } from "../support/cli.ts";
import { type Child, test, within } from "../support/harness.ts";
import { needs } from "../support/needs.ts";
import { until } from "../support/pid_files.ts";
import { onTerminal } from "../support/terminal.ts";
import { PYTHON } from "../support/needs.ts";

const KINDS = [...FFI_KINDS, "node20"] as const satisfies CliKind[];

/** Not `ChildProcess.kill`, after which Deno takes it for dead. */
const send = ({ pid }: Child, signal: NodeJS.Signals) => void process.kill(pid, signal);

const SIGNALS = ["HUP", "INT", "QUIT", "USR1", "USR2", "ALRM", "TERM"] as const;

/** Tells of each signal; of TERM it ends. */
const TELLING = [PYTHON, fromFileUrl(new URL("../fixtures/telling.py", import.meta.url))];

const exists = (pid: number) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false; // ESRCH: that is the answer
  }
};

/** Whether a process has an inotify watch. */
function watches(pid: number): boolean {
  try {
    return readdirSync(`/proc/${pid}/fdinfo`)
      .some((fd) => readFileSync(`/proc/${pid}/fdinfo/${fd}`, "utf8").includes("inotify wd:"));
  } catch {
    return false; // a descriptor that is gone by now
  }
}

/** Two signals of a kind within 200 ms may be told wrongly; and a second delivery would come within 50 ms. */
const apart = () => new Promise((resolve) => setTimeout(resolve, 250));

/** The first child of a process. */
function childOf(pid: number): number {
  try {
    return parseInt(readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8"));
  } catch {
    return NaN; // it has ended
  }
}

for (const kind of KINDS) {
  test(`holdfast run in ${kind} passes every signal on to COMMAND, once, and ends as that does`, async (place) => {
    const path = place.path();
    const run = start(place, kind, ["run", path, ...TELLING]);
    const command = parseInt(await run.line());
    for (const name of SIGNALS) {
      assertEquals(Lock.inspect(path).state, "held");
      send(run, `SIG${name}`);
      assertEquals(await within(60_000, run.line()), name);
    }
    assertEquals(await within(60_000, run.ended), { code: 9, signal: null }, run.errors);
    assertEquals(await run.line(), "counted 1");
    assertEquals(await run.line().catch(() => "nothing more"), "nothing more", "a signal came twice");
    assertEquals(exists(command), false);
    assertEquals(new Lock(path).tryAcquire(), true);
  });

  test(`holdfast run in ${kind}: COMMAND gets a signal to the whole process group once, and one to holdfast once`, async (place) => {
    const run = start(place, kind, ["run", place.path(), ...TELLING]); // setsid(1) makes it the leader of its group
    await run.line();
    for (const name of ["INT", "HUP", "TERM"]) {
      for (const target of name === "TERM" ? [-run.pid] : [-run.pid, run.pid, -run.pid]) {
        process.kill(target, `SIG${name}`);
        assertEquals(await within(10_000, run.line()), name);
        await apart();
      }
    }
    assertEquals(await within(10_000, run.ended), { code: 9, signal: null }, run.errors);
    assertEquals(await run.line(), "counted 3");
  });

  test(`holdfast run in ${kind}: a COMMAND that has left the process group gets what was sent to that`, async (place) => {
    const run = start(place, kind, ["run", place.path(), "timeout", "60", ...TELLING]);
    await run.line();
    process.kill(-run.pid, "SIGTERM");
    assertEquals(await within(10_000, run.line()), "TERM");
    await within(10_000, run.ended);
  });

  for (const [signal, code] of [["SIGTERM", 143], ["SIGINT", 130], ["SIGHUP", 129]] as const) {
    test(`holdfast run in ${kind}: ${signal} ends COMMAND, which does nothing about it, and the lock is free`, async (place) => {
      const run = start(place, kind, ["run", place.path(), "sh", "-c", "echo $$; exec sleep 60"]);
      const command = Number(await run.line());
      send(run, signal);
      assertEquals(await within(60_000, run.ended), { code, signal: null }, run.errors);
      assertEquals(exists(command), false);
      assertEquals(new Lock(place.path()).tryAcquire(), true);
    });
  }

  test(`holdfast run in ${kind}: after kill -9 COMMAND still holds the lock, is named as its holder, and frees it at its end`, async (place) => {
    const path = place.path();
    const run = start(place, kind, ["run", path, "sh", "-c", "echo $$; exec sleep 60"]);
    const command = Number(await run.line());
    await run.kill("SIGKILL");
    try {
      assertKeeps(path, command);
      assertEquals(new Lock(path, { onStale() {} }).tryAcquire(), false);
    } finally {
      process.kill(command, "SIGKILL"); // nobody else is left who would
    }
    const dead: (number | undefined)[] = [];
    await new Lock(path, { onStale: ({ pid }) => dead.push(pid) }).acquire({ timeout: 10_000 });
    assertEquals(dead, [run.pid], "that it was killed is told to the next");
  });

  test(`holdfast run in ${kind}: a signal that comes while it releases leaves no record, and COMMAND's status`, async (place) => {
    const path = place.path();
    writeFileSync(path, "");
    // The kernel gives it SIGTERM in the very call that clears the record.
    const inject = ["-e", "trace=ftruncate", "-e", "inject=ftruncate:signal=SIGTERM:when=1", "-P", path];
    const by = ["setsid", "strace", "-f", "-qq", "-o", place.path("log"), ...inject];
    const run = start(place, kind, ["run", path, "sh", "-c", "exit 3"], { by });
    assertEquals(await within(20_000, run.ended), { code: 3, signal: null }, run.errors);
    assertMatch(readFileSync(place.path("log"), "utf8"), /ftruncate.*\n.*SIGTERM/);
    assertEquals(readFileSync(path, "utf8"), "");
  });

  test(`holdfast run in ${kind}: a signal while it waits ends it, and the holder keeps the lock`, async (place) => {
    const path = place.path();
    using holder = new Lock(path);
    holder.acquireSync();
    const run = start(place, kind, ["run", "--verbose", path, "echo", "ran"]);
    // It waits once it watches the file: inotify has no other sign, so ask the kernel for its descriptors.
    while (!watches(run.pid)) await new Promise((resolve) => setImmediate(resolve));
    send(run, "SIGTERM");
    assertEquals(await within(60_000, run.ended), { code: null, signal: "SIGTERM" }, run.errors);
    assertEquals(holder.inspect().holder?.pid, process.pid);
  });
}

for (const kind of KINDS) {
  for (const [signal, code] of [["SIGTERM", 143], ["SIGINT", 130]] as const) {
    test(`holdfast run in ${kind}, which waits as the first process of a container: ${signal} ends it`, async (place) => {
      needs("root", "unshare");
      const path = place.path();
      using holder = new Lock(path);
      holder.acquireSync();
      const by = ["setsid", "unshare", "-pf", "--kill-child", "--mount-proc"];
      const run = start(place, kind, ["run", "--verbose", path, "true"], { by });
      await until("it is started", () => childOf(run.pid) > 0);
      const first = childOf(run.pid);
      await until("it waits", () => watches(first));
      process.kill(first, signal);
      assertEquals(await within(10_000, run.ended), { code, signal: null }, run.errors);
    });
  }
}

test("holdfast run --no-fork under kill -9 leaves nothing", async (place) => {
  const path = place.path();
  const run = start(place, "bun", ["run", "-F", path, "sh", "-c", "echo $$; exec cat"]);
  assertEquals(Number(await run.line()), run.pid);
  await run.kill("SIGKILL");
  await new Lock(path).acquire({ timeout: 10_000 });
});

test("holdfast run keeps from COMMAND what nohup has had ignored", async (place) => {
  for (const kind of ["deno", "bun"] as const) { // Node forgets it before any of our code runs
    const run = start(place, kind, ["run", place.path(), "sh", "-c", "kill -HUP $PPID $$; echo still here"], {
      by: ["setsid", "sh", "-c", `trap '' HUP; exec "$@"`, "sh"],
    });
    assertEquals(await within(60_000, run.line()), "still here");
    assertEquals(await within(60_000, run.ended), { code: 0, signal: null }, run.errors);
  }
});

test("holdfast run on a terminal: Ctrl-C reaches COMMAND once", async (place) => {
  const terminal = onTerminal(place, [...CLI.bun(), "run", place.path(), ...TELLING]);
  const said = async (what: RegExp) => {
    for (;;) {
      const found = what.exec(await within(60_000, terminal.line()));
      if (found) return found[0];
    }
  };
  const pid = Number((await said(/^\d+ \d+/)).split(" ")[1]);
  terminal.write("\x03"); // the terminal makes it SIGINT, for all in the foreground
  await said(/INT/);
  // Bun answers signals that come together in any order: after this one, SIGINT has been answered too.
  process.kill(pid, "SIGUSR1");
  await said(/USR1/);
  process.kill(pid, "SIGTERM");
  assertEquals(await said(/counted \d/), "counted 1");
  assertEquals(await within(60_000, terminal.ended), { code: 9, signal: null });
});

/** The examples and the README: each does what it says. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { Lock } from "../../mod.ts";
import { type Child, type Place, test, within } from "../support/harness.ts";
import { closed, COMMANDS, readmeRuns, repository, type Runtime, RUNTIMES } from "../support/readme.ts";
import { deno } from "../support/tools.ts";

/** Starts an example. */
function start({ child }: Place, runtime: Runtime, name: string, ...args: string[]) {
  const [command, ...flags] = COMMANDS[runtime]();
  return child(command, [...flags, `examples/${name}`, ...args], { cwd: repository });
}

/** Not `ChildProcess.kill`: in Deno that makes the end look like a death by the signal, whatever it was. */
const terminate = ({ pid }: Child) => void process.kill(pid, "SIGTERM");

for (const [one, other] of [["deno", "bun"], ["bun", "node26"]] as const) {
  test(`counter.ts: 1,000 increments in ${one} and 1,000 in ${other} at once make exactly 2,000`, async (place) => {
    const file = place.path("counter.txt");
    const both = [one, other].map((runtime) => start(place, runtime, "counter.ts", file, "1000"));
    for (const each of both) {
      assertEquals(await within(280_000, each.ended), { code: 0, signal: null }, each.errors);
      assertEquals(await each.line(), "added 1000");
    }
    assertEquals(readFileSync(file, "utf8"), "2000");
  }, { timeout: 300_000 }); // a second on an idle machine
}

for (const runtime of RUNTIMES) {
  test(`nightly.ts in ${runtime}: a second start names the first and ends with 0, and after kill -9 the third has the lock`, async (place) => {
    const path = place.path("nightly.lock");
    const first = start(place, runtime, "nightly.ts", path, "60");
    assertEquals(await first.line(), `pid ${first.pid} has the lock (flock) and works for 60 s`);

    const second = start(place, runtime, "nightly.ts", path, "60");
    assertEquals(await second.ended, { code: 0, signal: null });
    await closed(second);
    assertStringIncludes(second.errors, `already running: pid ${first.pid} (`);
    assertStringIncludes(second.errors, `"nightly"`);

    await first.kill();
    const third = start(place, runtime, "nightly.ts", path, "0");
    assertEquals(await third.line(), `pid ${third.pid} has the lock (flock) and works for 0 s`);
    assertEquals(await third.line(), "done");
    assertEquals(await third.ended, { code: 0, signal: null });
    await closed(third);
    assertStringIncludes(third.errors, `died without releasing it: pid ${first.pid} (`);
    assertMatch(third.errors, /; this process has taken over\n$/m); // in a cron mail it is no failure
    assertEquals(readFileSync(path, "utf8"), "");
  });

  test(`daemon.ts in ${runtime}: SIGTERM drains it and releases the lock, and the daemon that waited takes over`, async (place) => {
    const path = place.path("daemon.lock");
    const old = start(place, runtime, "daemon.ts", path);
    assertEquals(await old.line(), `pid ${old.pid} serves`);
    const next = start(place, runtime, "daemon.ts", path);
    assertStringIncludes(await next.line(), `pid ${next.pid} waits for pid ${old.pid} (`);
    terminate(old);
    assertMatch(await old.line(), /^drained after \d+ pieces of work$/);
    assertEquals(await old.line(), "released");
    assertEquals(await old.ended, { code: 0, signal: null });

    assertEquals(await next.line(), `pid ${next.pid} serves`);
    terminate(next);
    assertEquals(await next.ended, { code: 0, signal: null });
    await closed(next);
    assertEquals([old.errors, next.errors], ["", ""]); // no stale holder was reported
    assertEquals(readFileSync(path, "utf8"), "");
    const lock = new Lock(path);
    assert(lock.tryAcquire());
    lock.release();
  });

  test(`daemon.ts in ${runtime}: SIGTERM while it waits ends it with 1, and the holder keeps the lock`, async (place) => {
    const path = place.path("daemon.lock");
    using holder = new Lock(path);
    assert(holder.tryAcquire());
    const before = readFileSync(path, "utf8");
    const daemon = start(place, runtime, "daemon.ts", path);
    assertStringIncludes(await daemon.line(), `pid ${daemon.pid} waits for pid ${process.pid} (`);
    terminate(daemon);
    assertEquals(await daemon.ended, { code: 1, signal: null });
    await closed(daemon);
    assertStringIncludes(daemon.errors, "SIGTERM came before the lock was free");
    assertEquals(readFileSync(path, "utf8"), before);
  });
}

test("demo.ts: ends with 0 and names the killed process, in Deno and in Bun", async (place) => {
  const demo = place.child(deno(), ["task", "--quiet", "demo"], { cwd: repository });
  let output = "";
  demo.process.stdout!.on("data", (text) => output += text); // `!`: it is a pipe
  assertEquals(await within(60_000, demo.ended), { code: 0, signal: null }, demo.errors);
  await closed(demo);
  const killed = [...output.matchAll(/The job is killed: kill -9 (\d+)/g)].map(([, pid]) => pid);
  assertEquals(killed.length, 2);
  for (const pid of killed) {
    assertStringIncludes(output, `already running: pid ${pid} (`);
    assertStringIncludes(output, `died without releasing it: pid ${pid} (`);
  }
  assertStringIncludes(output, "flock(LOCK_EX|LOCK_NB) → EWOULDBLOCK");
  assertStringIncludes(output, "holder in Bun, contender in Deno");
  assertStringIncludes(output, "All as told");
  assert(!output.includes("\x1b"), "no colour into a pipe");
});

test("README.md: every block of code runs as it stands in node26, with the package installed", (place) =>
  readmeRuns(place, "node26")); // in the other runtimes: tests/long/readme_test.ts

test("README.md: every file that it names is there", () => {
  const readme = readFileSync(join(repository, "README.md"), "utf8");
  const named = [...readme.matchAll(/\]\(([^):]+)\)/g)].map(([, file]) => file);
  assert(named.length > 10);
  assertEquals(named.filter((file) => !existsSync(join(repository, file))), []);
});

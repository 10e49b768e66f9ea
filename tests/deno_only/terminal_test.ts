/** Deno with few permissions or none, on a terminal, where it would ask for more. */
import { assertEquals, assertMatch } from "@std/assert";
import { existsSync, writeFileSync } from "node:fs";
import { fromFileUrl } from "@std/path";
import { type Place, test, within } from "../support/harness.ts";
import { onTerminal } from "../support/terminal.ts";
import { deno } from "../support/tools.ts";

const program = fromFileUrl(new URL("../fixtures/terminal.mjs", import.meta.url));
/** Starts Deno on a terminal of its own. */
const denoOnTerminal = (place: Place, args: string[]) =>
  onTerminal(place, [deno(), "run", "--quiet", "--no-lock", ...args]);

/** Runs the fixture; everything that appeared on the terminal has to be its one line. */
async function result(place: Place, flags: string[]): Promise<Record<string, unknown>> {
  // Some process's PID file, whose owner must be asked for: that needs permissions too.
  writeFileSync(place.path("foreign.lock.pid"), "1\n");
  const terminal = denoOnTerminal(place, [...flags, program, place.path(), place.dir]);
  // A question would wait for its answer here, and be the line instead.
  const line = await within(60_000, terminal.line());
  assertMatch(line, /^\{.*\}\s*$/);
  assertEquals(await within(60_000, terminal.ended), { code: 0, signal: null });
  // Nothing after it either: the output has ended, and a line more would have been one.
  assertEquals(await terminal.line().catch(() => "no more"), "no more");
  assertEquals(terminal.errors, "");
  return JSON.parse(line);
}

const DENIED = { error: "LockError", code: "EACCES" };

test("deno asks on the terminal of these tests, so that one on which nothing is asked means something", async (place) => {
  const asking = 'data:application/javascript,import{readFileSync}from"node:fs";readFileSync("/etc/passwd")';
  const terminal = denoOnTerminal(place, [asking]);
  const question = async () => {
    for (;;) {
      const line = await terminal.line();
      if (line.includes("requests")) return line;
    }
  };
  assertMatch(await within(60_000, question()), /read access to "\/etc\/passwd"/);
});

test("tryAcquire() in Deno with --allow-read and --allow-write for one directory holds the kernel lock and asks nothing", async (place) => {
  const { way, ...rest } = await result(place, [`--allow-read=${place.dir}`, `--allow-write=${place.dir}`]);
  assertEquals(rest, {
    relative: true,
    try: true,
    pidFile: false,
    pidFileState: "unknown",
    wait: { error: "LockTimeoutError", code: "ETIMEDOUT" },
    inspect: "held",
    fd: null,
    scan: "held,unknown,held", // its own two, and in between the PID file of a process that it may not ask about
    history: 0,
    lockDirectory: DENIED,
    named: DENIED,
    process: "alive",
    otherProcess: "unknown",
    release: null,
  });
  assertMatch(String(way), /FsFile.*without --allow-ffi/);
});

test("tryAcquire() in Deno without any permission throws EACCES and asks nothing", async (place) => {
  const { way: _, ...rest } = await result(place, []);
  assertEquals(rest, {
    relative: DENIED,
    try: DENIED,
    pidFile: DENIED,
    pidFileState: DENIED,
    wait: DENIED,
    inspect: DENIED,
    fd: null,
    scan: DENIED,
    history: DENIED,
    lockDirectory: DENIED,
    named: DENIED,
    process: "alive",
    otherProcess: "unknown",
    release: { error: "LockNotHeldError", code: "ENOTHELD" },
  });
  assertEquals(existsSync(place.path()), false);
});

test("tryAcquire() in Deno with --allow-read alone throws EACCES, makes no file and asks nothing", async (place) => {
  const { try: first, wait } = await result(place, [`--allow-read=${place.dir}`]);
  assertEquals([first, wait], [DENIED, DENIED]);
  assertEquals(existsSync(place.path()), false);
});

/** `holdfast flock` and flock(1) take one lock; who keeps it when one of them dies; what wakes and ends a waiter. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import process from "node:process";
import { Lock } from "../../mod.ts";
import { FLOCKS } from "../support/flocks.ts";
import { type Child, type Place, test, within } from "../support/harness.ts";
import { PYTHON } from "../support/needs.ts";

type Kind = keyof typeof FLOCKS;
const OURS = ["deno", "bun", "node26"] as const satisfies Kind[];
const ALL = [...OURS, "flock"] as const satisfies Kind[];

/** Starts one. */
function start({ child, dir }: Place, kind: Kind, ...args: string[]): Child {
  const [command, ...before] = FLOCKS[kind]();
  return child(command, [...before, ...args], { cwd: dir });
}

/** Runs one to its end; its status. */
async function status(place: Place, kind: Kind, ...args: string[]): Promise<number | null> {
  return (await within(60_000, start(place, kind, ...args).ended)).code;
}

/** A command that prints its PID, then works until `finish` is called. */
function work(place: Place) {
  const fifo = place.path("fifo");
  execFileSync("mkfifo", [fifo]);
  return { command: ["sh", "-c", "echo $$; read line <fifo"], finish: () => writeFileSync(fifo, "\n") };
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}

/** Waits until the kernel shows the process as waiting for a lock. */
const waiting = ({ pid }: Child) =>
  until(() => new RegExp(`-> FLOCK .* ${pid} `).test(readFileSync("/proc/locks", "utf8")));

/** The files that a process has open. */
const opened = (pid: number) =>
  readdirSync(`/proc/${pid}/fd`).map((fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`);
    } catch {
      return ""; // closed since
    }
  });

for (const holder of ALL) {
  test(`flock in ${holder} excludes Lock, flock(1) and holdfast flock in each runtime, until its command ends`, async (place) => {
    const holds = start(place, holder, "lock", "sh", "-c", "echo held; read line");
    assertEquals(await within(60_000, holds.line()), "held");
    const tries = ALL.map((kind, i) => status(place, kind, i % 2 ? "-snE9" : "-nE9", "lock", "true"));
    assertEquals(await Promise.all(tries), [9, 9, 9, 9]);
    const lock = new Lock(place.path("lock"));
    assertEquals(lock.tryAcquire(), false);
    holds.close();
    assertEquals((await within(60_000, holds.ended)).code, 1); // read found the end of its input
    assert(lock.tryAcquire());
    lock.release();
  });
}

test("flock in each runtime finds a lock held that Lock holds, and writes nothing into the file", async (place) => {
  using lock = new Lock(place.path("lock"));
  assert(lock.tryAcquire());
  const record = readFileSync(lock.path, "utf8");
  assertEquals(await Promise.all(ALL.map((kind) => status(place, kind, "-n", "lock", "true"))), [1, 1, 1, 1]);
  assertEquals(readFileSync(lock.path, "utf8"), record);
  lock.release();
  const after = readFileSync(lock.path, "utf8");
  for (const kind of ALL) assertEquals(await status(place, kind, "lock", "true"), 0);
  assertEquals(readFileSync(lock.path, "utf8"), after);
});

for (const kind of ALL) {
  test(`flock in ${kind}, killed with SIGKILL, leaves the lock to its command until that ends`, async (place) => {
    const { command, finish } = work(place);
    const holder = start(place, kind, "lock", ...command);
    assertMatch(await within(60_000, holder.line()), /^\d+$/);
    await holder.kill();
    assertEquals(await status(place, "flock", "-n", "lock", "true"), 1);
    const next = start(place, "flock", "lock", "echo", "mine");
    await within(60_000, waiting(next));
    finish();
    assertEquals(await within(60_000, next.line()), "mine");
  });

  test(`flock -o in ${kind}, killed with SIGKILL, leaves nothing to its command, which goes on`, async (place) => {
    const { command, finish } = work(place);
    const holder = start(place, kind, "-o", "lock", ...command);
    const pid = Number(await within(60_000, holder.line()));
    assertEquals(await status(place, "flock", "-n", "lock", "true"), 1);
    await holder.kill();
    assertEquals(await status(place, "flock", "-n", "lock", "true"), 0);
    assert(process.kill(pid, 0));
    finish();
  });

  test(`flock -F in ${kind} becomes its command, and the lock ends with it`, async (place) => {
    const holder = start(place, kind, "-F", "lock", "sh", "-c", "echo $$; read line");
    assertEquals(await within(60_000, holder.line()), `${holder.pid}`);
    assertEquals(await status(place, "flock", "-n", "lock", "true"), 1);
    await holder.kill();
    assertEquals(await status(place, "flock", "-n", "lock", "true"), 0);
  });
}

for (const kind of OURS) {
  test(`flock in ${kind} waits in the kernel, ends at once of SIGINT, and is woken by a release`, async (place) => {
    const held = new Lock(place.path("lock"));
    assert(held.tryAcquire());
    const [patient, other] = ["mine", "never"].map((word) => start(place, kind, "lock", "echo", word));
    await within(60_000, Promise.all([patient, other].map(waiting)));
    process.kill(other.pid, "SIGINT");
    assertEquals(await within(60_000, other.ended), { code: null, signal: "SIGINT" });
    held.release();
    assertEquals(await within(60_000, patient.line()), "mine");
    assertEquals(await within(60_000, patient.ended), { code: 0, signal: null });
  });

  test(`flock -w in ${kind} takes a lock that becomes free in time`, async (place) => {
    const held = new Lock(place.path("lock"));
    assert(held.tryAcquire());
    const waiter = start(place, kind, "--verbose", "-w", "60", "lock", "echo", "mine");
    const first = waiter.line();
    await within(60_000, until(() => opened(waiter.pid).includes(held.path)));
    held.release();
    assertMatch(await within(60_000, first), /^flock: getting lock took \d+\.\d{6} seconds$/);
  });

  test(`flock in ${kind} hands on both ends of a pipe, as make's job server gives them`, async (place) => {
    const parent = "import os, subprocess, sys; r, w = os.pipe(); " +
      "subprocess.run(sys.argv[1:] + [f'/proc/self/fd/{n}' for n in (r, w)], pass_fds=(r, w))";
    const make = place.child(PYTHON, ["-c", parent, ...FLOCKS[kind](), "lock", "readlink"], { cwd: place.dir });
    const end = await within(60_000, make.line());
    assertMatch(end, /^pipe:/);
    assertEquals(await within(60_000, make.line()), end);
  });
}

test("flock in Deno without --allow-ffi says what is missing, and ends with 69", async (place) => {
  const [command, ...args] = FLOCKS.deno().map((arg) => arg === "-A" ? "--allow-read" : arg);
  const refused = place.child(command, [...args, place.path(), "true"]);
  assertEquals((await within(60_000, refused.ended)).code, 69);
  assertMatch(refused.errors, /^flock: .*--allow-ffi/);
  // What takes no lock needs none.
  for (const option of ["--help", "--version"]) {
    assertEquals((await within(60_000, place.child(command, [...args, option]).ended)).code, 0, option);
  }
});

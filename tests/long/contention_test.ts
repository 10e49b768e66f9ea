/**
 * Contenders in every runtime, killed and stopped at random moments: the short
 * form. `deno task contention` is the long one.
 */
import { assert, assertEquals } from "@std/assert";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after } from "node:test";
import { runGarbage } from "../torture/contention/garbage.ts";
import { runLoop, runMixed } from "../torture/contention/long.ts";
import { markerModules, type Modules, mutantModules, naiveModules, ownModules } from "../torture/contention/modules.ts";
import { Random } from "../torture/contention/random.ts";
import { MIX, MUTANT_MIX, runRounds } from "../torture/contention/rounds.ts";
import { enter, isAlive } from "../torture/contention/witness.mjs";
import { type Kind, test } from "../support/harness.ts";

/** Another run has another seed, and says which. */
const seed = Number(process.env.HOLDFAST_TEST_SEED ?? Math.floor(Math.random() * 2 ** 31));
console.log(`contention: HOLDFAST_TEST_SEED=${seed}`);

const home = mkdtempSync(join(tmpdir(), "holdfast-own-"));
after(() => rmSync(home, { recursive: true, force: true }));
let copied: Modules | undefined;
const own = () => copied ??= ownModules(home);

const rounds = (name: string, modules: Modules, kinds: readonly Kind[], count: number, dir: string, enough?: number) =>
  runRounds({
    ...{ name, rounds: count, seed, dir, enough },
    recruits: kinds.map((kind) => ({ kind, modules, dir })),
    limit: modules.lock === "holdfast" ? 20_000 : 4_000,
  });

const folder = (dir: string, name: string) => {
  mkdirSync(join(dir, name));
  return join(dir, name);
};

test("enter() sees the living who are inside, and neither the dead nor those who left", async ({ dir, child }) => {
  const other = child("sleep", ["60"]);
  const first = enter(dir, other.pid);
  assertEquals(first.others, []);
  const second = enter(dir);
  assertEquals(second.others, [other.pid]);
  const third = enter(dir); // a process is a stranger to itself: two Lock objects in it must exclude each other
  assertEquals(third.others.sort(), [other.pid, process.pid].sort());
  third.leave();
  second.leave();
  await other.kill();
  assertEquals(isAlive(other.pid), false);
  assertEquals(enter(dir).others, []);
});

test("Random gives the same numbers for the same seed, and others for another", () => {
  const numbers = (seed: number, stream: number) => {
    const random = new Random(seed, stream);
    return Array.from({ length: 5 }, () => random.next());
  };
  assertEquals(numbers(7, 17), numbers(7, 17));
  const first = [numbers(7, 17), numbers(7, 18), numbers(8, 17)].map((each) => each[0]);
  assertEquals(new Set(first).size, 3);
});

test("runRounds() finds two inside a naive lock: exists, dead, unlink, create", async ({ dir }) => {
  const { doubles, rounds: done } = await rounds("naive", naiveModules, MIX, 60, dir, 1);
  console.log(`naive: two inside after ${done} rounds`);
  assertEquals(doubles, 1);
});

test("runRounds() finds that nobody can enter again where a dead owner's file is never judged", async ({ dir }) => {
  const { stuck, shutOut } = await runRounds({
    // Not any seed: in one of six nobody is left alive to be shut out.
    ...{ name: "marker", rounds: 1, seed: 2, dir, limit: 100 },
    recruits: (["bun", "node20"] as const).map((kind) => ({ kind, modules: markerModules, dir })),
  });
  assert(stuck === 1 && shutOut > 0);
});

test("runMixed() finds the overlap in a mutant of src/backend/pidfile.ts: no look at P", async ({ dir }) => {
  const modules = mutantModules("no look at P", folder(dir, "mutant"));
  const { doubles, counter, times } = await runMixed(modules, 2, folder(dir, "run"), ["bun", "deno"]);
  const sum = Object.values(times).reduce((a, b) => a + b, 0);
  console.log(`mutant: ${doubles} overlaps, the counter says ${counter} of ${sum}`);
  assert(doubles > 0);
});

test("runGarbage() finds the litter of a mutant of src/backend/pidfile.ts: no sweep", async ({ dir }) => {
  const { left } = await runGarbage(mutantModules("no sweep", folder(dir, "mutant")), 10, seed, folder(dir, "run"), [
    "bun",
  ]);
  assert(left.length >= 2, String(left));
});

test("runRounds() finds two inside a mutant of src/backend/pidfile.ts: unlink and recreate", async ({ dir }) => {
  const modules = mutantModules("unlink and recreate", folder(dir, "mutant"));
  const { doubles, rounds: done } = await rounds("mutant", modules, MUTANT_MIX, 60, folder(dir, "rounds"), 1);
  console.log(`mutant: two inside after ${done} rounds`);
  assertEquals(doubles, 1);
});

test(
  "acquire() by PID file lets no two of 8 in after a dead owner, though some are killed, and always one",
  async ({ dir }) => {
    const result = await rounds("holdfast", own(), MIX, 60, dir);
    console.log(JSON.stringify(result));
    const { failures, doubles, stuck, shutOut } = result;
    assertEquals({ failures, doubles, stuck, shutOut }, { failures: [], doubles: 0, stuck: 0, shutOut: 0 });
    // What was to be shown did happen.
    assert(result.entered > 300 && result.takeovers > 20 && result.kills > 10 && result.stops > 10);
  },
  { timeout: 300_000 },
);

test("acquire() excludes the other back end: a counter of 4 kernel and 4 PID-file processes is exact", async ({ dir }) => {
  const { times, counter, doubles, stuck } = await runMixed(own(), 6, dir);
  const sum = Object.values(times).reduce((a, b) => a + b, 0);
  assertEquals({ counter, doubles, stuck }, { counter: sum, doubles: 0, stuck: [] });
});

test("acquire() leaves no litter: after 300 takeovers with crashes there is at most one PID file", async ({ dir }) => {
  const result = await runGarbage(own(), 300, seed, dir);
  console.log(JSON.stringify(result));
  const { failures, doubles, left, written, kills } = result;
  assertEquals({ failures, doubles }, { failures: [], doubles: 0 });
  assertEquals(left.filter((name) => name !== "lock" && name !== "lock.pid"), []);
  assert(written > 200 && kills > 3);
}, { timeout: 300_000 });

test("acquire() and release() throw nothing in a tight loop of 4 processes for 10 s, by kernel and by PID file", async ({ dir }) => {
  const loops = (["flock", "pidfile"] as const).map((backend) => runLoop(own(), backend, 10, join(dir, backend)));
  const [kernel, pidFile] = await Promise.all(loops);
  assertEquals([kernel.stuck, pidFile.stuck], [[], []]);
  assertEquals([kernel.left, pidFile.left], [["lock"], []]);
});

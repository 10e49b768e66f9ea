/** What of the benchmark is the same in every run: system calls, the size, descriptors. Nothing here is timed. */
import { assert, assertEquals } from "@std/assert";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { callsOf, floorDiffers, numbered, oursByRuntime, TRACED, why } from "../../bench/calls.ts";
import { Crew, withWorkers } from "../../bench/crew.ts";
import { candidates, MARGIN, slower } from "../../bench/gate.ts";
import { exponent, fairness, ratioInTurns } from "../../bench/numbers.ts";
import { grower } from "../../bench/inspection.ts";
import { readRecord } from "../../bench/record.ts";
import { packageSize, SIZE_NOW } from "../../bench/size.ts";
import { ownModules } from "../torture/contention/modules.ts";
import { test } from "../support/harness.ts";

/** Ours alone, nothing from npm. */
function ownCrew(dir: string): Crew {
  mkdirSync(join(dir, "own"));
  return new Crew(ownModules(join(dir, "own")), dir, true);
}

/** How deep P lies is the test's affair: Deno without FFI looks at each directory above it. */
const ABOVE = "readlink(a directory above P)";
const shallow = (calls: readonly string[] = []) => calls.filter((call, i) => call !== ABOVE || calls[i - 1] !== ABOVE);

test("tryAcquire() and release() make the system calls that bench/record.json has, and bench/floor.c the same", async ({ dir }) => {
  const crew = ownCrew(dir);
  const found = await oursByRuntime(crew, dir);
  const { calls } = readRecord();
  for (const { where } of crew.ours) {
    for (const form of Object.keys(TRACED)) {
      const now = found.get(where)?.get(form)?.calls ?? [];
      assert(now.includes("flock(fd)"), `${where}, ${form}: strace saw ${now.join(" ") || "nothing"}`);
      assertEquals(
        shallow(now),
        shallow(calls[where]?.[form]),
        `${where}, ${form}: if this is meant, deno task bench writes it anew`,
      );
    }
  }
  assertEquals(await floorDiffers(crew, dir, found.get("Bun") ?? new Map()), []);
});

test("floorDiffers() tells of a floor that makes a call less", async ({ dir }) => {
  const crew = ownCrew(dir);
  const floor = await callsOf(crew.floor, dir, ["new", "again"]);
  const more = (form: string) => ({ calls: [...floor.get(form)?.calls ?? [], "close(fd)"], share: 1 });
  const bun = new Map(Object.entries(TRACED).map(([form, floorForm]) => [form, more(floorForm)]));
  assertEquals((await floorDiffers(crew, dir, bun)).length, Object.keys(TRACED).length);
});

test("bench/calls.ts says what each recorded system call is for", () => {
  const all = Object.values(readRecord().calls).flatMap((forms) => Object.values(forms)).flatMap(numbered);
  assert(all.length > 0);
  assertEquals(all.filter((call) => why(call) === undefined), []);
});

test("mod.ts and all that it loads do not grow unseen, minified and gzipped", ({ dir }) => {
  const size = packageSize(dir);
  assert(size > 1000, `${size} bytes are no package`);
  assert(size < SIZE_NOW, `${size} bytes`);
});

test("acquire() costs no descriptor for each that waits in one process", async ({ dir }) => {
  const crew = ownCrew(dir);
  const growers = (["Deno", "Bun", "Node 26"] as const).map((runtime) => grower(crew, runtime));
  await withWorkers([crew.flock, ...growers], async ([holder, ...workers]) => {
    for (const worker of workers) {
      const path = join(dir, `${worker.pid}.lock`);
      const counts: number[] = [];
      for (const n of [1, 101]) {
        await holder.ask("acquire", path);
        counts.push((await worker.ask<{ descriptors: number }>("wait", n, path)).descriptors);
        await holder.ask("release");
        await worker.ask("drain");
      }
      // Not none: the runtime itself may open some meanwhile.
      assert(counts[1] - counts[0] < 20, `${worker.member.where}: ${counts[0]} with one, ${counts[1]} with 101`);
    }
  });
});

test("slower() names a stable ratio that is past the margin or missing, and none that is not stable", () => {
  const of = { a: [1, 1, 1.1], b: [1, 1, 1.1], c: [1, 1, 1.1], loose: [1, 1, MARGIN] } as const;
  const spread = { runs: 10, load: "0", of };
  assertEquals(candidates(spread), { gate: ["a", "b", "c"], unstable: ["loose"] });
  const run = new Map([["a", MARGIN], ["b", MARGIN + 0.01], ["loose", 100]]);
  assertEquals(slower(run, spread), ["b", "c"]);
});

test("ratioInTurns() compares each turn with its own, so that a disturbed one counts once", () => {
  assertEquals(ratioInTurns([[2, 2], [200, 200], [2, 2]], [[1, 1], [1, 1], [1, 1]]), 2);
  assertEquals(ratioInTurns([[2], [400]], [[1], [200]]), 2);
});

test("exponent() and fairness() are what their names say", () => {
  const points = (power: number) => [1, 10, 100].map((n) => [n, 3 * n ** power] as const);
  for (const power of [0, 1, 2]) assert(Math.abs(exponent(points(power)) - power) < 1e-9);
  assertEquals(fairness([5, 5, 5, 5]), 1);
  assertEquals(fairness([5, 0, 0, 0]), 0.25);
});

/** Eight processes of five runtimes write to one journal. */
import { assert, assertEquals } from "@std/assert";
import { existsSync, readFileSync } from "node:fs";
import { history, type LockEvent } from "../../src/journal.ts";
import { KINDS, test, within } from "../support/harness.ts";

/** Together a little more than fits into one file, and less than into two. */
const TIMES = 90;

test("journal of eight processes has each of their lines, whole and once, over the turn of a file", async ({ path, agent }) => {
  const journal = path("journal");
  const agents = await Promise.all(Array.from({ length: 8 }, (_, i) => agent(KINDS[i % KINDS.length])));
  for (const [i, each] of agents.entries()) {
    // Not one lock, which would keep them apart: each has its own.
    await each.lock(path(`${i}.lock`), { journal, label: `${i}`.padEnd(150, ".") });
  }
  await within(100_000, Promise.all(agents.map((each) => each.call("churn", { name: "lock", times: TIMES }))));
  assert(existsSync(`${journal}.1`), "it was turned over");
  const lines = [`${journal}.1`, journal].filter(existsSync).flatMap((file) => {
    const text = readFileSync(file, "utf8");
    assert(text.endsWith("\n"));
    // A line that is seen in the middle of its writing looks torn, and is ended: that makes an empty one.
    return text.split("\n").filter((line) => line !== "").map((line): LockEvent => JSON.parse(line));
  });
  assertEquals(lines.length, agents.length * TIMES * 2);
  for (const [i, { pid }] of agents.entries()) {
    const own = lines.filter((line) => line.pid === pid).map(({ event }) => event);
    assertEquals(own, Array.from({ length: TIMES * 2 }, (_, j) => j % 2 ? "released" : "acquired"));
    assertEquals(history(path(`${i}.lock`), { journal }).length, TIMES * 2);
  }
  assertEquals(agents.map(({ errors }) => errors).join(""), "");
});

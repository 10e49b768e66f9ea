/** Many processes that fight for one lock: nobody goes without. */
import { assert, assertEquals } from "@std/assert";
import { type Kind, test, within } from "../support/harness.ts";

const PROCESSES = 8, MILLISECONDS = 5_000;

for (const kind of ["deno", "bun", "node26"] satisfies Kind[]) {
  test(`acquire() serves each of ${PROCESSES} processes of ${kind} that fight for one lock`, async ({ path, agent }) => {
    const agents = await Promise.all(Array.from({ length: PROCESSES }, () => agent(kind)));
    for (const each of agents) await each.lock(path());
    const fights = agents.map((each) => each.call("fight", { name: "lock", milliseconds: MILLISECONDS, hold: 1 }));
    const results = await within(60_000, Promise.all(fights));
    const times: number[] = results.map(({ times }) => times);
    const held = results.reduce((sum, { held }) => sum + held, 0) / MILLISECONDS;
    const [least, most] = [Math.min(...times), Math.max(...times)];
    console.log(
      `${kind}: least ${least}, most ${most} (${(least / most).toFixed(2)}), held ${(held * 100).toFixed(0)} %`,
    );
    assert(least > 0, `${times}`);
    assert(most < 1_000 * MILLISECONDS / 1_000, `${times}`); // more would be two at a time
    assertEquals(held < 1.05, true, `held ${held} of the time, which is more than one at a time`);
  });
}

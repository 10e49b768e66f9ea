/**
 * examples/takeover.ts under load: daemons that take over from each other while
 * requests come in all the time. HOLDFAST_TAKEOVERS says how often; 12 unless given.
 */
import { readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import process from "node:process";
import { assert, assertEquals } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { type Child, test, within } from "../support/harness.ts";
import { deno, tool } from "../support/tools.ts";

const example = fromFileUrl(new URL("../../examples/takeover.ts", import.meta.url));
const COMMANDS = [
  () => [deno(), "run", "-A", "--quiet"],
  () => [tool("bun")],
  () => [tool("node26"), "--disable-warning=ExperimentalWarning"],
];
const times = Number(process.env.HOLDFAST_TAKEOVERS ?? 12);

/** Puts requests into a folder, whole or not at all, until stopped; returns how many. */
function client(folder: string): () => number {
  let sent = 0;
  const timer = setInterval(() => {
    const name = String(++sent).padStart(6, "0");
    writeFileSync(join(folder, `${name}.new`), "");
    renameSync(join(folder, `${name}.new`), join(folder, `${name}.request`));
  }, 4);
  return () => (clearInterval(timer), sent);
}

test(
  `takeover.ts hands over ${times} times under load: never two at once, and every request is done once`,
  async (place) => {
    const folder = place.path("requests");
    const start = (i: number): Child => {
      const [command, ...args] = COMMANDS[i % COMMANDS.length]();
      return place.child(command, [...args, example, place.path("t.lock"), folder]);
    };
    let daemon = start(0);
    assertEquals(await within(60_000, daemon.line()), `pid ${daemon.pid} serves`);
    const stop = client(folder);
    const order = [daemon.pid];
    for (let i = 1; i <= times; i++) {
      const next = start(i);
      assertEquals(await within(40_000, next.line()), `pid ${next.pid} serves`, next.errors);
      assertEquals(await within(60_000, daemon.line()), "released");
      assertEquals(await within(60_000, daemon.ended), { code: 0, signal: null });
      assertEquals(daemon.errors, ""); // nor was a stale holder reported
      order.push(next.pid);
      daemon = next;
    }
    const sent = stop();
    const log = join(folder, "done.log");
    const lines = () => readFileSync(log, "utf8").trimEnd().split("\n").map((line) => line.split(" "));
    const began = performance.now();
    while (readdirSync(folder).some((name) => name.endsWith(".request"))) {
      assert(performance.now() - began < 60_000, "requests are left over");
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    await daemon.kill("SIGTERM");
    assertEquals(await within(60_000, daemon.ended), { code: 0, signal: null });

    // The kernel appends in the order of the calls, so what stands between a begin and its end was at the same time.
    const gaps: number[] = [];
    const served: number[] = [];
    const done: string[] = [];
    const log2 = lines();
    for (let i = 0; i < log2.length; i += 2) {
      const [[what, request, pid, from], [then, same, itself]] = [log2[i], log2[i + 1]];
      assertEquals([what, then, same, itself], ["begin", "end", request, pid], `two at once, at line ${i}`);
      if (served.at(-1) !== Number(pid)) {
        if (i > 0) gaps.push(Number(from) - Number(log2[i - 1][3]));
        served.push(Number(pid));
      }
      done.push(request);
    }
    // One after the other; one that was asked to go on at once may have served nothing.
    assertEquals(served, order.filter((pid) => served.includes(pid)));
    assertEquals(done.toSorted(), Array.from({ length: sent }, (_, i) => `${String(i + 1).padStart(6, "0")}.request`));
    gaps.sort((a, b) => a - b);
    const at = (part: number) => gaps[Math.floor((gaps.length - 1) * part)].toFixed(1);
    console.log(
      `${times} hand-overs, ${sent} requests, each done once; ` +
        `from the last request of one to the first of the next: ${at(0.5)} ms (median), ${at(1)} ms (longest)`,
    );
  },
  { timeout: 60_000 + times * 3_000 },
);

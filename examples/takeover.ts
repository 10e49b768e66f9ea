/**
 * A daemon that is restarted without two at once and without a lost request: a
 * new one asks the old one to hand over (SIGTERM, to the verified holder of the
 * lock and to nobody else). The old one finishes the request that it has in
 * hand, releases, and ends; the new one goes on a few milliseconds later.
 *
 * Requests are files in a folder, so one that comes in between waits there.
 *
 *   deno run -A examples/takeover.ts [LOCK [FOLDER]]    and so with bun or node; then start it again
 */
import { appendFileSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { Lock } from "../mod.ts"; // yours: import { Lock } from "@holdfast/lock";

const [path = "takeover.lock", folder = "requests"] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });

const stop = new AbortController();
process.once("SIGTERM", () => stop.abort(new Error("SIGTERM came before the lock was free")));

const lock = new Lock(path, { label: "takeover" });
try {
  await lock.acquire({ timeout: 30_000, signal: stop.signal, signalHolder: "SIGTERM" });
} catch (error) {
  console.error(String(error)); // names who holds it, and why it was not asked
  process.exit(1);
}
console.log(`pid ${process.pid} serves`);
// Aborted: asked to go. Lost: somebody deleted the lock file, and another may serve already.
while (!stop.signal.aborted && !lock.signal.aborted) {
  const requests = readdirSync(folder).filter((name) => name.endsWith(".request")).sort();
  if (requests.length > 0) await handle(requests[0]);
  else await sleep(20);
}
lock.release();
console.log("released");

/** Yours: the work. This one writes down who begins and ends it, and when. */
async function handle(request: string): Promise<void> {
  const note = (what: string) => {
    const now = (performance.timeOrigin + performance.now()).toFixed(3);
    appendFileSync(join(folder, "done.log"), `${what} ${request} ${process.pid} ${now}\n`);
  };
  note("begin");
  await sleep(2);
  note("end");
  rmSync(join(folder, request));
}

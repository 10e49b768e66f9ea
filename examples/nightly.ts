/**
 * A nightly job that overruns must not start twice: the second start says who
 * holds the lock, and ends with 0, so that cron sends no mail. `kill -9` the
 * first, and the next start has the lock at once.
 *
 *   deno run -A examples/nightly.ts [LOCK [SECONDS]]    and so with bun or node
 */
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { Lock } from "../mod.ts"; // yours: import { Lock } from "@holdfast/lock";

const [path = "nightly.lock", seconds = "30"] = process.argv.slice(2);

using lock = new Lock(path, { label: "nightly" });
if (!lock.tryAcquire()) {
  console.error(`already running: ${lock.inspect().holder ?? "by a process that left no record"}`);
  process.exit(0);
}
console.log(`pid ${process.pid} has the lock (${lock.backend}) and works for ${seconds} s`);
await sleep(Number(seconds) * 1000); // yours: the job
console.log("done");

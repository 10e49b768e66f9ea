/**
 * A daemon that a supervisor may start beside its old self: the new one waits
 * until the old one is out. On SIGTERM it finishes what it has in hand, takes
 * nothing new, gives the lock up and ends with 0.
 *
 *   deno run -A examples/daemon.ts [LOCK]    and so with bun or node; then: kill PID
 */
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { Lock } from "../mod.ts"; // yours: import { Lock } from "@holdfast/lock";

const [path = "daemon.lock"] = process.argv.slice(2);

const stop = new AbortController();
for (const name of ["SIGTERM", "SIGINT"] as const) {
  process.once(name, () => stop.abort(new Error(`${name} came before the lock was free`)));
}

const lock = new Lock(path, { label: "daemon" });
try {
  if (!lock.tryAcquire()) {
    console.log(`pid ${process.pid} waits for ${lock.inspect().holder ?? "a process that left no record"}`);
    await lock.acquire({ timeout: 10_000, signal: stop.signal });
  }
} catch (error) {
  console.error(String(error)); // names who holds it, and since when
  process.exit(1);
}
console.log(`pid ${process.pid} serves`);
let served = 0;
while (!stop.signal.aborted) {
  await sleep(100); // yours: one piece of work
  served++;
}
console.log(`drained after ${served} pieces of work`);
lock.release();
console.log("released");

/**
 * What runs in Wine, in one of the ways, while trials.ts looks on:
 *
 *   worker.ts count LOCK COUNTER TIMES   adds 1 to the number in a file, under the lock
 *   worker.ts hold LOCK                  waits for the lock, prints `held PID`, and holds it until it is killed
 *   worker.ts hold-sync LOCK             the same, and blocks while it waits
 *   worker.ts idle                       prints its PID, and does nothing until it is killed
 *   worker.ts exit CODE                  ends with that exit status
 *   worker.ts kill                       ends each process whose id is a line of its standard input
 */
import { readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { createInterface } from "node:readline";
import { Lock } from "../../mod.ts";

const [what, path, counter, times] = process.argv.slice(2);
if (what === "kill") {
  // TerminateProcess. In deno.exe only: bun.exe cannot read from a pipe in Wine 8.
  createInterface({ input: process.stdin }).on("line", (pid) => process.kill(Number(pid), "SIGKILL"));
  console.log("ready");
} else if (what === "idle") {
  console.log(process.pid);
  setInterval(() => {}, 60_000);
} else if (what === "exit") {
  process.exit(Number(path));
} else {
  const lock = new Lock(path, { onStale() {} });
  if (what === "count") await count(lock);
  else await hold(lock);
}

async function count(lock: Lock) {
  for (let i = 0; i < Number(times); i++) {
    // Both ways to wait, so that both are seen to exclude.
    if (i % 2 === 0) lock.acquireSync();
    else await lock.acquire();
    writeFileSync(counter, String(Number(readFileSync(counter, "utf8")) + 1));
    lock.release();
  }
  console.log(`done by ${lock.backendReason}`);
}

async function hold(lock: Lock) {
  console.log("waiting");
  if (what === "hold-sync") lock.acquireSync();
  else await lock.acquire();
  console.log(`held ${process.pid}`);
  setInterval(() => {}, 60_000);
}

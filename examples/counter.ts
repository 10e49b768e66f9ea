/**
 * One writer at a time: adds one to the number in a file, many times, each time
 * under the lock. Run it twice at once, in any two runtimes, with 10,000 each:
 * the file says 20,000. Without the lock it does not.
 *
 *   deno run -A examples/counter.ts [FILE [TIMES]]    and so with bun or node
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { Lock } from "../mod.ts"; // yours: import { Lock } from "@holdfast/lock";

const [file = "counter.txt", times = "10000"] = process.argv.slice(2);

// The lock has a file of its own: a data file is often replaced by rename, and a lock on it would go with it.
const lock = new Lock(`${file}.lock`);
for (let i = 0; i < Number(times); i++) {
  lock.runSync(() => {
    const count = existsSync(file) ? Number(readFileSync(file, "utf8")) : 0;
    writeFileSync(file, String(count + 1));
  });
}
console.log(`added ${times}`);

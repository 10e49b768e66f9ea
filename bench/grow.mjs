/**
 * One process of ours that has many of something. A command a line, a line of
 * JSON back; times in microseconds.
 *
 *   scan DIRECTORY TIMES | inspect PATH TIMES   what each took
 *   bare DIRECTORY TIMES     the same files, merely looked at and read: the floor of scan
 *   wait N PATH              N locks begin to wait; descriptors before and with them
 *   drain                    once the holder is gone: from the first grant until all have had it
 *   hold N DIRECTORY         N locks taken, then given up; and how many descriptors they had
 *
 *   grow.mjs MODULE
 */
import { lstatSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";

const { Lock, scan: scanDirectory } = await import(process.argv[2]);
const now = () => performance.now() * 1000;
const descriptors = () => readdirSync("/proc/self/fd").length;

function each(times, deed) {
  return Array.from({ length: Number(times) }, () => {
    const before = now();
    deed();
    return now() - before;
  });
}

let line;
const COMMANDS = {
  scan: (directory, times) => each(times, () => scanDirectory(directory)),
  inspect: (path, times) => each(times, () => Lock.inspect(path)),
  bare: (directory, times) =>
    each(times, () => {
      for (const name of readdirSync(directory)) {
        if (lstatSync(join(directory, name)).isFile()) readFileSync(join(directory, name));
      }
    }),
  async wait(n, path) {
    const before = descriptors();
    const from = now();
    let first;
    const grants = Array.from({ length: Number(n) }, () =>
      new Lock(path).acquire().then((lock) => {
        first ??= now();
        lock.release();
      }));
    const queued = now() - from;
    await new Promise((resolve) => setTimeout(resolve, 100));
    line = Promise.all(grants).then(() => queued + now() - first);
    return { descriptors: descriptors() - before };
  },
  drain: () => line,
  hold(n, directory) {
    const locks = Array.from({ length: Number(n) }, (_, i) => new Lock(join(directory, `held-${i}.lock`)));
    const before = descriptors();
    const from = now();
    for (const lock of locks) if (!lock.tryAcquire()) throw new Error("held");
    const taken = now() - from;
    const held = descriptors() - before;
    const then = now();
    for (const lock of locks) lock.release();
    return { took: taken + now() - then, descriptors: held };
  },
};

console.log('"ready"');
createInterface({ input: process.stdin }).on("line", async (text) => {
  const [command, ...args] = text.split(" ");
  try {
    console.log(JSON.stringify(await COMMANDS[command](...args)));
  } catch (error) {
    console.log(JSON.stringify({ error: `${text}: ${error?.message ?? error}` }));
  }
});

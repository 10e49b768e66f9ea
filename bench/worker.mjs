/**
 * One process of the benchmark. A command a line, a line of JSON back:
 *
 *   batch FORM MILLISECONDS PATH    what each deed took, in microseconds
 *   marked FORM TIMES PATH          the same deed, with a mark before each, for strace
 *   acquire PATH | release          when, by the wall clock, in milliseconds
 *   count PATH COUNTER FROM UNTIL   adds one to the number in a file, under the lock
 *
 *   worker.mjs KIND MODULE          a kind of locks.mjs, and its module, or "none"
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { createInterface } from "node:readline";
import { KINDS } from "./locks.mjs";

const [name, module] = process.argv.slice(2);
const kind = KINDS[name](module === "none" ? {} : await import(module));
const wall = () => performance.timeOrigin + performance.now();
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** A deed of a form on a path: kept, because "again" is with the same object. */
const deeds = new Map();
function deedOf(form, path) {
  const key = `${form} ${path}`;
  const make = form.startsWith("refused-") ? kind.refused[form.slice("refused-".length)] : kind.forms[form];
  if (!deeds.has(key)) deeds.set(key, make(path));
  return deeds.get(key);
}

async function batch(form, milliseconds, path) {
  const deed = deedOf(form, path);
  const took = [];
  const end = performance.now() + Number(milliseconds);
  let before, after = 0;
  do {
    before = performance.now();
    const result = deed();
    if (result instanceof Promise) await result;
    after = performance.now();
    took.push(Math.round((after - before) * 1e5) / 100);
  } while (after < end || took.length < 1);
  return took;
}

async function marked(form, times, path) {
  const deed = deedOf(form, path);
  for (let i = 0; i < Number(times); i++) {
    existsSync(`/holdfast/mark/${form}`);
    await deed();
  }
  existsSync("/holdfast/mark/end");
  return [];
}

let waiting;
async function acquire(path) {
  if (waiting?.path !== path) waiting = { path, ...kind.wait(path) };
  await waiting.acquire();
  return wall();
}

async function release() {
  const at = wall();
  await waiting.release();
  return at;
}

async function count(path, counter, from, until) {
  const lock = kind.wait(path);
  let times = 0, failures = 0;
  while (wall() < Number(from)) await pause(1);
  while (wall() < Number(until)) {
    try {
      await lock.acquire();
    } catch {
      failures++; // told with the result
      continue;
    }
    if (wall() >= Number(until)) { // it came too late to count
      await Promise.resolve(lock.release()).catch(() => failures++);
      break;
    }
    writeFileSync(counter, String(Number(readFileSync(counter, "utf8")) + 1));
    times++;
    try {
      await lock.release();
    } catch {
      failures++;
    }
  }
  return { times, failures };
}

const COMMANDS = { batch, marked, acquire, release, count };
console.log('"ready"');
createInterface({ input: process.stdin }).on("line", async (line) => {
  const [command, ...args] = line.split(" ");
  try {
    console.log(JSON.stringify(await COMMANDS[command](...args)));
  } catch (error) {
    console.log(JSON.stringify({ error: `${name} ${line}: ${error?.message ?? error}` }));
  }
});

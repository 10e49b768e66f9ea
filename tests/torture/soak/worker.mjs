/**
 * One that acquires and releases until its standard input ends, and says so in a
 * pipe. JavaScript and no TypeScript, because Node 20 runs it too.
 *
 *   worker.mjs MODULE JOB      the job is JSON; see ../crew.ts
 */
import { constants, openSync, readSync, unlinkSync, writeSync } from "node:fs";
import process from "node:process";
import { createInterface } from "node:readline";

const { Lock } = await import(process.argv[2]);
const job = JSON.parse(process.argv[3]);
const who = `${job.id}.${process.pid}`;
const pipe = openSync(job.pipe, constants.O_WRONLY);
const say = (text) => writeSync(pipe, `${text}\n`);

let state = job.seed >>> 0;
/** mulberry32, as in torture/contention/random.ts, which Node 20 cannot read. */
function random() {
  state = (state + 0x6d2b79f5) >>> 0;
  let t = state;
  t = Math.imul(t ^ (t >>> 15), t | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
}
const pick = (list) => list[Math.floor(random() * list.length)];
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

const counter = job.counter && openSync(job.counter, "r+");
const list = job.list && openSync(job.list, "a");
const digits = new Uint8Array(12);
function read() {
  readSync(counter, digits, 0, 12, 0);
  return Number(String.fromCharCode(...digits));
}
/** The entry first, then the number: whoever is killed between the two is found out by ledger.ts. */
function update(number) {
  writeSync(list, `${number} ${who}\n`);
  writeSync(counter, new TextEncoder().encode(String(number).padStart(12, "0")), 0, 12, 0);
}

const options = { backend: job.backend, onStale: () => {} };
const locks = {
  exclusive: new Lock(job.path, options),
  shared: job.shared > 0 ? new Lock(job.path, { ...options, mode: "shared" }) : undefined,
};
let isInside = false;
const heard = new WeakSet();
/** A loss is said the moment it is told, also the one that a release finds. */
function listen(lock) {
  const { signal } = lock;
  if (heard.has(signal)) return;
  heard.add(signal);
  signal.addEventListener("abort", () => {
    isInside = false;
    say(`lost ${who}`);
  });
}

function enter(lock, mode) {
  listen(lock);
  isInside = true;
  say(`enter ${who} ${mode}`);
  return job.counter ? read() : 0;
}

function leave(lock, mode, before) {
  if (isInside) {
    if (job.counter && mode === "exclusive") update(before + 1);
    if (job.counter && mode === "shared" && read() !== before) say(`wrong ${who} the number changed under a reader`);
    if (mode === "exclusive" && random() < job.deletes) {
      say(`deletes ${who}`);
      unlinkSync(job.path);
    }
    isInside = false;
    say(`leave ${who}`);
  }
  try {
    lock.release();
  } catch (error) {
    if (error.name !== "LockLostError" && !(error.name === "LockNotHeldError" && job.losses)) throw error;
  }
  if (job.losses) say(`out ${who}`);
}

const styles = {
  /** In line. */
  async acquire(lock, mode) {
    await lock.acquire();
    const before = enter(lock, mode);
    const hold = random() < 0.5 ? 0 : random() * job.hold;
    if (hold > 0) await pause(hold);
    leave(lock, mode, before);
  },
  /** Blocking, and no longer than a moment, because nobody can tell it to stop meanwhile. */
  sync(lock, mode) {
    try {
      lock.acquireSync({ timeout: 500 });
    } catch (error) {
      if (error.name === "LockTimeoutError") return;
      throw error;
    }
    leave(lock, mode, enter(lock, mode));
  },
  /** One try after another: what no waiter does, and what a program may do. Refused a few times it gives way. */
  burst(lock, mode) {
    const tries = 1 + Math.floor(random() * job.burst);
    for (let i = 0, refused = 0; i < tries && refused < 4; i++) {
      if (lock.tryAcquire()) leave(lock, mode, enter(lock, mode));
      else refused++;
    }
  },
};

let stopped = false;
createInterface({ input: process.stdin }).on("close", () => stopped = true);
try {
  say(`ready ${who}`);
  while (!stopped) {
    const mode = random() < job.shared ? "shared" : "exclusive";
    await styles[pick(job.styles)](locks[mode], mode);
    await pause(random() * job.gap);
  }
} catch (error) {
  say(`wrong ${who} ${error.name}: ${error.message.slice(0, 500).replaceAll("\n", " ")}`);
  process.exit(1);
}
process.exit(0);

/**
 * A process that locks many times, and must be as it was before. JavaScript and no TypeScript, because Node 20 runs it
 * too, on the packed module. What it cannot see of itself without permissions, the driver looks up under /proc.
 *
 *   worker.mjs MODULE FOLDER BACKEND WARM TIMES
 *
 * Prints a line of JSON after each phase, and goes on once the driver has made the file `FOLDER/go-N`.
 */
import { existsSync, readdirSync } from "node:fs";

const [module, dir, backend, warm, times] = process.argv.slice(2);
const { Lock, LockTimeoutError } = await import(module);

/** Held by another process the whole time; and paths that this process itself holds, by the kernel or a PID file. */
const others = `${dir}/others/a.lock`;
const free = `${dir}/free/a.lock`;
const own = Array.from({ length: 50 }, (_, i) => `${dir}/own/${i}.lock`);

const options = { backend, onStale() {} };
const newLock = (path) => new Lock(path, options);

/** Each sort of work does it `count` times, and answers how many times it did. */
const works = {
  /** With one object, and every tenth time with a new one. */
  cycles(count) {
    let lock = newLock(free);
    for (let i = 0; i < count; i++) {
      if (i % 10 === 0) lock = newLock(free);
      if (!lock.tryAcquire()) throw new Error("a free lock was refused");
      lock.release();
    }
    return count;
  },
  refused(count) {
    let lock = newLock(others);
    for (let i = 0; i < count; i++) {
      if (i % 10 === 0) lock = newLock(others);
      if (lock.tryAcquire()) throw new Error("a held lock was granted");
    }
    return count;
  },
  /** A third is late, a third is aborted by a signal of its own, a third by one that all of them share. */
  async waits(count) {
    const inTheWay = own.map(newLock);
    for (const lock of inTheWay) if (!lock.tryAcquire()) throw new Error("a free lock was refused");
    let late = 0, aborted = 0;
    const count1 = (error) => {
      if (error instanceof LockTimeoutError) late++;
      else if (error?.name === "AbortError") aborted++;
      else throw error;
    };
    // One alone has the time for a watcher, even if the machine is so busy that a batch is late before it has begun.
    await newLock(others).acquire({ timeout: 700, signal: forever }).then(
      () => Promise.reject(new Error("granted")),
      count1,
    );
    for (let done = 1; done < count;) {
      const batch = Math.min(150, count - done);
      const shared = new AbortController();
      const each = Array.from({ length: batch }, (_, i) => {
        const lock = newLock(i % 25 === 0 ? others : own[i % own.length]);
        // Some wait long enough for a watcher to be worth it.
        if (i % 3 === 0) return lock.acquire({ timeout: i % 30 === 0 ? 40 : i % 8, signal: forever });
        if (i % 3 === 1) return lock.acquire({ signal: shared.signal });
        const controller = new AbortController();
        setTimeout(() => controller.abort(), i % 12);
        return lock.acquire({ signal: controller.signal });
      });
      setTimeout(() => shared.abort(), 12);
      await Promise.all(each.map((wait) => wait.then(() => Promise.reject(new Error("granted")), count1)));
      done += batch;
    }
    for (const lock of inTheWay) lock.release();
    if (late + aborted !== count || late === 0 || aborted === 0) throw new Error(`${late} late, ${aborted} aborted`);
    return count;
  },
};

/** A signal that never aborts, and who listens to it. */
const forever = new AbortController().signal;
let listeners = 0, listened = 0;
for (const [name, step] of [["addEventListener", 1], ["removeEventListener", -1]]) {
  const call = forever[name].bind(forever);
  forever[name] = (...args) => {
    listeners += step;
    if (step > 0) listened++;
    call(...args);
  };
}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function collect() {
  await pause(1250); // the guard's timer is set to 100 ms, and a refused try keeps its file for 1 s
  for (let i = 0; i < 4; i++) {
    globalThis.Bun?.gc(true);
    globalThis.gc?.();
    await pause(10);
  }
}

/** What the runtime counts among its own to be listened to, where it tells. */
async function eventListeners() {
  const { getEventListeners } = await import("node:events");
  const probe = new AbortController().signal;
  probe.addEventListener("abort", () => {});
  try {
    return getEventListeners(probe, "abort").length === 1 ? getEventListeners(forever, "abort").length : null;
  } catch {
    return null; // it does not tell
  }
}

let phases = 0;
async function report(phase, done) {
  await collect();
  const kept = globalThis[Symbol.for("@holdfast/lock:thread:3")];
  const line = {
    phase,
    done,
    heap: process.memoryUsage().heapUsed,
    listeners,
    listened,
    eventListeners: await eventListeners(),
    registered: kept.get("holds").size, // made by the first hold
    // Not everywhere: what keeps the process alive.
    resources: process.getActiveResourcesInfo?.().filter((name) => name === "Timeout").length ?? null,
    files: ["free", "own"].flatMap((name) => readdirSync(`${dir}/${name}`)).filter((name) => !/^\w+\.lock$/.test(name)),
  };
  console.log(JSON.stringify(line));
  // Without standard input, which would keep the process alive.
  while (!existsSync(`${dir}/go-${phases}`)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
  phases++;
}

// Everything once before it is measured: code is compiled, modules are loaded.
for (const name of Object.keys(works)) await works[name](Number(warm));
await report("warm", 0);
for (const [name, work] of Object.entries(works)) await report(name, await work(JSON.parse(times)[name]));

/**
 * A contender that lives through many rounds: one JSON command a line on
 * standard input, one JSON answer a line on standard output. JavaScript and no
 * TypeScript, because Node 20 runs it too.
 *
 *   worker.mjs KIND MODULE      the kinds are in locks.mjs
 */
import { appendFileSync, existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import process from "node:process";
import { createInterface } from "node:readline";
import { lockKind } from "./locks.mjs";
import { enter } from "./witness.mjs";

const makeLock = await lockKind(process.argv[2], process.argv[3]);

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Sleeps until a time on the clock that all processes share; blocking, so that no event loop delays the start. */
function waitFor(time) {
  const left = time - (performance.timeOrigin + performance.now());
  if (left > 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, left);
}

const commands = {
  /** From the start barrier into the lock, `hold` milliseconds inside, out again. */
  async round({ path, options, inside, at, hold, limit }) {
    let stale = 0;
    const lock = makeLock(path, { onStale: () => stale++, ...options });
    waitFor(at);
    const began = performance.now();
    if (!await lock.acquire(limit)) return { entered: false };
    const waited = performance.now() - began;
    const { others, leave } = enter(inside);
    if (hold > 0) await pause(hold);
    leave();
    let failure; // a double holder's release may fail: the other has removed its file
    try {
      await lock.release();
    } catch (error) {
      failure = `release: ${error.name} ${error.message}`;
    }
    return { entered: true, others, waited, stale, failure };
  },

  /** Adds one to the number in a file, each time under the lock, for so long. */
  async count({ path, options, inside, counter, milliseconds, limit }) {
    const lock = makeLock(path, options);
    const end = performance.now() + milliseconds;
    let times = 0, doubles = 0, longest = 0;
    while (performance.now() < end) {
      const began = performance.now();
      if (!await lock.acquire(limit)) return { times, doubles, longest, stuck: true };
      longest = Math.max(longest, performance.now() - began);
      const { others, leave } = enter(inside);
      doubles += others.length;
      const number = Number(readFileSync(counter, "utf8"));
      if (times % 8 === 0) await pause(1); // now and then somebody else runs in the middle of it
      writeFileSync(counter, String(number + 1));
      leave();
      lock.release();
      times++;
      await pause(2 * Math.random());
    }
    return { times, doubles, longest, stuck: false };
  },

  /** Acquires and releases as fast as it can, for so long. */
  async loop({ path, options, milliseconds, limit }) {
    const lock = makeLock(path, options);
    const end = performance.now() + milliseconds;
    let times = 0;
    for (; performance.now() < end; times++) {
      if (!await lock.acquire(limit)) return { times, stuck: true };
      lock.release();
    }
    return { times, stuck: false };
  },

  /**
   * One takeover after another until the file `stop` appears: each hold ends as
   * if its owner had died, for the holder replaces its own PID file by the next
   * of `dead`, in one step. A line in `log` for each: the dead owner's PID, and
   * how many others were inside.
   */
  async crash({ path, options, inside, dead, spare, log, stop, limit }) {
    const stale = [];
    const lock = makeLock(path, { onStale: ({ pid }) => stale.push(pid), ...options });
    let since = performance.now();
    for (let i = process.pid; !existsSync(stop); since = performance.now(), i++) {
      // Without a pause between two tries, so that it is nearly always in the middle of one.
      while (!await lock.acquire(0)) {
        if (existsSync(stop)) return "stopped";
        if (performance.now() - since > limit) return "stuck";
      }
      const { others, leave } = enter(inside);
      appendFileSync(log, `${stale.pop() ?? 0} ${others.length}\n`);
      leave();
      const { pid, record } = dead[i % dead.length];
      const nonce = Array.from(crypto.getRandomValues(new Uint8Array(16)), (n) => n.toString(16).padStart(2, "0"));
      const next = `${spare}/${process.pid}`;
      writeFileSync(next, `${pid}\n${JSON.stringify({ ...record, nonce: nonce.join("") })}\n`);
      renameSync(next, `${path}.pid`);
      try {
        lock.release();
        return "the release did not notice that the file was another's";
      } catch (error) {
        if (error.name !== "LockLostError") throw error;
      }
    }
    return "stopped";
  },
};

const say = (answer) => console.log(JSON.stringify(answer));

const input = createInterface({ input: process.stdin });
say({ ready: process.pid });
input.on("line", async (line) => {
  const { command, ...args } = JSON.parse(line);
  try {
    say({ value: await commands[command](args) });
  } catch (error) {
    say({ error: `${error.name}: ${error.message}` });
  }
});

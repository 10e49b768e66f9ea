/**
 * One process of the benchmark: acquires and releases as it is told on standard
 * input, and says when by the wall clock, in milliseconds.
 *
 *   waiter.mjs MODULE PATH
 */
const { createInterface } = await import("node:readline");
const { Lock } = await import(process.argv[2]);

const path = process.argv[3];
const lock = new Lock(path, { onStale() {} });
const now = () => performance.timeOrigin + performance.now();
const say = (answer) => console.log(JSON.stringify(answer));
const block = (milliseconds) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);

const commands = {
  async acquire() {
    await lock.acquire();
    say(now());
  },
  release() {
    const at = now();
    lock.release();
    say(at);
  },
  /** Waits for so long, in vain. */
  async wait(milliseconds) {
    await lock.acquire({ timeout: milliseconds }).catch(() => {}); // the timeout is what it is for
    say(process.cpuUsage());
  },
  /** Fights for the lock from one moment to another, holding it for 1 ms each time. */
  async fight(from, until) {
    while (now() < from) block(1);
    let times = 0, held = 0;
    while (now() < until) {
      await lock.acquire();
      const got = now();
      block(1);
      times++;
      lock.release();
      held += now() - got;
    }
    say({ times, held });
  },
};

say("ready");
createInterface({ input: process.stdin }).on("line", (line) => {
  const [command, ...args] = line.split(" ");
  commands[command](...args.map(Number));
});

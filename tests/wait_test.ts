/** wait.ts with a clock of the test's own: no test here takes time. */
import { assert, assertEquals } from "@std/assert";
import process from "node:process";
import { block } from "../src/sys/block.ts";
import { pause, Wait } from "../src/wait/wait.ts";
import { mustBlock, test, within } from "./support/harness.ts";
import { countedSignal } from "./support/lockers.ts";

/** A clock that stands still until it is moved. */
function clock(now = 1e6) {
  return { read: () => now, move: (milliseconds: number) => (now += milliseconds, undefined) };
}

/** The longest that a timer takes. */
const LIMIT = 2 ** 31 - 1;

test("Wait is over when the time is up, and not before", () => {
  for (const timeout of [0.5, 1, 100, 2 ** 31, 2 ** 40]) {
    const { read, move } = clock(0);
    const wait = new Wait(timeout, read);
    assertEquals(wait.over, false, `${timeout}`);
    move(timeout - 0.25);
    assertEquals([wait.over, wait.left], [false, 0.25], `${timeout}`);
    move(0.25);
    assertEquals([wait.over, wait.left, wait.next()], [true, 0, 0], `${timeout}`);
  }
});

test("Wait counts from its beginning, whatever the clock shows", () => {
  for (const start of [-1e9, 0, 1e12]) {
    const { read, move } = clock(start);
    const wait = new Wait(10, read);
    move(4);
    assertEquals([wait.left, wait.over], [6, false]);
  }
});

test("Wait with a timeout of 0 is over at once, with nothing left and no pause", () => {
  const wait = new Wait(0, clock().read);
  assertEquals([wait.over, wait.left, wait.next()], [true, 0, 0]);
});

test("Wait with a timeout of Infinity is never over, and its pauses are ones that a timer can take", () => {
  const { read, move } = clock();
  const wait = new Wait(Infinity, read);
  for (let i = 0; i < 60; i++) {
    assertEquals([wait.over, wait.left], [false, LIMIT]);
    assert(wait.next() > 0 && wait.next() <= LIMIT);
    move(2 ** i);
  }
});

test("Wait.left is never more than a timer takes, and is exact below that", () => {
  for (const timeout of [2 ** 31, 2 ** 40]) assertEquals(new Wait(timeout, clock().read).left, LIMIT);
  assertEquals(new Wait(LIMIT, clock().read).left, LIMIT);
  assertEquals(new Wait(LIMIT - 1, clock().read).left, LIMIT - 1);
});

test("Wait.left and Wait.next() are never negative, however late one asks", () => {
  for (const timeout of [0, 0.5, 100, 2 ** 31]) {
    const { read, move } = clock();
    const wait = new Wait(timeout, read);
    move(timeout * 2 + 1e9);
    wait.wake();
    assertEquals([wait.over, wait.left, wait.next()], [true, 0, 0]);
  }
});

test("Wait.next() never goes past the deadline, and in its steps the deadline is met exactly", () => {
  for (const timeout of [0.5, 1, 3, 77, 1_000, 30_000]) {
    for (const shortest of [1, 50]) {
      const { read, move } = clock(0);
      const wait = new Wait(timeout, read, shortest);
      let steps = 0;
      while (!wait.over) {
        const next = wait.next();
        assert(next > 0 && next <= wait.left, `${next} of ${wait.left}`);
        move(next);
        assert(++steps < 100_000);
      }
      assert(Math.abs(read() - timeout) < 1e-6, `${read()} of ${timeout}`);
    }
  }
});

test("Wait.next() is at least the shortest pause while there is time", () => {
  for (const shortest of [1, 7, 50]) {
    const { read, move } = clock();
    const wait = new Wait(Infinity, read, shortest);
    assertEquals(wait.next(), shortest);
    for (let i = 0; i < 30; i++, move(2 ** i)) assert(wait.next() >= shortest);
    wait.wake();
    assertEquals(wait.next(), shortest); // not even a wake-up makes a process a millisecond
  }
});

test("Wait.next() grows with the time waited, up to a limit that lets a dead holder be seen soon", () => {
  const { read, move } = clock();
  const wait = new Wait(Infinity, read);
  const pauses: number[] = [];
  for (let i = 0; i < 24; i++, move(2 ** i)) pauses.push(wait.next());
  assertEquals(pauses, pauses.toSorted((a, b) => a - b));
  const [first, last] = [pauses[0], pauses[pauses.length - 1]];
  assert(first <= 2 && last > first * 5 && last <= 50, `${pauses}`);
  assertEquals(pauses.filter((pause) => pause === last).length > 5, true, "the limit is reached and kept");
});

test("Wait.next() is a small part of the time waited, so that no grant comes later by much", () => {
  const { read, move } = clock();
  const wait = new Wait(Infinity, read);
  for (let waited = 0; waited < 20_000; waited += 100, move(100)) {
    assert(wait.next() <= Math.max(2, waited / 50), `${wait.next()} after ${waited}`);
  }
});

test("Wait.next() is the shortest pause again for a little while after wake(), then no longer", () => {
  const { read, move } = clock();
  const wait = new Wait(Infinity, read);
  move(60_000);
  const long = wait.next();
  assert(long > 2);
  wait.wake();
  const quick = wait.next();
  assertEquals(quick, new Wait(Infinity, read).next());
  move(quick);
  assertEquals(wait.next(), quick); // the first try after a wake-up may come too early
  move(1_000);
  assertEquals(wait.next(), long);
  wait.wake();
  assertEquals(wait.next(), quick); // and each time anew
});

test("Wait.next() after wake() does not go past the deadline either", () => {
  const { read, move } = clock();
  const wait = new Wait(100, read);
  move(99.75);
  wait.wake();
  assertEquals(wait.next(), 0.25);
});

test("Wait asks its clock alone", () => {
  let asked = 0;
  const wait = new Wait(10, () => (asked++, 0));
  assertEquals([wait.over, wait.left], [false, 10]);
  for (let i = 0; i < 1_000; i++) wait.next();
  assertEquals([wait.over, asked > 1_000], [false, true]);
});

test("pause() ends by its time, by wake() or by an abort, and leaves no listener", async () => {
  const { controller, signal, listeners } = countedSignal();
  const timed = pause(1, signal);
  assertEquals(listeners(), 1);
  await within(60_000, timed.done);
  assertEquals(listeners(), 0);

  const woken = pause(LIMIT, signal);
  const blocked = await mustBlock(woken.done);
  woken.wake();
  await blocked.done();
  assertEquals(listeners(), 0);
  woken.wake(); // nothing left to end

  const aborted = await mustBlock(pause(LIMIT, signal).done);
  controller.abort();
  await aborted.done();
  assertEquals(listeners(), 0);
});

test("pause() longer than a timer takes does not end at once", async () => {
  for (const milliseconds of [2 ** 31, 2 ** 40, Infinity]) {
    const { done, wake } = pause(milliseconds);
    const blocked = await mustBlock(done);
    wake();
    await blocked.done();
  }
});

test("block() lets the time pass, and uses none of the processor", () => {
  const [began, before] = [performance.now(), process.cpuUsage()];
  block(200);
  const used = process.cpuUsage(before);
  const took = performance.now() - began;
  assert(took >= 190);
  assert(used.user + used.system < took * 1_000 / 2, `${used.user + used.system} µs of ${took} ms`);
});

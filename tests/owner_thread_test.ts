/** Which thread a record is of: one that has ended, this very one, or one that cannot be told. */
import process from "node:process";
import { assertEquals, assertMatch } from "@std/assert";
import { judge } from "../src/record/owner.ts";
import { encode, type HolderFields, parse } from "../src/record/record.ts";
import { system } from "../src/sys/mod.ts";
import { hasThread, ownThread, type Proc } from "../src/sys/proc.ts";
import { type FileStat, SystemError } from "../src/sys/contract.ts";
import type { Identity, Processes } from "../src/sys/contract.ts";
import { isOfThisThread, whyThreadIsDead } from "../src/record/owner_thread.ts";
import { test } from "./support/harness.ts";
import { ownerOf, sleeper } from "./support/pid_files.ts";

/** A process that knows this of itself and of threads. */
function knowing(self: Partial<Identity>, thread: number | undefined, threads: number[] | undefined): Processes {
  const known: Partial<Processes> = {
    self: () => ({ pid: 7, runtime: "a model", ...self }),
    thread: () => thread,
    hasThread: (pid, thread) => threads?.includes(pid) ? threads.includes(thread) : undefined,
  };
  return known as Processes; // the cast: nothing else is asked
}

test("whyThreadIsDead() knows a thread to have ended only where its process's threads can be seen", () => {
  const why = (thread: number | undefined, threads: number[] | undefined) =>
    whyThreadIsDead({ pid: 7, thread }, knowing({}, 7, threads));
  assertEquals(why(undefined, [7]), undefined, "no thread was recorded: the first one, or not known");
  assertEquals(why(9, undefined), undefined, "they cannot be listed");
  assertEquals(why(9, []), undefined, "a list without the first thread");
  assertEquals(why(9, [10]), undefined, "another process's list");
  assertEquals(why(9, [7, 9]), undefined, "alive");
  assertEquals(why(9, [7, 10]), "its thread 9 (a Worker?) has ended, while process 7 is alive");
});

const FACTS = { startTime: "1", bootId: "b", pidNamespace: "4026531836" };

test("isOfThisThread() is true of a record only if every fact is known on both sides, and the same", () => {
  const is = (holder: Partial<HolderFields>, self: Partial<Identity> = FACTS, thread: number | undefined = 7) =>
    isOfThisThread({ pid: 7, ...FACTS, ...holder }, knowing(self, thread, undefined));
  assertEquals(is({}), true);
  assertEquals(is({ thread: 9 }, { ...FACTS, thread: 9 }, 9), true);
  assertEquals(isOfThisThread({ pid: 7, ...FACTS }, knowing(FACTS, undefined, undefined)), false, "no thread is known");
  assertEquals(is({ thread: 9 }), false, "a Worker's, asked by the first thread");
  assertEquals(is({}, FACTS, 9), false, "the first thread's, asked by a Worker");
  assertEquals(is({ pid: 8 }), false);
  for (const fact of ["startTime", "bootId", "pidNamespace"] as const) {
    assertEquals(is({ [fact]: "another" }), false, `another ${fact}`);
    assertEquals(is({ [fact]: undefined }), false, `no ${fact} in the record`);
    assertEquals(is({}, { ...FACTS, [fact]: undefined }), false, `no ${fact} here`);
    assertEquals(is({ [fact]: undefined }, { ...FACTS, [fact]: undefined }), false, `no ${fact} at all`);
  }
});

test("ownThread() is undefined where /proc is another PID namespace's, or has no threads", () => {
  const told = (link: string | undefined) => {
    const proc: Proc = { text: () => undefined, list: () => undefined, link: () => link };
    return ownThread(7, proc);
  };
  assertEquals([told("7/task/7"), told("7/task/9")], [7, 9]);
  for (const link of [undefined, "", "8/task/7", "7", "7/task/9/x", "17/task/7"]) assertEquals(told(link), undefined);
});

test("hasThread() looks at each thread by its name, and knows nothing where it may not look", () => {
  const there = (...ids: number[]) => ({
    stat: (path: string) => ids.some((id) => path === `/proc/7/task/${id}`) ? {} as FileStat : undefined, // the cast: it is not read
  });
  assertEquals([hasThread(7, 10, there(7, 10)), hasThread(7, 10, there(7)), hasThread(7, 10, there(10))], [
    true,
    false,
    undefined,
  ]);
  const hidden = () => {
    throw new SystemError("EACCES", "hidden");
  };
  assertEquals(hasThread(7, 10, { stat: hidden }), undefined);
});

test("judge() says dead of an ended thread of a living process, and alive of one of its threads", (place) => {
  const pid = sleeper(place);
  const ended = judge(ownerOf(pid, { thread: 2 ** 30 }), system()); // more than any system numbers
  assertEquals(ended.state, "dead");
  assertMatch(ended.reason, /^its thread \d+ \(a Worker\?\) has ended, while process \d+ is alive$/);
  assertEquals(judge(ownerOf(pid, { thread: pid }), system()).state, "alive");
  const own = system().thread();
  assertEquals(judge(ownerOf(process.pid, { thread: own }), system()).state, "alive");
  assertEquals(judge(ownerOf(process.pid), system()).state, "alive"); // the first thread is there
});

test("parse() reads the thread that encode() wrote, and takes any other kind of one for damage", () => {
  const roundTrip = parse(encode({ pid: 7, thread: 9 }));
  assertEquals(roundTrip.kind === "record" && roundTrip.holder.thread, 9);
  for (const thread of ["9", 0, -1, 1.5, 2 ** 31, null, {}]) {
    const text = `7\n${JSON.stringify({ holdfast: 1, pid: 7, thread })}\n`;
    assertEquals(parse(new TextEncoder().encode(text)).kind, "damaged", String(thread));
  }
});

/**
 * The protocol, checked exhaustively on the code that ships: every order of
 * single file operations, and every point to die at.
 */
import { assert, assertEquals } from "@std/assert";
import { mutant, MUTANTS, own } from "../explore/backends.ts";
import { explore, type Scenario } from "../explore/explore.ts";
import { factsOf } from "../explore/world.ts";
import type { HolderFields } from "../../src/record/record.ts";
import { test } from "../support/harness.ts";

const DEAD = (pid: number, nonce: string, other: Partial<HolderFields> = {}) => {
  const record = { holdfast: 1, pid, ...factsOf("h"), runtime: "model", nonce: nonce.padStart(32, "0"), ...other };
  return `${pid}\n${JSON.stringify(record)}\n`;
};

/** What is explored with the project's own code: nothing may be found. */
const SCENARIOS: Record<string, Scenario> = {
  "three kernel back ends": { kinds: "FFF", attempts: 2, crashes: 2 },
  "a PID file and two kernel back ends": { kinds: "PFF", attempts: 2, crashes: 2 },
  "two PID files and a kernel back end": { kinds: "PPF", attempts: 2, crashes: 2 },
  "three PID files": { kinds: "PPP", attempts: 2, crashes: 2 },
  "three PID files without hard links": { kinds: "PPP", attempts: 1, crashes: 2, links: false },
  "three PID files after a dead owner": {
    kinds: "PPP",
    attempts: 1,
    crashes: 2,
    files: { "/d/P.pid": DEAD(7779, "1") },
  },
  "a dead owner and a dead takeover": {
    kinds: "PPP",
    attempts: 1,
    crashes: 1,
    files: { "/d/P.pid": DEAD(7779, "1"), [`/d/P.pid.${"1".padStart(32, "0")}`]: DEAD(7778, "2") },
  },
  "an old damaged PID file": { kinds: "PPP", attempts: 1, crashes: 1, files: { "/d/P.pid": { old: "4711\n{" } } },
  "a kernel holder that clears away a dead owner's PID file": {
    kinds: "CP",
    attempts: 2,
    crashes: 1,
    files: { "/d/P.pid": DEAD(7779, "1") },
  },
  "a PID file that asks the kernel, and one that cannot": { kinds: "PQF", attempts: 1, crashes: 2 },
  "a PID file that asks the kernel, and two kernel back ends": { kinds: "QFF", attempts: 2, crashes: 1 },
  "a dead kernel holder's record and a dead owner's PID file": {
    kinds: "PFF",
    attempts: 1,
    crashes: 1,
    files: { "/d/P": DEAD(7778, "2"), "/d/P.pid": DEAD(7779, "1") },
  },
  "three PID files after an owner from before a restart": {
    kinds: "PPP",
    attempts: 1,
    crashes: 1,
    files: { "/d/P.pid": DEAD(7770, "1", { bootId: "boot-0", fileSystem: "local" }) },
  },
  // Those that cannot judge each other: no order of events makes two holders, and no owner that cannot be judged is robbed.
  "PID files of the host, of a container, and of one that does not know where it is": {
    kinds: "PPP",
    homes: "hc?",
    attempts: 1,
    crashes: 2,
  },
  "PID files of two that do not know where they are, and of the host": {
    kinds: "PPP",
    homes: "??h",
    attempts: 1,
    crashes: 1,
  },
  "PID files of the host and of a system container with a boot id of its own": {
    kinds: "PPP",
    homes: "hhs",
    attempts: 1,
    crashes: 2,
  },
  "an old damaged PID file, found by the host and by one that does not know where it is": {
    kinds: "PP",
    homes: "h?",
    attempts: 1,
    crashes: 1,
    files: { "/d/P.pid": { old: "4711\n{" } },
  },
  "an old damaged PID file, found by the host and by a container": {
    kinds: "PP",
    homes: "hc",
    attempts: 2,
    crashes: 1,
    files: { "/d/P.pid": { old: "4711\n{" } },
  },
  "a takeover beside one that does not know where it is, and a container": {
    kinds: "PPP",
    homes: "h?c",
    attempts: 1,
    crashes: 1,
    files: { "/d/P.pid": DEAD(7779, "1") },
  },
  "a takeover that died, beside one that does not know where it is": {
    kinds: "PPP",
    homes: "hh?",
    attempts: 1,
    crashes: 2,
    files: { "/d/P.pid": DEAD(7779, "1"), [`/d/P.pid.${"1".padStart(32, "0")}`]: DEAD(7778, "2") },
  },
  "PID files of one that does not know where it is, and of a container, and a kernel back end": {
    kinds: "PQF",
    homes: "?ch",
    attempts: 1,
    crashes: 2,
  },
  "a kernel back end that does not know where it is, beside PID files": {
    kinds: "PPF",
    homes: "hc?",
    attempts: 1,
    crashes: 2,
  },
  "a kernel holder that does not know where it is, and clears away no living owner's PID file": {
    kinds: "CPP",
    homes: "?hs",
    attempts: 1,
    crashes: 1,
  },
};

for (const [name, scenario] of Object.entries(SCENARIOS)) {
  test(`advance() and tryFlock() never make two holders, nor a lock that is lost for ever: ${name}`, () => {
    const { states, fault } = explore(own, scenario);
    console.log(`${name}: ${states} states (${scenario.kinds} x${scenario.attempts}, ${scenario.crashes} may die)`);
    assertEquals(fault, undefined);
    assert(states > 100, `only ${states} states: nothing was explored`);
  }, { timeout: 600_000 });
}

/** The mutants, and where each goes wrong. */
const FAULTS: [mutant: string, scenario: Scenario][] = [
  ["unlink and recreate", { kinds: "PPP", attempts: 1, crashes: 1 }],
  ["no second read", { kinds: "PPP", attempts: 2, crashes: 1 }],
  ["look before announce", { kinds: "PF", attempts: 1, crashes: 0 }],
  ["no look at P", { kinds: "PF", attempts: 1, crashes: 0 }],
  ["no look at P", { kinds: "QF", attempts: 1, crashes: 0 }],
  ["what is not known agrees", { kinds: "PP", homes: "h?", attempts: 1, crashes: 0 }],
  ["what is not known agrees", { kinds: "PP", homes: "??", attempts: 1, crashes: 0 }],
  ["what is not known agrees", { kinds: "PF", homes: "?h", attempts: 1, crashes: 0 }],
  ["what is not known agrees", { kinds: "PF", homes: "h?", attempts: 1, crashes: 0 }],
  ["another boot is a restart", { kinds: "PP", homes: "hs", attempts: 1, crashes: 0 }],
  ["another boot is a restart", { kinds: "PF", homes: "sh", attempts: 1, crashes: 0 }],
];

for (const [name, scenario] of FAULTS) {
  test(`explore() finds the fault in a mutant: ${name} (${scenario.kinds} ${scenario.homes ?? ""})`, async () => {
    const { fault } = explore(await mutant(MUTANTS[name]), scenario);
    assertEquals(fault?.what, "two holders");
    console.log(`${name}: two holders after ${fault?.trace.length} steps`);
  }, { timeout: 600_000 });
}

test("explore() finds a lock that nobody can ever take again", () => {
  // A back end that refuses whenever P.pid exists, alive or dead: every marker file's fault.
  const { fault } = explore({
    ...own,
    advance: (sys, request, step) =>
      step.at === "A3"
        ? own.advance(sys, request, { at: "A4 again", root: step.root, other: step.root })
        : own.advance(sys, request, step),
  }, { kinds: "PP", attempts: 1, crashes: 1 });
  assertEquals(fault?.what, "a later P never gets it");
});

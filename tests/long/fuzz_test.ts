/** The short form of the fuzzing, and that it finds what it looks for. `deno task torture` has the long one. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import process from "node:process";
import type { Edit } from "../support/edits.ts";
import { test } from "../support/harness.ts";
import { makeCase, type World } from "../torture/fuzz/cases.ts";
import { growthOf, STEEP } from "../torture/fuzz/growth.ts";
import { readBytes } from "../torture/fuzz/oracle.ts";
import { fuzz, runFuzz } from "../torture/fuzz.ts";

/** Another run has another seed, and says which. */
const seed = Number(process.env.HOLDFAST_TEST_SEED ?? Math.floor(Math.random() * 2 ** 31));
console.log(`fuzz: HOLDFAST_TEST_SEED=${seed}`);

const owner = { pid: 4711, startTime: "1" };
const WORLD: World = {
  ...{ template: { pid: 1, host: "here" }, live: owner, dead: owner, own: owner, zombie: owner, thread: owner },
};

test("fuzz() finds nothing in 900 files, in Deno, Bun and Node 26", async ({ dir }) => {
  const { failures, rows } = await fuzz({ seed, budget: 0, short: true, dir });
  console.log(rows.map((row) => row.join(" | ")).join("\n"));
  assertEquals(failures, []);
  // What was to be shown did happen.
  assertEquals(rows.map(([runtime, parsed, onDisk]) => [runtime, parsed, onDisk]).sort(), [
    ["bun", "900", "300"],
    ["deno", "900", "300"],
    ["node26", "900", "300"],
  ]);
  for (const row of rows) {
    for (const kind of ["P.pid alive", "P.pid dead", "link alive", "link dead", "old and alive", "beside a kernel's"]) {
      assertMatch(row.join(" "), new RegExp(`${kind}[^,]* \\d`), `${row[0]}: none of ${kind}`);
    }
  }
}, { timeout: 600_000 });

test("makeCase() makes the same of the same seed, and of all kinds enough", () => {
  const kinds = new Map<string, number>();
  for (let n = 0; n < 2000; n++) {
    const { bytes, live } = makeCase(WORLD, seed, n);
    assertEquals(makeCase(WORLD, seed, n).bytes, bytes);
    const { kind } = readBytes(bytes);
    for (const each of live ? [kind, "live"] : [kind]) kinds.set(each, (kinds.get(each) ?? 0) + 1);
    assert(!live || kind === "record", `case ${n} of seed ${seed}`);
  }
  for (const kind of ["empty", "foreign", "damaged", "record", "live"]) {
    assert((kinds.get(kind) ?? 0) > 20, `${kind}: ${kinds.get(kind)}`);
  }
});

test("growthOf() tells what takes time by more than the square of its length from what does not", () => {
  const spin = (times: number) => () => {
    let sum = 0;
    for (let i = 0; i < times; i++) sum = (sum + Math.imul(i, i)) | 0;
    return sum;
  };
  spin(5_000_000)(); // compiled by then: the short calls would be interpreted, and the long ones not
  assert(growthOf((length) => spin(length * 10)) < STEEP);
  assert(growthOf((length) => spin(length ** 3), 50) > STEEP);
});

/** Faults, and what is said of each. */
const FAULTS: Record<string, { edits: Edit[]; found: RegExp }> = {
  "a bare SyntaxError of cut JSON": {
    edits: [[
      "record/record.ts",
      "return undefined; // cut, torn or too deep: damaged",
      "throw new SyntaxError('bare');",
    ]],
    found: /SyntaxError: bare/,
  },
  "a PID of 0": {
    edits: [["record/record.ts", "/^[1-9][0-9]{0,9}$/", "/^[0-9]{1,10}$/"]],
    found: /parse\(\) says (?:record|damaged), docs\/protocol.md foreign/,
  },
  "a record that is read without its last byte": {
    edits: [["record/record.ts", 'rest.length === 1 && rest[0] === "" && ', ""]],
    found: /parse\(\) says record, docs\/protocol.md damaged/,
  },
  "a nonce of any text": {
    edits: [["record/record.ts", "&& /^[0-9a-f]{32}$/.test(nonce)", ""]],
    found: /parse\(\) says record, docs\/protocol.md damaged/,
  },
  "a label that is cut": {
    edits: [[
      "record/record.ts",
      "const command = fields.command?.slice(0, length);",
      "const command = fields.command?.slice(0, length);\n    fields = { ...fields, label: fields.label?.slice(0, 100) };",
    ]],
    found: /label went in as/,
  },
  "control characters in a message": {
    edits: [["sys/printable.ts", "text.replace(HIDDEN, numbers)", "text"]],
    found: /in words is/,
  },
  "a living owner is called dead": {
    edits: [["record/owner.ts", 'return verdict("alive", `process ${pid} is alive`);', 'return verdict("dead", "");']],
    found: /STOLEN|inspect\(\) says stale/,
  },
  "a living owner is robbed by the PID-file back end": {
    edits: [[
      "backend/pidfile.ts",
      '  owner.state === "dead" || (',
      '  owner.state === "alive" || owner.state === "dead" || (',
    ]],
    found: /STOLEN: \w+\(\) by pidfile/,
  },
  "a thread is taken for a process": {
    edits: [["record/owner.ts", "found.threadGroup !== undefined && found.threadGroup !== pid", "false"]],
    found: /inspect\(\) says held, docs\/protocol.md stale|refused by a dead owner/,
  },
  "foreign content is overwritten": {
    edits: [["backend/announce.ts", ' || content.kind === "foreign"', ""]],
    found: /FOREIGN CONTENT CHANGED/,
  },
  "a new damaged file is dead at once": {
    edits: [["backend/entry.ts", "age >= 0 && age < DAMAGED_SECONDS", "false"]],
    found: /STOLEN/,
  },
  "a damaged file is never dead": {
    edits: [["backend/entry.ts", "age >= 0 && age < DAMAGED_SECONDS", "true"]],
    found: /refused by a damaged PID file that is old/,
  },
};

for (const [fault, { edits, found }] of Object.entries(FAULTS)) {
  test(`runFuzz() finds ${fault}`, async ({ dir }) => {
    const noDisk = edits.every(([file]) => file === "record/record.ts" || file === "sys/printable.ts");
    const amount = { cases: 1000, records: 300, runtimes: ["bun"], edits, noDisk, enough: 30 } as const;
    const { failures } = await runFuzz({ seed, dir }, amount);
    assert(failures.length > 0, "nothing was found");
    const one = failures.find((each) => found.test(each));
    assert(one, failures.join("\n"));
    assertMatch(one, /case \d+ of seed \d+/);
  }, { timeout: 300_000 });
}

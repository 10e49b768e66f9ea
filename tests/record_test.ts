/** src/record/record.ts: what the bytes of a lock file are. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import {
  type Content,
  encode,
  type HolderFields,
  LockHolder,
  parse,
  RECORD_LIMIT,
  sameBytes,
} from "../src/record/record.ts";
import { test } from "./support/harness.ts";

const FULL: HolderFields = {
  pid: 4711,
  startTime: "8731234",
  bootId: "198cc724-9bb9-4378-ae34-81cd4aeb5bf0",
  pidNamespace: "4026531836",
  host: "web-1",
  uid: 1000,
  command: "deno run nightly.ts",
  runtime: "deno/2.9.6",
  mode: "exclusive",
  acquiredAt: "2026-11-29T10:00:00.000Z",
  nonce: "0123456789abcdef0123456789abcdef",
  label: "nightly",
};

const bytes = (text: string) => new TextEncoder().encode(text);
const text = (record: Uint8Array) => new TextDecoder().decode(record);
/** As plain data: what it is, and of whom. */
const read = (content: Uint8Array | string): { kind: string; holder?: HolderFields } => {
  const parsed: Content = parse(typeof content === "string" ? bytes(content) : content);
  return "holder" in parsed ? { kind: parsed.kind, holder: { ...parsed.holder } } : { kind: parsed.kind };
};
/** A record of 4711 with these fields instead. */
const withFields = (fields: object) => `4711\n${JSON.stringify({ holdfast: 1, ...FULL, ...fields })}\n`;

/** Whole numbers, both ends included. */
const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

const FOREIGN = { kind: "foreign" };
const DAMAGED = { kind: "damaged", holder: { pid: 4711 } };
const BARE = { kind: "record", holder: { pid: 4711 } };

test("parse() gives back each field that encode() was given", () => {
  assertEquals(read(encode(FULL)), { kind: "record", holder: FULL });
  assertEquals(read(encode({ pid: 1 })), { kind: "record", holder: { pid: 1 } });
  for (const name of Object.keys(FULL) as (keyof HolderFields)[]) { // its own keys, so they are names of fields
    if (name === "pid") continue;
    const { [name]: _, ...rest } = FULL;
    assertEquals(read(encode({ ...rest, [name]: undefined } as HolderFields)), { kind: "record", holder: rest }); // as is
  }
  const odd = { pid: 2 ** 31 - 1, uid: 0, mode: "shared", label: '"\n\u0000\\ 🔒', command: "a\nb" } as const;
  assertEquals(read(encode(odd)), { kind: "record", holder: odd });
});

test("encode() writes two lines, the first of them the PID alone", () => {
  const lines = text(encode({ ...FULL, label: "a\nb", command: "c\nd" })).split("\n");
  assertEquals([lines.length, lines[0], lines[2]], [3, "4711", ""]);
  assertEquals(JSON.parse(lines[1]).holdfast, 1);
});

const HUGE: Record<string, string> = {
  letters: "x".repeat(100_000),
  "control characters": "\u0001".repeat(100_000),
  quotes: '"\\'.repeat(50_000),
  "text of two bytes": "é".repeat(100_000),
  "text of three bytes": "語".repeat(100_000),
  "text of four bytes": `x${"🔒".repeat(100_000)}`,
  "halves of characters": "\ud83d".repeat(100_000),
};

for (const [kind, command] of Object.entries(HUGE)) {
  test(`encode() cuts a command line of ${kind} so that 4 KiB are enough`, () => {
    const worst = { ...FULL, command, label: "\u0001".repeat(200), host: "h".repeat(255) };
    for (const fields of [{ pid: 4711, command }, worst] as HolderFields[]) { // which they are; their union is narrower
      const record = encode(fields);
      assert(record.length <= RECORD_LIMIT, `${record.length} bytes`);
      const parsed = read(record);
      assertEquals(parsed.kind, "record");
      const kept = parsed.holder?.command ?? "";
      assert(kept.length > 100 && command.startsWith(kept), `${kept.length} characters are left`);
      assertEquals<object>({ ...parsed.holder, command }, fields); // all else is whole
    }
  });
}

test("parse() takes nothing, and up to 4 KiB of NUL bytes, for an empty file", () => {
  assertEquals(RECORD_LIMIT, 4096);
  for (const length of [0, 1, 100, 4095, 4096]) assertEquals(read(new Uint8Array(length)), { kind: "empty" });
  for (const length of [4097, 2 ** 20]) assertEquals(read(new Uint8Array(length)), FOREIGN);
  assertEquals(read("\0\0 "), FOREIGN);
});

test("parse() takes a bare PID, with or without a line break, for a record", () => {
  for (const bare of ["4711", "4711\n"]) assertEquals(read(bare), BARE);
  assertEquals(read("1\n"), { kind: "record", holder: { pid: 1 } });
  assertEquals(read("2147483647"), { kind: "record", holder: { pid: 2147483647 } });
});

test("parse() takes what is not a PID for somebody's data", () => {
  const numbers = ["0", "-1", "+1", " 12 34", " 12", "12 ", "99999999999", "2147483648", "1e3", "NaN", "Infinity"];
  const more = ["0x10", "007", "1.0", "1_0", "१२", "12,", "\t12", "12\0", "\x0012"];
  for (const content of [...numbers, ...more]) {
    for (const end of ["", "\n", `\n{"holdfast":1,"pid":12}\n`]) {
      assertEquals(read(content + end), FOREIGN, content + end);
    }
  }
});

test("parse() takes line ends of Windows, byte order marks and other text for somebody's data", () => {
  const record = text(encode(FULL));
  const texts = [
    "4711\r\n",
    "\ufeff4711\n",
    `\ufeff${record}`,
    record.replaceAll("\n", "\r\n"),
    "\n",
    "\n4711\n",
    "4711\n\n",
  ];
  for (const content of [...texts, "4711\nhello\n", "4711\n{}\n", '4711\n{"a":1}\n', '{"holdfast":1}']) {
    assertEquals(read(content), FOREIGN, JSON.stringify(content));
  }
  for (const content of [[0xff], [0xc3], [0xed, 0xa0, 0x80], [0x34, 0x0a, 0xff], [0xc0, 0x80]]) {
    assertEquals(read(Uint8Array.from(content)), FOREIGN);
  }
});

test("parse() takes a record with something after it for somebody's data, which is never changed", () => {
  for (const more of ["x", "a line of a log\n", "\n", "4711\n"]) {
    assertEquals(read(text(encode(FULL)) + more), FOREIGN, JSON.stringify(more));
  }
});

test("parse() takes what is longer than 4 KiB for somebody's data", () => {
  const padded = (length: number) => {
    const bare = withFields({ more: "" }).length;
    return withFields({ more: "x".repeat(length - bare) });
  };
  assertEquals(read(padded(4096)), { kind: "record", holder: FULL });
  assertEquals(read(padded(4097)), FOREIGN);
  assertEquals(read("4711".padEnd(5000, "\n")), FOREIGN);
});

test("parse() tells at which byte a record was cut: before, in or after its first line", () => {
  const whole = encode({ ...FULL, label: "é" });
  const kinds = new Map<string, number[]>();
  for (let length = 0; length <= whole.length; length++) {
    const { kind, holder } = read(whole.subarray(0, length));
    const which = holder === undefined
      ? kind
      : Object.keys(holder).length === 1
      ? `${kind} of ${holder.pid}`
      : `full ${kind}`;
    kinds.set(which, [...kinds.get(which) ?? [], length]);
  }
  assertEquals([...kinds], [
    ["empty", [0]],
    // These cannot be told from another program's PID file, so their numbers are taken at their word.
    ["record of 4", [1]],
    ["record of 47", [2]],
    ["record of 471", [3]],
    ["record of 4711", [4, 5]],
    // Nothing yet says that it is ours.
    ["foreign", range(6, 16)],
    // Also where the cut goes through a character, and where only the last line break is missing.
    ["damaged of 4711", range(17, whole.length - 1)],
    ["full record", [whole.length]],
  ]);
});

test("parse() takes a record that ends in NUL bytes for a damaged one", () => {
  const whole = encode(FULL);
  for (const length of range(20, whole.length - 1)) {
    const torn = new Uint8Array(whole.length);
    torn.set(whole.subarray(0, length));
    assertEquals(read(torn), DAMAGED, `${length} bytes are left`);
  }
});

test("parse() takes a record for damaged where a field is of the wrong kind", () => {
  const nonces = ["../../etc/passwd", "", "0".repeat(31), "0".repeat(33), "0123456789ABCDEF0123456789ABCDEF", 12, null];
  const wrong: object[] = [
    ...nonces.map((nonce) => ({ nonce })),
    ...["x", -1, 1.5, 2 ** 53, "0", null, [0]].map((uid) => ({ uid })),
    ...["", "Exclusive", 1, null, ["shared"]].map((mode) => ({ mode })),
    ...[4712, "4711", null, 0, -4711].map((pid) => ({ pid })),
    ...[0, -1, 1.5, "1", null, true, [1]].map((holdfast) => ({ holdfast })),
    ...["startTime", "bootId", "pidNamespace", "host", "command", "runtime", "acquiredAt", "label"]
      .flatMap((name) => [1, null, true, {}, ["x"]].map((value) => ({ [name]: value }))),
  ];
  for (const fields of wrong) assertEquals(read(withFields(fields)), DAMAGED, JSON.stringify(fields));
  for (const json of ['{"holdfast":1', '{"holdfast":1,}', '{"holdfast":}', '{"holdfast":1}x', '{"holdfast":1}{}']) {
    assertEquals(read(`4711\n${json}\n`), DAMAGED, json);
  }
});

test("parse() is not misled by __proto__, by a field given twice, or by deep JSON", () => {
  const start = '4711\n{"holdfast":1,"pid":4711';
  const proto = `${start},"__proto__":{"label":"x","nonce":"y","uid":-1},"constructor":1,"toString":"x"}\n`;
  assertEquals(read(proto), BARE);
  const { holder } = parse(bytes(proto)) as { holder: LockHolder }; // it has one, by the line before
  assertEquals(String(holder), "pid 4711");
  assertEquals(({} as { label?: string }).label, undefined); // nobody's prototype was written to
  assertEquals(read(`${start},"pid":1}\n`), DAMAGED);
  const deep = (depth: number) => `${start},"x":${"[".repeat(depth)}${"]".repeat(depth)}}\n`;
  assertEquals(read(deep(2000)), BARE);
  assertEquals(read(`${start},"label":${"[".repeat(2000)}${"]".repeat(2000)}}\n`), DAMAGED);
});

test("parse() reads a later version's record by the fields that it knows", () => {
  assertEquals(read(withFields({ holdfast: 2, lease: { until: 1 }, tags: ["a"] })), { kind: "record", holder: FULL });
  assertEquals(read('4711\n{"holdfast":7,"pid":4711}\n'), BARE);
});

test("parse() reads the fields in any order, if only the first is holdfast", () => {
  const { pid, ...rest } = FULL;
  assertEquals(read(`4711\n${JSON.stringify({ holdfast: 1, ...rest, pid })}\n`), { kind: "record", holder: FULL });
  assertEquals(read(`4711\n${JSON.stringify({ ...FULL, holdfast: 1 })}\n`), FOREIGN);
});

test("String(holder) is a phrase that a terminal can be trusted with", () => {
  const plain = 'pid 4711 (deno run nightly.ts) on web-1, "nightly", since 2026-11-29T10:00:00.000Z';
  assertEquals(String(new LockHolder(FULL)), plain);
  assertEquals(String(new LockHolder({ pid: 4711 })), "pid 4711");
  assertEquals(
    String(new LockHolder({ pid: 4711, command: "sh -c \x1b[2J\x1b]0;x\x07" })),
    String.raw`pid 4711 (sh -c \u001b[2J\u001b]0;x\u0007)`,
  );
  // Every control character, and every separator of lines, in every text.
  const codes = [...range(0, 0x1f), ...range(0x7f, 0x9f), 0x2028, 0x2029];
  const nasty = `a${String.fromCharCode(...codes)}b`;
  const printed = String(new LockHolder({ pid: 1, command: nasty, host: nasty, label: nasty, acquiredAt: nasty }));
  for (const character of printed) assert(!codes.includes(character.codePointAt(0) ?? 0), JSON.stringify(printed));
  const all = String.raw`a(?:\\u[0-9a-f]{4})+b`;
  assertMatch(printed, new RegExp(`^pid 1 \\(${all}\\) on ${all}, "a.+b", since ${all}$`));
});

test("LockHolder's fields cannot be written to", () => {
  const holder = new LockHolder(FULL);
  assertEquals(Object.keys(holder), Object.keys(FULL));
  for (const name of Object.keys(FULL)) assertEquals(Reflect.set(holder, name, 1), false, name);
});

test("sameBytes() compares length and content", () => {
  assert(sameBytes(bytes(""), bytes("")) && sameBytes(bytes("abc"), bytes("abc")));
  for (const [a, b] of [["abc", "abd"], ["abc", "ab"], ["ab", "abc"], ["", "a"]]) {
    assert(!sameBytes(bytes(a), bytes(b)));
  }
});

test("encode() leaves no number, job or pattern of a command line alone between blanks: kill $(cat LOCK)", () => {
  const fields: HolderFields = { pid: 4711, command: "job 1 2 -9 %1 +3 * ?? [a] x9 end", label: "5 6" };
  const text = new TextDecoder().decode(encode(fields));
  assertEquals(text.split(/\s+/).filter((word) => /^[-+]?\d|^[%*?[]/.test(word)), ["4711"]);
  const content = parse(new TextEncoder().encode(text));
  assert(content.kind === "record");
  assertEquals({ ...content.holder }, fields);
});

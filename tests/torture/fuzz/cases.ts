/** Lock files that nobody should have written: each is a real record, or a bare PID, and what was done to it. */
import { Random } from "../contention/random.ts";

/** A process that a record may name. */
export interface Owner {
  readonly pid: number;
  readonly startTime?: string;
}

/** Whom the records name, and what this machine's records have. */
export interface World {
  readonly template: Record<string, unknown>;
  readonly live: Owner;
  readonly dead: Owner;
  readonly own: Owner;
  /** A process that has ended and was not waited for; a thread of a process. */
  readonly zombie: Owner;
  readonly thread: Owner;
}

/** Where it stands: the lock file, its PID file, or the link of a takeover of a dead owner's. */
export type Place = "P" | "P.pid" | "link";

export interface Case {
  readonly bytes: Uint8Array;
  readonly place: Place;
  /** What was done, in words. */
  readonly how: string;
  /** It names a living process, and nothing was done that could make it anything else: must never be taken over. */
  readonly live: boolean;
}

/** RECORD_LIMIT by docs/protocol.md, not by the code that is attacked. */
const LIMIT = 4096;

const NUMBERS = [
  "0",
  "-0",
  "-1",
  "+1",
  "01",
  "1.0",
  "1e3",
  "1e309",
  "-1e309",
  "0x10",
  "2147483647",
  "2147483648",
  "4294967297",
  "9007199254740992",
  "9007199254740993",
  "99999999999999999999999999",
  "NaN",
  "Infinity",
  " 1",
  "1 ",
  "1 2",
  "١",
  "１",
  "",
];
const NAMES = [
  "__proto__",
  "constructor",
  "toString",
  "hasOwnProperty",
  "valueOf",
  "toJSON",
  "prototype",
  "then",
  "length",
  "__defineGetter__",
  "holdfast",
  "pid",
  "nonce",
  "",
];
/** As JSON. */
const VALUES = [
  "null",
  "true",
  "[]",
  "{}",
  '""',
  "-0",
  "1e309",
  "-1",
  "9007199254740993",
  '"__proto__"',
  '{"__proto__":{"pid":1}}',
  '["exclusive"]',
  '"../../../etc/passwd"',
  '"\\u0000"',
  '"\\ud800"',
  '"0123456789ABCDEF0123456789ABCDEF"',
  '"0123456789abcdef0123456789abcdef\\n"',
  "{",
  "undefined",
  "'x'",
];
/** Invalid UTF-8: a lone continuation, cut sequences, overlong, a surrogate, beyond U+10FFFF; and BOMs. */
const BYTES = [
  [0x80],
  [0xc3],
  [0xe2, 0x82],
  [0xf0, 0x9f, 0x94],
  [0xc0, 0xb1],
  [0xe0, 0x80, 0xb1],
  [0xed, 0xa0, 0x80],
  [0xf4, 0x90, 0x80, 0x80],
  [0xff],
  [0xfe, 0xff],
  [0xff, 0xfe],
  [0xef, 0xbb, 0xbf],
  [0x0d],
  [0x0a],
  [0x0d, 0x0a],
  [0x00],
  [0xc2, 0x85],
  [0xe2, 0x80, 0xa8],
  [0xe2, 0x80, 0xae],
  [0x1b, 0x5b, 0x32, 0x4a],
];

/** Text of any characters: control characters, all planes, halves of pairs. */
export function oddText(random: Random, length: number): string {
  const ranges = [[0, 0x1f], [0x20, 0x7f], [0x80, 0x2ff], [0x2000, 0x206f], [0xd800, 0xdfff], [
    0xfff0,
    0xffff,
  ]] as const;
  let text = "";
  while (text.length < length) {
    const [low, high] = random.pick([...ranges, [0x10000, 0x10ffff]] as const);
    text += String.fromCodePoint(low + random.below(high - low + 1));
  }
  return text.slice(0, length); // which may cut a pair
}

/** Deeply nested JSON. */
const deep = (depth: number, random: Random): string => {
  const [open, close] = random.pick([["[", "]"], ['{"a":', "}"]]);
  return open.repeat(depth) + (open === "[" ? "" : "1") + close.repeat(random.pick([depth, 0, depth - 1]));
};

/** A record, taken apart. */
interface Parts {
  first: string;
  /** Name and value of each field, both as JSON. */
  fields: [name: string, value: string][];
  gap: string;
}

const join = ({ first, fields, gap }: Parts) =>
  `${first}\n{${fields.map(([name, value]) => `${name}:${gap}${value}`).join(`,${gap}`)}}\n`;

type Change = readonly [how: string, make: (parts: Parts, random: Random) => void];

/** The places of fields that may change without the owner's becoming another, or less than alive. */
const FREE = new Set(['"command"', '"acquiredAt"', '"runtime"', '"label"', '"uid"', '"mode"', '"nonce"']);
const OPTIONAL = new Set([...FREE, '"startTime"']);

const set = ({ fields }: Parts, name: string, value: string) => {
  const at = fields.findIndex(([each]) => each === name);
  if (at < 0) fields.push([name, value]);
  else fields[at] = [name, value];
};

const insert = (parts: Parts, random: Random, name: string, value: string) =>
  void parts.fields.splice(1 + random.below(parts.fields.length), 0, [name, value]);

/** What leaves a record one, with the same owner. The field "holdfast" stays the first. */
const HARMLESS: readonly Change[] = [
  ["fields in another order", (parts, random) => {
    const [first, ...rest] = parts.fields;
    parts.fields = [first, ...random.sample(rest, rest.length)];
  }],
  [
    "an unknown field",
    (parts, random) =>
      insert(parts, random, JSON.stringify(`x${oddText(random, 5)}`), random.pick(["1", "null", "[[]]", '"\\u0000"'])),
  ],
  [
    "a prototype's name as a field",
    (parts, random) =>
      insert(parts, random, JSON.stringify(random.pick(NAMES.slice(0, 10))), random.pick(["1", '{"pid":1}', "null"])),
  ],
  [
    "a label of odd text",
    (parts, random) => set(parts, '"label"', JSON.stringify(oddText(random, random.below(200)))),
  ],
  [
    "a command of odd text",
    (parts, random) => set(parts, '"command"', JSON.stringify(oddText(random, random.below(300)))),
  ],
  ["another nonce", (parts, random) => set(parts, '"nonce"', JSON.stringify(random.nonce()))],
  ["a later version", (parts, random) => set(parts, '"holdfast"', String(1 + random.below(1000)))],
  ["a large user id", (parts) => set(parts, '"uid"', "4294967294")],
  ["a field left out", (parts, random) => {
    const name = random.pick(parts.fields.map(([each]) => each).filter((each) => OPTIONAL.has(each)));
    parts.fields = parts.fields.filter(([each]) => each !== name);
  }],
  ["a field twice, and the same", (parts, random) => {
    const [name, value] = random.pick(parts.fields);
    insert(parts, random, name, value);
  }],
  ["blanks in the JSON", (parts, random) => parts.gap = random.pick([" ", "\t", "\r", "  \t"])],
  ["a name with an escape", (parts, random) => {
    const at = 1 + random.below(parts.fields.length - 1);
    const [name, value] = parts.fields[at];
    if (name.startsWith('"\\')) return; // it has one, and another would make a backslash of that
    const code = name.charCodeAt(1).toString(16).padStart(4, "0");
    parts.fields[at] = [`"\\u${code}${name.slice(2)}`, value];
  }],
  ["a deep field", (parts, random) => {
    const depth = 1 + random.below(1500);
    insert(parts, random, '"x"', "[".repeat(depth) + "]".repeat(depth));
  }],
];

/** What may make anything of it. */
const CHANGES: readonly Change[] = [
  ["another first line", (parts, random) => parts.first = random.pick(NUMBERS)],
  ["an odd pid in the JSON", (parts, random) => set(parts, '"pid"', random.pick(NUMBERS))],
  ["the same odd pid twice", (parts, random) => {
    parts.first = random.pick(NUMBERS);
    set(parts, '"pid"', parts.first);
  }],
  ["an odd version", (parts, random) => set(parts, '"holdfast"', random.pick([...NUMBERS, ...VALUES]))],
  ["an odd value", (parts, random) => {
    random.pick(parts.fields)[1] = random.pick(VALUES);
  }],
  ["an odd name", (parts, random) => {
    random.pick(parts.fields)[0] = JSON.stringify(random.pick(NAMES));
  }],
  ["two values swapped", (parts, random) => {
    const [a, b] = random.sample(parts.fields, 2);
    [a[1], b[1]] = [b[1], a[1]];
  }],
  ["two names swapped", (parts, random) => {
    const [a, b] = random.sample(parts.fields, 2);
    [a[0], b[0]] = [b[0], a[0]];
  }],
  ["a field removed", (parts, random) => void parts.fields.splice(random.below(parts.fields.length), 1)],
  ["a field twice", (parts, random) => insert(parts, random, random.pick(parts.fields)[0], random.pick(VALUES))],
  ["deep JSON", (parts, random) => {
    random.pick(parts.fields)[1] = deep(random.pick([100, 1900, 3000, 3900, 10_000]), random);
  }],
  ["another host", (parts) => set(parts, '"host"', '"elsewhere"')],
  ["another boot", (parts) => set(parts, '"bootId"', '"00000000-0000-0000-0000-000000000000"')],
  ["another boot, in a shared folder", (parts) => {
    set(parts, '"bootId"', '"00000000-0000-0000-0000-000000000000"');
    set(parts, '"fileSystem"', '"vboxsf"');
  }],
  ["a thread that has ended", (parts) => set(parts, '"thread"', "2147483647")],
  ["another PID namespace", (parts) => set(parts, '"pidNamespace"', '"1"')],
  ["another time namespace", (parts) => set(parts, '"timeNamespace"', '"1"')],
  ["another start time", (parts, random) => set(parts, '"startTime"', JSON.stringify(random.pick(NUMBERS)))],
  [
    "a long label",
    (parts, random) => set(parts, '"label"', JSON.stringify(oddText(random, random.pick([1000, 3000, 10_000])))),
  ],
];

type ByteChange = readonly [how: string, make: (bytes: number[], random: Random) => number[]];

const BYTE_CHANGES: readonly ByteChange[] = [
  ["cut", (bytes, random) => bytes.slice(0, random.below(bytes.length + 1))],
  ["its beginning cut", (bytes, random) => bytes.slice(random.below(bytes.length + 1))],
  ["a byte flipped", (bytes, random) => {
    const at = random.below(bytes.length);
    return bytes.map((byte, i) => i === at ? byte ^ (1 << random.below(8)) : byte);
  }],
  [
    "a control character in it",
    (bytes, random) => bytes.toSpliced(random.below(bytes.length + 1), 0, random.below(32)),
  ],
  ["odd bytes in it", (bytes, random) => bytes.toSpliced(random.below(bytes.length + 1), 0, ...random.pick(BYTES))],
  ["odd bytes over it", (bytes, random) => {
    const odd = random.pick(BYTES);
    return bytes.toSpliced(random.below(bytes.length + 1), odd.length, ...odd);
  }],
  ["odd bytes before it", (bytes, random) => [...random.pick(BYTES), ...bytes]],
  ["odd bytes after it", (bytes, random) => [...bytes, ...random.pick(BYTES)]],
  ["a part removed", (bytes, random) => bytes.toSpliced(random.below(bytes.length + 1), random.below(40))],
  ["a part repeated", (bytes, random) => {
    const at = random.below(bytes.length + 1);
    return bytes.toSpliced(at, 0, ...bytes.slice(at, at + random.below(80)));
  }],
  ["NULs over a part", (bytes, random) => {
    const [at, length] = [random.below(bytes.length + 1), random.pick([1, 8, 64, 512])];
    return bytes.map((byte, i) => i >= at && i < at + length ? 0 : byte);
  }],
  ["NULs after it", (bytes, random) => [...bytes, ...new Array(random.pick([1, 100, 3000])).fill(0)]],
  ["nothing but NULs", (_, random) => new Array(random.pick([0, 1, 2, LIMIT - 1, LIMIT, LIMIT + 1, 9000])).fill(0)],
  ["every line ended by CRLF", (bytes) => bytes.flatMap((byte) => byte === 10 ? [13, 10] : [byte])],
  [
    "lines after it",
    (bytes, random) => [...bytes, ...text(random.pick(["data\n", "\n", " ", "4711\n", "{}\n", "\n\n"]))],
  ],
  ["lines before it", (bytes, random) => [...text(random.pick(["data\n", "\n", " ", "4711\n", "{}\n"])), ...bytes]],
  ["several of it", (bytes, random) => new Array(2 + random.below(12)).fill(bytes).flat()],
  ["made as long as the limit, or not quite", (bytes, random) => {
    const length = LIMIT + random.pick([-1, 0, 1, 2]);
    const fill = random.pick([0, 10, 32, 49]);
    return bytes.length < length ? [...bytes, ...new Array(length - bytes.length).fill(fill)] : bytes.slice(0, length);
  }],
  [
    "huge",
    (bytes, random) => [...bytes, ...new Array(random.pick([5000, 20_000])).fill(random.pick([0, 10, 32, 49, 120]))],
  ],
];

const text = (string: string) => [...new TextEncoder().encode(string)];

/** The `n`th case of a seed; only the processes that it names are this machine's. */
export function makeCase(world: World, seed: number, n: number): Case {
  const random = new Random(seed, n);
  const place = random.pick<Place>(["P", "P", "P.pid", "P.pid", "P.pid", "link"]);
  const owners = ["live", "live", "live", "live", "dead", "dead", "own", "zombie", "thread", "init"] as const;
  const picked = random.pick(owners);
  const isRecord = random.next() < 0.85;
  // A record of the very thread that asks was left by an earlier load of its program: tests/reload_test.ts.
  const kind = picked === "own" && isRecord ? "live" : picked;
  const owner: Owner = kind === "init" ? { pid: 1, startTime: undefined } : world[kind];
  const how: string[] = [kind];
  const isTame = random.next() < 0.4;
  const parts: Parts = {
    first: String(owner.pid),
    fields: Object.entries({
      holdfast: 1,
      ...world.template,
      label: "nightly",
      nonce: random.nonce(),
      ...owner,
      thread: owner.pid,
    })
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => [JSON.stringify(name), JSON.stringify(value)]),
    gap: "",
  };
  const change = (changes: readonly Change[]) => {
    const [name, make] = random.pick(changes);
    how.push(name);
    make(parts, random);
  };
  if (isRecord) {
    for (let i = random.below(3); i > 0; i--) change(HARMLESS);
    if (!isTame) { for (let i = random.below(3); i > 0; i--) change(CHANGES); }
  } else {
    how.push("bare PID");
    if (!isTame && random.next() < 0.5) {
      how.push("another number");
      parts.first = random.pick(NUMBERS);
    }
  }
  let bytes = text(isRecord ? join(parts) : parts.first + random.pick(["", "\n"]));
  if (!isTame) {
    for (let i = random.below(3); i > 0 && bytes.length > 0; i--) {
      const [name, make] = random.pick(BYTE_CHANGES);
      how.push(name);
      bytes = make(bytes, random);
    }
  }
  const isAlive = kind === "live" || kind === "init" || kind === "own";
  const live = isTame && isAlive && bytes.length <= LIMIT;
  return { bytes: Uint8Array.from(bytes), place, how: how.join(", "), live };
}

/**
 * One runtime's share of the fuzzing. Prints one line of JSON.
 *
 *   worker.ts ORDER
 *
 * ORDER is an {@linkcode Order} as JSON, or a file with one.
 */
import { Buffer } from "node:buffer";
import * as fs from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import type { LockHolder } from "../../../src/record/record.ts";
import { Random } from "../contention/random.ts";
import { makeCase, oddText, type World } from "./cases.ts";
import { growthOf, STEEP } from "./growth.ts";
import { type Fields, judgeOwner, judgeProcess, readBytes, type Reading, saysTooLittle, TEXTS } from "./oracle.ts";

export interface Order {
  /** The folder with mod.ts and src/. */
  readonly modules: string;
  readonly dir: string;
  readonly seed: number;
  /** Cases `from` to `to` - 1 go through parse(); of these every `step`th from `first` on through the file system too. */
  readonly from: number;
  readonly to: number;
  readonly first: number;
  readonly step: number;
  readonly records: number;
  /** So many failures, and it ends. */
  readonly enough: number;
  /** A lock file that another process holds for as long as this one runs. */
  readonly heldPath: string;
  /** That one's record for a case; all but `own`, which is this process's own. */
  readonly world: World;
}

export interface Result {
  parsed: number;
  onDisk: number;
  records: number;
  /** How many of each kind there were. */
  counts: Record<string, number>;
  /** The longest of each call, in milliseconds. */
  longest: Record<string, number>;
  /** A number for what parse() made of each 1000 cases: the same in each runtime. */
  digests: number[];
  growth: Record<string, number>;
  /** Processor time, in seconds. */
  cpu: number;
  failures: string[];
}

const given = process.argv[2];
const order: Order = JSON.parse(given.startsWith("{") ? given : fs.readFileSync(given, "utf8"));
const load = (name: string) => import(pathToFileURL(join(order.modules, name)).href);
const module: typeof import("../../../mod.ts") = await load("mod.ts");
const { encode, parse, LockHolder: Holder }: typeof import("../../../src/record/record.ts") = await load(
  "src/record/record.ts",
);
const { Lock, LockError, LockTimeoutError } = module;

/** So long no call may take, in milliseconds; one that does so five times in a row is slow. */
const LONGEST = 1000;
/** A damaged file may be in the making so long, and is dead after that, with a second to spare; in milliseconds. */
const YOUNG = 1900, OLD = 4100;

const result: Result = {
  ...{ parsed: 0, onDisk: 0, records: 0, counts: {}, longest: {}, digests: [], growth: {}, cpu: 0, failures: [] },
};
const count = (what: string) => result.counts[what] = (result.counts[what] ?? 0) + 1;

class Wrong extends Error {}
function demand(holds: boolean, what: () => string): asserts holds {
  if (!holds) throw new Wrong(what());
}
/** What went wrong, and where if it is no demand of ours. */
const told = (error: unknown) =>
  error instanceof Wrong ? error.message : error instanceof Error ? `${error.name}: ${error.message}` : String(error);

/** Times it. A call that was slow because the machine was busy is not slow a second time. */
function timed<T>(name: string, call: () => T): T {
  const began = performance.now();
  const value = call();
  const took = performance.now() - began;
  if (took > (result.longest[name] ?? 0)) result.longest[name] = took;
  if (took > LONGEST) slow.push(name);
  return value;
}
let slow: string[] = [];

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");
const same = (a: Uint8Array, b: Uint8Array) => Buffer.compare(a, b) === 0;
/** Whatever a terminal or a log might take for more than text. */
const isPlain = (text: string) => !/[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/u.test(text);

// ---- parse ----

/** What parse() makes of bytes, after it was compared with what docs/protocol.md says. */
function attackParse(bytes: Uint8Array): Reading["kind"] {
  const before = bytes.slice();
  const content = timed("parse", () => parse(bytes));
  demand(same(before, bytes), () => "parse() changed what it was given");
  const expected = readBytes(bytes);
  demand(content.kind === expected.kind, () => `parse() says ${content.kind}, docs/protocol.md ${expected.kind}`);
  demand(!("pid" in {}) && !("nonce" in {}), () => "parse() polluted Object.prototype");
  if (!("holder" in content)) return content.kind;
  const { holder } = content;
  demand(Object.getPrototypeOf(holder) === Holder.prototype, () => "the holder is of another class");
  const fields: Record<string, unknown> = expected.kind === "record"
    ? expected.fields
    : { pid: "pid" in expected && expected.pid };
  for (const [name, value] of Object.entries(holder)) {
    demand(
      /^(?:pid|startTime|bootId|pidNamespace|timeNamespace|host|fileSystem|thread|uid|command|runtime|mode|acquiredAt|nonce|label)$/
        .test(name),
      () => `the holder has a field ${JSON.stringify(name)}`,
    );
    demand(Object.is(value, fields[name]), () => `the holder's ${name} is ${JSON.stringify(value)}`);
  }
  const words = timed("toString", () => String(holder));
  demand(
    isPlain(words) && words.startsWith(`pid ${holder.pid}`),
    () => `the holder in words is ${JSON.stringify(words)}`,
  );
  return content.kind;
}

// ---- the file system ----

const home = join(order.dir, "home");
const path = join(home, "a.lock");
const pidFile = `${path}.pid`;
fs.mkdirSync(home, { recursive: true });

/** What this process's records have, and what it is to others. */
const own = await (async (): Promise<Fields> => {
  const lock = new Lock(path, { backend: "pidfile" });
  await lock.acquire();
  const fields = JSON.parse(fs.readFileSync(pidFile, "utf8").split("\n")[1]);
  lock.release();
  return fields;
})();
const world: World = { ...order.world, own: { pid: own.pid, startTime: String(own.startTime) } };

const names = () => fs.readdirSync(home).sort();
/** Empties the folder, and puts these in. */
function put(files: Record<string, Uint8Array>): void {
  for (const name of names()) fs.unlinkSync(join(home, name));
  for (const [name, bytes] of Object.entries(files)) fs.writeFileSync(join(home, name), bytes);
}
/** Every file with its bytes and its times, as one text: equal if and only if nothing was touched. */
function picture(folder = home): string {
  return fs.readdirSync(folder).sort().map((name) => {
    const { ino, mtimeMs, ctimeMs, mode } = fs.statSync(join(folder, name));
    return [name, ino, mtimeMs, ctimeMs, mode, fs.readFileSync(join(folder, name), "hex")].join(" ");
  }).join("\n");
}
const contents = (folder = home) =>
  fs.readdirSync(folder).sort().map((name) => `${name} ${fs.readFileSync(join(folder, name), "hex")}`).join("\n");

type Backend = "flock" | "pidfile";
let stale: LockHolder | undefined;
const newLock = (at: string, backend: Backend) =>
  new Lock(at, { backend, label: "fuzz", onStale: (holder) => stale = holder });

/** One try, and the release of what it got; calls `meanwhile` while it is held. */
function tryOnce(at: string, backend: Backend, meanwhile = () => {}): boolean {
  stale = undefined;
  const lock = newLock(at, backend);
  const got = timed(`tryAcquire, ${backend}`, () => lock.tryAcquire());
  if (!got) return false;
  try {
    meanwhile();
  } finally {
    timed(`release, ${backend}`, () => lock.release());
  }
  return true;
}

/** The back end whose turn it is; each case tries one by tryAcquire() and the other by acquire(). */
const turn = (n: number): Backend => Math.floor(n / order.step) % 2 ? "flock" : "pidfile";

/** Refused by tryAcquire() and acquire(), with a reason, and without a trace. */
async function mustRefuse(at: string, folder: string, reason: RegExp, why: string, n: number): Promise<void> {
  const before = picture(folder);
  const [first, second] = [turn(n), turn(n + order.step)];
  demand(!tryOnce(at, first), () => `STOLEN: tryAcquire() by ${first} got it, though ${why}`);
  const lock = newLock(at, second);
  let failure: unknown;
  const began = performance.now();
  try {
    await lock.acquire({ timeout: 0 });
    lock.release();
  } catch (error) {
    failure = error;
  }
  const took = performance.now() - began;
  if (took > (result.longest.acquire ?? 0)) result.longest.acquire = took;
  if (took > LONGEST) slow.push("acquire");
  demand(failure !== undefined, () => `STOLEN: acquire() by ${second} got it, though ${why}`);
  if (!(failure instanceof LockTimeoutError)) throw failure;
  const { message } = failure;
  demand(
    isPlain(message) && message.includes(JSON.stringify(at)) && reason.test(message),
    () => `acquire() by ${second} does not say why it was refused: ${JSON.stringify(message)}`,
  );
  demand(picture(folder) === before, () => `a refused try changed something: ${before}\nis now ${picture(folder)}`);
}

function inspectIt(at: string, folder: string): string {
  const before = picture(folder);
  const { state, reason, holders } = timed("inspect", () => Lock.inspect(at));
  demand(picture(folder) === before, () => "inspect() changed something");
  demand(reason !== "" && Array.isArray(holders), () => "inspect() gives no reason");
  for (const holder of holders) {
    demand(isPlain(String(holder)), () => `inspect() names ${JSON.stringify(String(holder))}`);
  }
  return state;
}

const reasonOf = (reading: Reading) =>
  reading.kind === "record" ? new RegExp(`pid ${reading.fields.pid}\\b`) : /damaged/;

/** What an owner comes to. "young", a damaged file, is dead when it is old. */
function verdictOf(reading: Reading): "alive" | "dead" | "unknown" | "young" {
  return reading.kind === "record" ? judgeOwner(reading.fields, own) : "young";
}

/** A number and nothing that a holder says of itself: with that it may be one who has the same number elsewhere. */
const isBare = (reading: Reading): boolean =>
  reading.kind === "record" && [...TEXTS, "uid", "mode", "nonce"].every((name) => !Object.hasOwn(reading.fields, name));

/** The kernel's lock is free whatever stands in the file; and what is not ours stays as it is. */
async function attackLockFile(bytes: Uint8Array, n: number): Promise<void> {
  const { kind } = readBytes(bytes);
  put({ "a.lock": bytes });
  const state = inspectIt(path, home);
  const owner = verdictOf(readBytes(bytes));
  // Another program's, which locks nothing, and of one that lives: nobody died.
  const isNumber = isBare(readBytes(bytes)) && owner === "alive";
  // On a local disk the kernel would show the lock of one that does not say where it ran; its number tells the rest.
  const reading = readBytes(bytes);
  const isLeft = owner === "unknown" && own.fileSystem === "local" && reading.kind === "record" &&
    saysTooLittle(reading.fields, own) && judgeProcess(reading.fields.pid, undefined) === "dead";
  const right = isNumber || kind === "empty" || kind === "foreign"
    ? "free"
    : isLeft
    ? "stale"
    : owner === "alive" || owner === "unknown"
    ? "unknown"
    : "";
  demand(
    right === "" || state === right,
    () => `inspect() says ${state} of a lock file that nobody holds, not ${right}`,
  );
  const inode = fs.statSync(path).ino;
  const got = tryOnce(path, "flock", () => {
    const now = new Uint8Array(fs.readFileSync(path));
    if (kind === "foreign") demand(same(now, bytes), () => "FOREIGN CONTENT CHANGED while it was held");
    else demand(readBytes(now).kind === "record", () => `what was written over ${kind} is no record`);
  });
  demand(got, () => "tryAcquire() by flock is refused by a file's content");
  const left = (kind === "record" && !isNumber) || kind === "damaged";
  demand((stale !== undefined) === left, () => `the stale holder is ${stale}`);
  const after = new Uint8Array(fs.readFileSync(path));
  demand(
    kind === "foreign" ? same(after, bytes) : after.length === 0,
    () => (kind === "foreign" ? "FOREIGN CONTENT CHANGED" : "the record was not cleared") + `: ${hex(after)}`,
  );
  demand(fs.statSync(path).ino === inode, () => "the lock file was replaced");
  if (n % 2) return;
  put({ "a.lock": bytes });
  demand(tryOnce(path, "pidfile"), () => "tryAcquire() by PID file is refused by a lock file that nobody holds");
  demand(contents() === `a.lock ${hex(bytes)}`, () => `the PID-file back end left ${contents()}`);
  if (n % 16) return;
  count("beside a kernel's holder");
  const folder = join(order.heldPath, "..");
  fs.writeFileSync(order.heldPath, bytes);
  const held = inspectIt(order.heldPath, folder);
  demand(held === "held", () => `inspect() says ${held} of what another process holds`);
  await mustRefuse(order.heldPath, folder, /held by/, "another process holds it by the kernel", n);
}

async function attackPidFile(bytes: Uint8Array, n: number): Promise<void> {
  const reading = readBytes(bytes);
  const began = performance.now();
  put({ "a.lock.pid": bytes });
  const owner = verdictOf(reading);
  const isMine = reading.kind === "record" && reading.fields.pid === own.pid && isBare(reading);
  const state = inspectIt(path, home);
  const right = { alive: "held", dead: "stale", unknown: "unknown", young: "unknown" }[owner];
  if (verdictOf(reading) !== owner) return void count("changed meanwhile");
  demand(state === right, () => `inspect() says ${state}, docs/protocol.md ${right}`);
  count(`P.pid ${owner}`);
  if (owner === "dead") {
    const backend = turn(n);
    put({ "a.lock.pid": bytes });
    demand(tryOnce(path, backend), () => `tryAcquire() by ${backend} is refused by a dead owner`);
    demand(stale !== undefined, () => `${backend}: the dead owner was not reported`);
    const left = contents();
    demand(left === (backend === "flock" ? "a.lock " : ""), () => `${backend} left ${left}`);
  } else if (isMine && owner === "alive") {
    // A daemon's own PID file beside its lock: not in the kernel lock's way, and not touched.
    demand(tryOnce(path, "flock"), () => "tryAcquire() by flock is refused by its own process's PID file");
    demand(same(new Uint8Array(fs.readFileSync(pidFile)), bytes), () => "its own process's PID file was changed");
    demand(!tryOnce(path, "pidfile"), () => "STOLEN: tryAcquire() by pidfile");
  } else {
    try {
      await mustRefuse(path, home, reasonOf(reading), `docs/protocol.md says ${owner}`, n);
    } catch (error) {
      if (owner === "young" && performance.now() - began > YOUNG) return void count("too slow for the age rule");
      throw error;
    }
    if (Math.floor(n / order.step) % 3 === 0) putAside(bytes, n, owner);
  }
}

/** `P.pid` is a dead owner's, and this is the link of a takeover of that. */
function attackLink(bytes: Uint8Array, n: number): void {
  const reading = readBytes(bytes);
  // Now and then the link is its own successor.
  const loops = reading.kind === "record" && n % 5 === 0;
  const nonce = loops && typeof reading.fields.nonce === "string" ? reading.fields.nonce : nonceOf(n);
  const root = { ...own, ...order.world.dead, nonce };
  const rootBytes = new TextEncoder().encode(`${root.pid}\n${JSON.stringify(root)}\n`);
  const files = { "a.lock.pid": rootBytes, [`a.lock.pid.${nonce}`]: bytes };
  const began = performance.now();
  put(files);
  inspectIt(path, home);
  const owner = verdictOf(reading);
  count(`link ${owner}`);
  const both = contents();
  const isFree = owner === "dead";
  // No takeover leaves that, and it may not be followed for ever.
  const isLoop = reading.kind === "record" && reading.fields.nonce === nonce;
  const late = () => owner === "young" && performance.now() - began > YOUNG;
  if (turn(n) === "flock") {
    const got = tryOnce(path, "flock");
    demand(got, () => "tryAcquire() by flock is refused by a dead owner's takeover");
    const wanted = isFree && !isLoop ? "a.lock " : `a.lock \n${both}`;
    if (!late()) demand(contents() === wanted, () => `flock left ${contents()}`);
    return;
  }
  let got: boolean;
  try {
    got = tryOnce(path, "pidfile");
    if (late() && got) return void count("too slow for the age rule");
  } catch (error) {
    if (isFree && isLoop && error instanceof LockError && error.code === "ELOOP") return void count("loop");
    throw error;
  }
  demand(got === isFree, () => `tryAcquire() by PID file says ${got} to a takeover whose maker is ${owner}`);
  demand(contents() === (isFree ? "" : both), () => `a takeover that says ${got} left ${contents()}`);
}

/** A nonce of a case's own. */
const nonceOf = (n: number) => new Random(order.seed, n + 2e9).nonce();

// ---- what grows old ----

interface Aside {
  readonly folder: string;
  readonly bytes: Uint8Array;
  readonly n: number;
  readonly since: number;
  readonly owner: string;
}
const aside: Aside[] = [];

function putAside(bytes: Uint8Array, n: number, owner: string): void {
  const folder = join(order.dir, `aside-${n}`);
  fs.mkdirSync(folder);
  fs.writeFileSync(join(folder, "a.lock.pid"), bytes);
  aside.push({ folder, bytes, n, since: performance.now(), owner });
}

async function attackOld({ folder, bytes, n, owner }: Aside): Promise<void> {
  const at = join(folder, "a.lock");
  const reading = readBytes(bytes);
  if (owner === "young") {
    count("old and damaged");
    const backend = turn(n);
    demand(tryOnce(at, backend), () => `tryAcquire() by ${backend} is refused by a damaged PID file that is old`);
    demand(contents(folder) === (backend === "flock" ? "a.lock " : ""), () => `${backend} left ${contents(folder)}`);
  } else {
    count(`old and ${owner}`);
    await mustRefuse(at, folder, reasonOf(reading), `its owner is ${owner}, if old`, n);
  }
}

async function lookAside(until: number): Promise<void> {
  while (aside.length > 0 && aside[0].since + OLD <= until) {
    const each = aside.shift();
    if (!each) return;
    await guarded(each.n, each.bytes, "old", () => attackOld(each));
    fs.rmSync(each.folder, { recursive: true, force: true });
  }
}

// ---- one case ----

const journal = fs.openSync(join(order.dir, "case"), "w");
let attacks = 0;
const attack = { "P": attackLockFile, "P.pid": attackPidFile, "link": attackLink };

/** Runs it; what fails is made small, and told with what is needed to replay it. */
async function guarded(
  n: number,
  bytes: Uint8Array,
  how: string,
  run: (bytes: Uint8Array) => unknown,
  shrinks = false,
) {
  if (result.failures.length >= order.enough) return;
  fs.writeSync(journal, Buffer.from(`${n} ${++attacks}`.padStart(20)), 0, 20, 0); // for the case that never ends
  const failure = await failing(run, bytes);
  if (failure === undefined) return;
  const small = shrinks ? await shrink(bytes, run) : bytes;
  const again = JSON.stringify({ seed: order.seed, case: n });
  result.failures.push(
    `case ${n} of seed ${order.seed} (${how}): ${failure}. Replay: HOLDFAST_TORTURE_CASE='${again}'. Bytes, ` +
      `${small.length} of ${bytes.length}: ${hex(small.subarray(0, 4200))}`,
  );
}

async function failing(run: (bytes: Uint8Array) => unknown, bytes: Uint8Array): Promise<string | undefined> {
  slow = [];
  try {
    await run(bytes);
    for (let i = 0; slow.length > 0 && i < 4; i++) {
      slow = [];
      await run(bytes);
    }
    return slow.length > 0 ? `${slow} took more than ${LONGEST} ms, five times` : undefined;
  } catch (error) {
    return told(error) + (error instanceof Wrong || !(error instanceof Error) ? "" : `\n${error.stack}`);
  }
}

/** The shortest beginning that fails too, then without what may be left out. */
async function shrink(bytes: Uint8Array, run: (bytes: Uint8Array) => unknown): Promise<Uint8Array> {
  let small = bytes, tries = 0;
  for (let length = 0; length < bytes.length && tries < 100; length += Math.max(1, bytes.length >> 6), tries++) {
    if (await failing(run, bytes.slice(0, length)) === undefined) continue;
    small = bytes.slice(0, length);
    break;
  }
  for (let part = small.length >> 1; part > 0 && tries < 300; part >>= 1) {
    for (let at = 0; at + part <= small.length && tries < 300; tries++) {
      const less = Uint8Array.from([...small.subarray(0, at), ...small.subarray(at + part)]);
      if (await failing(run, less) === undefined) at += part;
      else small = less;
    }
  }
  return small;
}

// ---- records ----

/** encode(parse(encode(r))) is encode(r), but for the order of the fields and the cut of the command line. */
function attackRecord(n: number): void {
  const random = new Random(order.seed, n + 3e9);
  const text = (longest: number) => oddText(random, random.below(longest));
  const isLong = random.next() < 0.05;
  const fields: Record<string, unknown> = { pid: random.pick([1, 4711, 2 ** 31 - 1, 1 + random.below(2 ** 31 - 1)]) };
  const may = (name: string, value: () => unknown) => random.next() < 0.8 && (fields[name] = value());
  may("startTime", () => text(20));
  may("bootId", () => text(40));
  may("pidNamespace", () => text(12));
  may("timeNamespace", () => text(12));
  may("host", () => text(60));
  may("fileSystem", () => text(10));
  may("uid", () => random.pick([0, 1, 1000, 2 ** 32 - 2, Number.MAX_SAFE_INTEGER]));
  may("command", () => text(random.pick([10, 300, 10_000])));
  may("runtime", () => text(20));
  may("mode", () => random.pick(["exclusive", "shared"]));
  may("acquiredAt", () => text(30));
  may("nonce", () => random.nonce());
  may("label", () => isLong ? oddText(random, 10_000) : text(200));
  const given = fields as unknown as Parameters<typeof encode>[0]; // built of its fields just above
  const first = encode(given);
  const content = parse(first);
  if (first.length > LIMIT) {
    count("records beyond the limit");
    demand(content.kind === "foreign", () => `a record of ${first.length} bytes is ${content.kind}`);
    return;
  }
  demand(content.kind === "record", () => `what encode() wrote parse() calls ${content.kind}: ${hex(first)}`);
  const { holder } = content;
  for (const [name, value] of Object.entries(fields)) {
    const got = holder[name as keyof LockHolder]; // one of its fields
    const isSame = name === "command" ? String(value).startsWith(String(got)) : Object.is(got, value);
    demand(isSame, () => `${name} went in as ${JSON.stringify(value)} and came out as ${JSON.stringify(got)}`);
  }
  demand(Object.keys(holder).every((name) => name in fields), () => `there are ${Object.keys(holder)}`);
  const second = encode(holder);
  const again = parse(second);
  demand(again.kind === "record", () => `encode(parse(encode(r))) is ${again.kind}`);
  demand(same(encode(again.holder), second), () => "encode(parse(x)) is not x");
  for (const name of Object.keys(holder) as (keyof LockHolder)[]) { // its own keys
    demand(Object.is(again.holder[name], holder[name]), () => `${name} changed the second time`);
  }
}
const LIMIT = 4096;

// ---- growth ----

/** What might take time by its square. */
const parsing = (make: (length: number) => string) => (length: number) => {
  const bytes = new TextEncoder().encode(make(length));
  return () => parse(bytes);
};
const telling = (character: string) => (length: number) => {
  const holder = new Holder({ pid: 1, command: character.repeat(length), label: character.repeat(length) });
  return () => String(holder);
};
const GROWTH: Record<string, (length: number) => () => unknown> = {
  digits: parsing((length) => "1".repeat(length)),
  "line ends": parsing((length) => "\n".repeat(length)),
  "a PID and line ends": parsing((length) => `1\n${"\n".repeat(length)}`),
  NULs: parsing((length) => `${"\0".repeat(length)}x`),
  "a record, NULs, a letter": parsing((length) => `1\n{"holdfast":1}\n${"\0".repeat(length)}x`),
  "a deep record": parsing((length) => `1\n{"holdfast":${"[".repeat(length)}\n`),
  "a record of quotes": parsing((length) => `1\n{"holdfast":1,"pid":1,"label":"${'\\"'.repeat(length >> 1)}"}\n`),
  "many fields": parsing((length) => `1\n{"holdfast":1,"pid":1${',"a":1'.repeat(length / 6)}}\n`),
  "escapes in words": telling("\u001b"),
  "halves in words": telling("\ud800"),
};

function measureGrowth(): void {
  for (const [name, make] of Object.entries(GROWTH)) {
    const growth = result.growth[name] = growthOf(make);
    if (growth >= STEEP) {
      result.failures.push(`ten times as many ${name} take ${growth.toFixed()} times as long, each time`);
    }
  }
}

// ---- all of it ----

let digest = 0;
for (let n = order.from; n < order.to && result.failures.length < order.enough; n++) {
  const shared = makeCase(order.world, order.seed, n); // the same in every runtime
  await guarded(n, shared.bytes, shared.how, (bytes) => {
    const kind = attackParse(bytes);
    if (bytes !== shared.bytes) return;
    count(kind);
    for (const character of kind) digest = (Math.imul(digest, 31) + character.charCodeAt(0)) | 0;
  }, true);
  result.parsed++;
  if ((n + 1) % 1000 === 0 || n + 1 === order.to) result.digests.push(digest);
  if (n % order.step !== order.first) continue;
  const { bytes, place, how, live } = makeCase(world, order.seed, n);
  await guarded(n, bytes, how, () => {
    const reading = readBytes(bytes);
    const owner = verdictOf(reading);
    demand(
      !live || owner === "alive",
      () => `a case of a living owner is ${reading.kind}, ${owner}: the generator is wrong`,
    );
  });
  if (live) count("living owners, harmlessly changed");
  await guarded(n, bytes, `${place}: ${how}`, (each) => attack[place](each, n), true);
  result.onDisk++;
  await lookAside(performance.now());
}
for (let n = 0; n < order.records && result.failures.length < order.enough; n++) {
  result.records++;
  await guarded(n, new Uint8Array(), "record", () => attackRecord(n));
}
if (result.failures.length < order.enough) measureGrowth();
if (aside.length > 0 && result.failures.length < order.enough) {
  const last = aside[aside.length - 1].since + OLD;
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, last - performance.now())));
  await lookAside(Infinity);
}
const { user, system } = process.cpuUsage();
result.cpu = (user + system) / 1e6;
// In a line: readline takes these two for the end of one.
console.log(JSON.stringify(result).replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029"));

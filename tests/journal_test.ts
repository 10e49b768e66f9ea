/** The journal: what is written, when, how much of it is kept; and what history() reads of it. */
import { execFileSync } from "node:child_process";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, relative } from "node:path";
import process from "node:process";
import { toFileUrl } from "@std/path";
import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { Lock, LockError, LockLostError, type LockOptions } from "../mod.ts";
import { breakPidFile, pidFiles } from "../src/backend/break.ts";
import { history, type LockEvent } from "../src/journal.ts";
import { type AgentOptions, mustBlock, type Place, test, within } from "./support/harness.ts";
import { deadOwner, kinds, leave, recordIn } from "./support/pid_files.ts";

const BACKENDS = ["flock", "pidfile"] as const;
const LIMIT = 512 * 1024;

const fileOf = (lock: string, backend: typeof BACKENDS[number]) => backend === "flock" ? lock : `${lock}.pid`;

/** The lines of a journal, each of which must be whole. */
const lines = (journal: string): LockEvent[] =>
  readFileSync(journal, "utf8").trimEnd().split("\n").map((line) => JSON.parse(line));

const eventsOf = (events: readonly LockEvent[]) => events.map(({ event }) => event);

function replace(file: string): void {
  writeFileSync(`${file}.new`, "");
  renameSync(`${file}.new`, file);
}

test("journal names the file: true beside the lock, a path, a file URL, or none", ({ path }) => {
  const places: [LockOptions["journal"], file: string][] = [
    [true, path("a.lock.journal")],
    [path("by path"), path("by path")],
    [relative(process.cwd(), path("relative")), path("relative")],
    [toFileUrl(path("by URL")), path("by URL")],
  ];
  for (const [journal, file] of places) {
    const lock = new Lock(path(), { journal });
    assertEquals(existsSync(file), false, "nothing is made by naming it");
    lock.runSync(() => {});
    assertEquals(eventsOf(lines(file)), ["acquired", "released"]);
  }
  for (const journal of [false, undefined]) {
    const lock = new Lock(path("without"), { journal });
    lock.runSync(() => {});
    assertEquals(existsSync(path("without.journal")), false);
  }
});

test("journal that is no path is a TypeError, and so is the lock's own file", ({ path }) => {
  const wrong: unknown[] = [5, null, {}, [], "", "a/", "a\0b", new URL("http://localhost/a"), 1n, Symbol("a")];
  for (const journal of wrong) {
    assertThrows(() => new Lock(path(), { journal } as LockOptions), TypeError); // the cast: it is wrong on purpose
  }
  // It would spoil the record, and a full journal is renamed: the lock would be lost.
  for (const journal of [path(), path("a.lock.pid"), toFileUrl(path())]) {
    assertThrows(() => new Lock(path(), { journal }), TypeError);
  }
});

for (const backend of BACKENDS) {
  test(`journal has a line for acquired and released, with all that is known (${backend})`, async ({ path, agent }) => {
    const lock = new Lock(path(), { backend, journal: true, label: "nightly" });
    const other = await agent();
    await other.lock(path(), { backend });
    assertEquals(await other.tryAcquire(), true);
    assertEquals(lock.tryAcquire(), false);
    assertEquals(existsSync(path("a.lock.journal")), false, "a refused try is no event");
    const began = performance.now();
    const waits = await mustBlock(lock.acquire());
    const least = performance.now() - began;
    await other.release();
    await waits.done();
    const most = performance.now() - began;
    const { acquiredAt } = recordIn(fileOf(path(), backend));
    await mustBlock(new Promise(() => {}));
    lock.release();
    const [acquired, released, ...rest] = lines(path("a.lock.journal"));
    assertEquals(rest, []);
    const { pid, host, command, runtime } = { ...Lock.inspect(path()).holder, ...acquired };
    const same = { path: path(), label: "nightly", mode: "exclusive", backend, pid, host, command, runtime } as const;
    assertEquals(acquired, { event: "acquired", at: acquired.at, ...same, waited: acquired.waited });
    assertEquals(released, { event: "released", at: released.at, ...same, held: released.held });
    assertEquals(pid, process.pid);
    assertMatch(runtime ?? "", /^(deno|bun|node)\/\d/);
    assert(command && host, "a process knows its own");
    const { waited = NaN } = acquired, { held = NaN } = released;
    assert(least <= waited && waited <= most, `waited ${least} <= ${waited} <= ${most} ms`);
    assert(20 <= held && held < 10_000, `held ${held} ms`);
    for (const { at } of [acquired, released]) assertEquals(new Date(at).toISOString(), at);
    assert(acquired.at >= (acquiredAt ?? "?") && released.at >= acquired.at);
  });

  test(`journal has a line for a holder that died, and one for a loss (${backend})`, ({ path }) => {
    const file = fileOf(path(), backend);
    const dead = deadOwner({ label: "the last one" });
    leave(file, dead);
    const lock = new Lock(path(), { backend, journal: true, onStale: () => {} });
    assertEquals(lock.tryAcquire(), true);
    const [stale, acquired, ...none] = history(path());
    assertEquals([stale.event, stale.pid, acquired.event, none], ["stale", process.pid, "acquired", []]);
    const { pid, startTime, nonce, label } = stale.holder ?? {};
    assertEquals([pid, startTime, nonce, label], [dead.pid, dead.startTime, dead.nonce, "the last one"]);
    for (const [i, ask] of [() => assertEquals(lock.verify(), false), () => lock.release()].entries()) {
      replace(file);
      if (i === 0) ask();
      else assertThrows(ask, LockLostError);
      const { event, reason = "", held = NaN } = history(path()).at(-1) ?? {};
      assertEquals(event, "lost");
      assertStringIncludes(reason, "deleted or replaced");
      assert(held >= 0, `held ${held} ms`);
      unlinkSync(file);
      assertEquals(lock.tryAcquire(), true);
    }
    lock.release();
    const cycle = ["acquired", "lost"] as const;
    assertEquals(eventsOf(history(path())), ["stale", ...cycle, ...cycle, "acquired", "released"]);
  });
}

for (const kind of kinds) {
  test(`journal of ${kind} says "released" once at an exit in order, and nothing at kill -9`, async ({ path, agent }) => {
    const start = async (how: string, names: readonly string[]) => {
      const holder = await agent(kind);
      for (const name of names) {
        await holder.lock(path(how + name), { backend: name.split(" ")[0], journal: true }, name);
        assertEquals(await holder.tryAcquire(name), true);
      }
      return holder;
    };
    const disposed = BACKENDS.map((backend) => `${backend} disposed`);
    const [returns, exits, dies] = await Promise.all([
      start("return", BACKENDS),
      start("exit", [...BACKENDS, ...disposed]),
      start("die", BACKENDS),
    ]);
    for (const name of disposed) await exits.call("disposeAtExit", { name });
    assertEquals((await within(60_000, exits.die("process.exit"))).code, 0, exits.errors);
    await dies.kill();
    for (const name of [...BACKENDS, ...disposed]) {
      assertEquals(eventsOf(history(path(`exit${name}`))), ["acquired", "released"], name);
    }
    for (const backend of BACKENDS) {
      const file = path(`die${backend}`);
      assertEquals(eventsOf(history(file)), ["acquired"]);
      if (backend === "pidfile" && kind === "deno-no-ffi") {
        // It does not say where it ran: a person declares it dead, and no acquirer finds it stale.
        const [{ nonce }] = pidFiles(file);
        assertEquals(breakPidFile(file, new Set([nonce])), "removed");
        new Lock(file, { backend, journal: true }).runSync(() => {});
        assertEquals(eventsOf(history(file)), ["acquired", "acquired", "released"]);
        continue;
      }
      new Lock(file, { backend, journal: true, onStale: () => {} }).runSync(() => {});
      const [, stale] = history(file);
      assertEquals(eventsOf(history(file)), ["acquired", "stale", "acquired", "released"]);
      assertEquals([stale.holder?.pid, stale.pid], [dies.pid, process.pid]);
    }
    returns.close();
    assertEquals((await within(60_000, returns.ended)).code, 0, returns.errors);
    for (const name of BACKENDS) assertEquals(eventsOf(history(path(`return${name}`))), ["acquired", "released"], name);
  });
}

test("journal of more than 512 KiB becomes the old one, of which one is kept", ({ path }) => {
  const [journal, old] = [path("a.lock.journal"), path("a.lock.journal.1")];
  const numbered = (number: number) => new Lock(path(), { journal: true, label: `${number}`.padStart(200) });
  numbered(0).runSync(() => {});
  const line = readFileSync(journal, "utf8").split("\n")[0];
  const room = Math.floor(LIMIT / line.length);
  let number = 0, largest = 0;
  // Until it was turned over twice, and both are rather full again.
  const fill = (lines: number) => {
    for (let i = 0; i < lines; i += 2) {
      numbered(++number).runSync(() => {});
      largest = Math.max(largest, statSync(journal, { throwIfNoEntry: false })?.size ?? 0);
    }
  };
  fill(room / 2);
  assertEquals(existsSync(old), false);
  fill(room);
  assertEquals(existsSync(old), true);
  const first = readFileSync(old, "utf8");
  fill(room * 1.2);
  assert(!readFileSync(old, "utf8").startsWith(first), "the one before that is gone");
  assert(largest <= LIMIT + 2 * line.length, `${largest} bytes`);
  const size = [journal, old].map((file) => statSync(file).size);
  assert(size[0] + size[1] < 1.1 * 1024 * 1024, `${size} bytes`);
  // Nothing is missing within the bound, and the older file is read first.
  const numbers = history(path()).map(({ label }) => Number(label));
  assert(numbers.length > room, `${numbers.length} events`);
  assertEquals(numbers, numbers.map((_, i) => number - Math.floor((numbers.length - 1 - i) / 2)));
});

/** A case: makes what stands there, by a name that is free, and returns the journal's path. */
type Unwritable = readonly [how: string, prepare: (free: string) => string, complaint: RegExp];

/** Journals that cannot be written: what they do to a lock, and what is said of them. */
async function unwritable({ agent, path }: Place, cases: readonly Unwritable[], options: AgentOptions): Promise<void> {
  await Promise.all(kinds.map(async (kind) => {
    const journals = cases.map(([how, prepare]) => prepare(path(`${how} ${kind}`)));
    const holder = await agent(kind, options);
    for (const [i, [how]] of cases.entries()) {
      const file = path(`${how} ${kind}.lock`);
      await holder.lock(file, { journal: journals[i] });
      for (let times = 0; times < 3; times++) {
        assertEquals(await within(60_000, holder.tryAcquire()), true, how);
        assertEquals(new Lock(file).tryAcquire(), false, how);
        await within(60_000, holder.release());
      }
    }
    assertEquals((await holder.die("process.exit")).code, 0);
    for (const [i, [how, , complaint]] of cases.entries()) {
      const said = `holdfast: the journal ${JSON.stringify(journals[i])} cannot be written, so it has gaps: `;
      const [, ...reasons] = holder.errors.split(said);
      assertEquals(reasons.length, 1, `${how}, in ${kind}: ${holder.errors}`);
      assertMatch(reasons[0], complaint);
    }
  }));
}

test("journal that is a directory, a FIFO, a symlink or nowhere stops no lock, is left alone, and is told of once", async (place) => {
  writeFileSync(place.path("theirs"), "their data\n");
  const make = (call: (free: string) => void) => (free: string) => (call(free), free);
  await unwritable(place, [
    ["directory", make(mkdirSync), /^.*(EISDIR|directory)/],
    ["symlink", make((free) => symlinkSync(place.path("theirs"), free)), /^.*(ELOOP|symlink)/],
    ["FIFO", make((free) => execFileSync("mkfifo", [free])), /^.*(ENXIO|[Nn]o such device|fifo)/],
    ["nowhere", (free) => `${free}/journal`, /^.*(ENOENT|[Nn]o such file)/],
  ], {});
  assertEquals(readFileSync(place.path("theirs"), "utf8"), "their data\n");
});

test("journal on a full disk or a read-only one stops no lock, and is told of once", async (place) => {
  // A mount namespace of its own, gone with the agent. A user namespace where we are not root.
  const unshare = process.getuid?.() === 0 ? "-m" : "-rm";
  const [full, readOnly] = [place.path("full"), place.path("read-only")];
  for (const directory of [full, readOnly]) mkdirSync(directory);
  const script =
    'mount -t tmpfs -o size=16k none "$0" && { head -c 64k /dev/zero > "$0/fill" 2>/dev/null || true; } && ' +
    'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"';
  const inside = (directory: string) => (free: string) => `${directory}/${basename(free)}`;
  await unwritable(place, [
    ["full disk", inside(full), /^.*(ENOSPC|[Nn]o space|room)/],
    ["read-only disk", inside(readOnly), /^.*(EROFS|[Rr]ead-only)/],
  ], { by: ["unshare", unshare, "sh", "-c", script, full, readOnly] });
});

/** An event as a line of a journal. */
const line = (event: Partial<LockEvent> | object) => `${JSON.stringify({ ...sample, ...event })}\n`;
const sample: LockEvent = { event: "acquired", at: "2026-11-29T10:00:00.000Z", path: "/a", pid: 1, mode: "exclusive" };

test("history() is empty where there is no journal", ({ path }) => {
  assertEquals(history(path()), []);
  assertEquals(history(path("nowhere/a.lock")), []);
  assertEquals(history(path(), { journal: path("no journal") }), []);
  new Lock(path()).runSync(() => {});
  assertEquals(history(path()), []);
});

test("history() reads the older file first, and leaves out what is no event", ({ path }) => {
  writeFileSync(path("a.lock.journal.1"), line({ pid: 1 }) + line({ pid: 2, event: "released" }));
  const nonsense = [
    "",
    "null",
    "[]",
    "5",
    '"acquired"',
    "{}",
    '{"event":"acquired"',
    "\0\0\0",
    "\u2028",
    line({ event: "waiting" }).trim(),
    line({ event: "invented" }).trim(),
    line({ pid: "1" }).trim(),
    line({ pid: 1.5 }).trim(),
    line({ at: 5 }).trim(),
    line({ path: undefined }).trim(),
    line({}).slice(0, 40),
  ];
  writeFileSync(
    path("a.lock.journal"),
    line({ pid: 3 }) + nonsense.map((each) => `${each}\n`).join("") + line({ pid: 4 }),
  );
  appendFileSync(path("a.lock.journal"), line({ pid: 5 }).slice(0, -30)); // a power cut, or it is being written
  assertEquals(history(path()).map(({ pid }) => pid), [1, 2, 3, 4]);
  assertEquals(history(toFileUrl(path())).map(({ event }) => event), ["acquired", "released", "acquired", "acquired"]);
  appendFileSync(path("a.lock.journal"), "\n");
  new Lock(path(), { journal: true }).runSync(() => {});
  assertEquals(history(path()).map(({ pid }) => pid), [1, 2, 3, 4, process.pid, process.pid]);
  unlinkSync(path("a.lock.journal"));
  assertEquals(history(path()).map(({ pid }) => pid), [1, 2]);
});

test("history() of a shared journal has this lock's events only", ({ path }) => {
  const journal = path("shared");
  const [one, two] = [new Lock(path("one"), { journal }), new Lock(path("two"), { journal: toFileUrl(journal) })];
  one.runSync(() => two.runSync(() => {}));
  for (const each of [journal, toFileUrl(journal)]) {
    for (const lock of [one, two]) {
      const events = history(lock.path, { journal: each });
      assertEquals(events.map(({ event, path }) => [event, path]), [["acquired", lock.path], ["released", lock.path]]);
    }
  }
  assertEquals(history(path("one")), [], "it has none beside it");
});

test("history() throws for a journal that cannot be read, and for options that do not exist", ({ path }) => {
  mkdirSync(path("a.lock.journal"));
  const error = assertThrows(() => history(path()), LockError, "Cannot read the journal of");
  assertEquals(error.path, path());
  assertStringIncludes(error.code, "E");
  writeFileSync(path("theirs"), line({}));
  symlinkSync(path("theirs"), path("b.lock.journal"));
  assertEquals(assertThrows(() => history(path("b.lock")), LockError).code, "ELOOP");
  const wrong: unknown[] = [null, 5, "journal", { path: "a" }, { journal: 5 }, { journal: "" }, { journal: null }];
  // The cast: they are wrong on purpose.
  for (const options of wrong) assertThrows(() => history(path(), options as { journal: string }), TypeError);
  for (const lock of ["", "a/", "a\0b", 5, undefined, new URL("http://localhost/")]) {
    assertThrows(() => history(lock as string), TypeError);
  }
});

test("fileMode is the journal's mode too, in each back end", ({ path }) => {
  for (const backend of BACKENDS) {
    const lock = path(backend);
    new Lock(lock, { backend, journal: true, fileMode: 0o600 }).runSync(() => {});
    if (process.platform !== "win32") assertEquals(statSync(`${lock}.journal`).mode & 0o777, 0o600);
  }
});

test("history() leaves out each line with a field of the wrong type", ({ path }) => {
  const good = { event: "acquired", at: "2026-11-29T10:00:00.000Z", path: path(), mode: "exclusive", pid: 1 };
  const wrong = [
    ...["at", "path", "host", "command", "runtime", "label", "reason", "waited", "held", "mode", "backend", "pid"]
      .map((name) => ({ ...good, [name]: [1] })),
    { ...good, holder: 5 },
    { ...good, holder: { command: [1] } },
    { ...good, holder: { pid: "\u001b]0;planted\u0007" } },
  ];
  writeFileSync(`${path()}.journal`, [...wrong, good].map((each) => `${JSON.stringify(each)}\n`).join(""));
  assertEquals(history(path()), [good as LockEvent]);
});

test("history() of a file that is larger than a journal is a LockError", ({ path }) => {
  writeFileSync(`${path()}.journal`, '{"event":"');
  truncateSync(`${path()}.journal`, 2 ** 33); // sparse
  assertEquals(assertThrows(() => history(path()), LockError).code, "EFBIG");
});

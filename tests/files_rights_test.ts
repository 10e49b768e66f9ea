/** What the system does not allow: CASES rows 26 to 29 and 33. */
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import process from "node:process";
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { join } from "@std/path";
import { Lock } from "../mod.ts";
import { type AgentOptions, type Kind, ownKind, type Place, test, within } from "./support/harness.ts";
import { needs } from "./support/needs.ts";
import { failure, here, openIn, type Party, partyOf, snapshot, WITHOUT_FFI } from "./support/lockers.ts";
import { until } from "./support/pid_files.ts";

const KINDS: Kind[] = [ownKind, ...WITHOUT_FFI];

/** Agents, one of each kind, as parties. */
const agents = async ({ agent }: Place, options: AgentOptions): Promise<Party[]> =>
  (await Promise.all(KINDS.map((kind) => agent(kind, options)))).map(partyOf);

/**
 * Agents of another user, with that user's rights to write. Reading is left to
 * them because the runtimes and this checkout may lie in a home that is closed;
 * no test here rests on a file that must not be read.
 */
function strangers(place: Place): Promise<Party[]> {
  needs("root");
  chmodSync(place.dir, 0o755);
  const mayRead = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"];
  const by = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", ...mayRead];
  return agents(place, { by, env: { HOME: "/nonexistent", DENO_DIR: "/nonexistent" } });
}

test("tryAcquire() says EACCES and names the directory where the file is missing and cannot be made", async (place) => {
  const { path } = place;
  mkdirSync(path("closed"), { mode: 0o755 });
  for (const party of await strangers(place)) {
    const error = await failure((await party.lockAt(path("closed/a.lock"))).tryAcquire());
    assertEquals([error.name, error.code], ["LockError", "EACCES"], party.kind);
    assertStringIncludes(error.message, `cannot be made in ${JSON.stringify(path("closed"))}`);
    assertEquals(readdirSync(path("closed")), []);
  }
});

test("tryAcquire() locks a file that may only be read, and writes no record", async (place) => {
  const { path } = place;
  const all = await strangers(place);
  for (const content of ["", "4711\n", "data\n"]) {
    writeFileSync(path(), content);
    chmodSync(path(), 0o444);
    const { modified, changed } = snapshot(path());
    for (const party of all) {
      const [lock, own] = [await party.lockAt(path()), new Lock(path(), { onStale: () => {} })];
      assertEquals(await lock.tryAcquire(), true, party.kind);
      assertEquals(readFileSync(path(), "utf8"), content);
      assertEquals(own.tryAcquire(), false, `while ${party.kind} holds`);
      await lock.release();
      const after = snapshot(path());
      assertEquals([after.modified, after.changed], [modified, changed], party.kind);
    }
    const own = await here.lockAt(path());
    assertEquals(await own.tryAcquire(), true);
    for (const party of all) {
      assertEquals(await (await party.lockAt(path())).tryAcquire(), false, `${party.kind} while we hold`);
    }
    await own.release();
  }
});

test("tryAcquire() refuses a FIFO that may only be read, without waiting for its other end", async (place) => {
  const { path } = place;
  execFileSync("mkfifo", ["-m", "444", path()]);
  for (const party of await strangers(place)) {
    const error = await failure(within(60_000, (await party.lockAt(path())).tryAcquire()));
    assertEquals(error.name, "LockError", party.kind);
    assertStringIncludes(error.message, "it is a fifo, and a lock file must be a regular file");
  }
});

/** Does something while `fs.protected_regular` is on. */
async function withProtectedRegular(fn: () => Promise<void>): Promise<void> {
  const setting = "/proc/sys/fs/protected_regular";
  // There is one for the machine: another run of the tests must not put it back under our hands.
  const lock = new Lock(join(tmpdir(), "holdfast-test-protected_regular.lock"), { onStale: () => {} });
  await lock.run(async () => {
    const before = readFileSync(setting, "utf8").trim();
    if (before !== "0") return await fn();
    try {
      writeFileSync(setting, "1");
    } catch (error) {
      throw new Error(`${setting} is 0 and cannot be set, so this cannot be tested here`, { cause: error });
    }
    try {
      await fn();
    } finally {
      writeFileSync(setting, before);
    }
  });
}

test("tryAcquire() locks another user's file in a sticky directory with fs.protected_regular", async (place) => {
  const { path } = place;
  const file = path("sticky/a.lock");
  mkdirSync(path("sticky"));
  chmodSync(path("sticky"), 0o1777); // not by mkdir, whose mode the umask cuts
  const all = [here, ...await strangers(place)];
  // Owned by a third user, since what belongs to the directory's owner is let through.
  for (const mode of [0o666, 0o644]) {
    writeFileSync(file, "");
    chownSync(file, 1, 1);
    chmodSync(file, mode);
    await withProtectedRegular(async () => {
      const create = constants.O_RDWR | constants.O_CREAT;
      assertThrows(() => openSync(file, create), Error, "EACCES"); // or this would test nothing
      for (const party of all) {
        const lock = await party.lockAt(file);
        assertEquals(await lock.tryAcquire(), true, `${party.kind}, mode ${mode.toString(8)}`);
        const recorded = readFileSync(file, "utf8").split("\n")[0];
        // Root may write it all the same.
        assertEquals(recorded, mode === 0o666 || party === here ? String(lock.pid) : "");
        for (const other of all) assertEquals(await (await other.lockAt(file)).tryAcquire(), false, other.kind);
        await lock.release();
        assertEquals(readFileSync(file, "utf8"), "");
      }
    });
    chownSync(file, 0, 0); // so that the next round may write it, whatever the setting
  }
});

test("tryAcquire() on a read-only mount locks the file that is there, and says EROFS for one that is not", async (place) => {
  const { path } = place;
  mkdirSync(path("mounted"));
  const file = path("mounted/a.lock");
  writeFileSync(file, "4711\n");
  const before = snapshot(file);
  // A mount namespace of its own, gone with the agent. A user namespace where we are not root.
  const unshare = process.getuid?.() === 0 ? "-m" : "-rm";
  const script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"';
  for (const party of await agents(place, { by: ["unshare", unshare, "sh", "-c", script, path("mounted")] })) {
    const lock = await party.lockAt(file);
    assertEquals(await lock.tryAcquire(), true, party.kind);
    const outside = new Lock(file, { onStale: () => {} });
    assertEquals(outside.tryAcquire(), false, `while ${party.kind} holds`);
    await lock.release();
    const { modified, changed } = snapshot(file);
    assertEquals([modified, changed], [before.modified, before.changed], party.kind);
    const missing = await party.lockAt(path("mounted/b.lock"));
    const error = await failure(missing.tryAcquire());
    assertEquals([error.name, error.code], ["LockError", "EROFS"], party.kind);
    assertStringIncludes(error.message, `cannot be made in ${JSON.stringify(path("mounted"))}`);
  }
  assertEquals(readdirSync(path("mounted")), ["a.lock"]);
});

for (const kind of KINDS) {
  test(`tryAcquire() says EMFILE without descriptors, and works when there are some (${kind})`, async ({ dir, path, agent }) => {
    const process = await agent(kind, { by: ["prlimit", "--nofile=100:100"] });
    const party = partyOf(process);
    // Deno 2.9 makes its pipe for signals some time after its start, and panics if it has no descriptor for it then.
    await process.call("countSignals", { signal: "SIGUSR2" });
    const first = await party.lockAt(path("first")); // loads what is loaded at the first use
    assertEquals(await first.tryAcquire(), true);
    await first.release();
    const held = [];
    let error: Awaited<ReturnType<typeof failure>> | undefined;
    let last = await party.lockAt(path("0"));
    while (!error && held.length < 100) {
      try {
        assertEquals(await last.tryAcquire(), true);
        held.push(last);
        last = await party.lockAt(path(String(held.length)));
      } catch (thrown) {
        error = thrown as Error; // whatever it is, it is looked at below
      }
    }
    assertEquals([error?.name, error?.code], ["LockError", "EMFILE"], error?.message);
    assert(held.length > 10, `only ${held.length}`);
    assertEquals(openIn(dir, process.pid), held.length);
    assertEquals((await failure(last.tryAcquire())).code, "EMFILE"); // and again: never "held"
    const name = path(String(held.length));
    assertEquals(existsSync(name) ? readFileSync(name, "utf8") : "", "");
    for (const lock of held) await lock.release();
    assertEquals(await last.tryAcquire(), true);
    await last.release();
    // Deno's watcher thread opens a watched file for an instant.
    await until("no descriptor is open there", () => openIn(dir, process.pid) === 0);
  });
}

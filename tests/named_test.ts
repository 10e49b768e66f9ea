/** Lock.named(): one directory for the locks of a user, made when it is needed. */
import { chmodSync, existsSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import process from "node:process";
import { assertEquals, assertMatch, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { Lock, lockDirectory, LockError, scan } from "../mod.ts";
import { type Kind, KINDS, test } from "./support/harness.ts";
import { needs } from "./support/needs.ts";
import { failure, removeFolder } from "./support/lockers.ts";
import { asNobody, kinds } from "./support/pid_files.ts";

const VARIABLES = ["HOLDFAST_DIR", "XDG_STATE_HOME", "HOME"] as const;

/** Does something with these variables in the environment, and none of the others. */
function within<T>(env: Partial<Record<typeof VARIABLES[number], string>>, fn: () => T): T {
  const before = VARIABLES.map((name) => [name, process.env[name]] as const);
  const set = (name: string, value: string | undefined) => {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  };
  for (const name of VARIABLES) set(name, env[name]);
  try {
    return fn();
  } finally {
    for (const [name, value] of before) set(name, value);
  }
}

const modeOf = (path: string) => (statSync(path).mode & 0o7777).toString(8);

test("Lock.named() throws TypeError for a name that could be a path, or that a file system might take for another", ({ dir }) => {
  const wrong = [
    "",
    "a/b",
    "/a",
    "../a",
    "a b",
    "a\n",
    "\n",
    "a\0",
    "ä",
    "A\u0308",
    "a:b",
    "a\\b",
    "~",
    "*",
    "x".repeat(201),
  ];
  within({ HOLDFAST_DIR: dir }, () => {
    for (const name of [...wrong, undefined, null, 7, true, {}, ["a"], new String("a")]) {
      // The cast: JavaScript calls it with anything.
      const error = assertThrows(() => Lock.named(name as string), TypeError);
      assertMatch(error.message, /^Cannot create a lock as its name must be 1 to 200 of A-Z a-z 0-9 \. _ -: received /);
    }
    // The cast, as above.
    assertThrows(() => Lock.named("a", { mode: "both" as "shared" }), TypeError, '"mode"');
    assertThrows(() => Lock.named("a", { fileMode: -1 }), RangeError, '"fileMode"');
  });
  assertEquals(readdirSync(dir), []);
});

test("Lock.named() is a lock of its own for every name, whatever stands beside others, by both back ends", ({ dir }) => {
  const names = [
    ".",
    "..",
    "...",
    "-",
    "_",
    "a",
    "A",
    "a.lock",
    "a.pid",
    "a.lock.pid",
    "a.journal",
  ];
  names.push("x".repeat(200));
  within({ HOLDFAST_DIR: dir }, () => {
    for (const backend of ["flock", "pidfile"] as const) {
      const locks = names.map((name) => Lock.named(name, { backend, journal: true }));
      assertEquals(new Set(locks.map(({ path }) => path)).size, names.length);
      for (const [i, lock] of locks.entries()) {
        assertEquals([lock.path, lock.tryAcquire()], [`${dir}/${names[i]}.lock`, true], `${names[i]} by ${backend}`);
      }
      for (const lock of locks) assertEquals([lock.inspect().state, lock.verify()], ["held", true], lock.path);
      const found = scan(dir).filter(({ path }) => locks.some((lock) => lock.path === path));
      assertEquals(found.map(({ state }) => state), names.map(() => "held"));
      for (const lock of locks) lock.release();
    }
  });
});

test("lockDirectory() is HOLDFAST_DIR, which must be absolute, and counts as not set where it is empty", ({ dir, path }) => {
  within({ HOLDFAST_DIR: path("locks") }, () => {
    assertEquals([lockDirectory(), Lock.named("job").path], [path("locks"), path("locks/job.lock")]);
  });
  for (const relative of ["locks", "./locks", "../locks", ".", "~/locks", "$HOME/locks", " /locks"]) {
    within({ HOLDFAST_DIR: relative, HOME: dir }, () => {
      for (const call of [lockDirectory, () => Lock.named("job")]) {
        const error = assertThrows(call, LockError);
        assertEquals([error.name, error.code], ["LockError", "EINVAL"]);
        assertStringIncludes(error.message, `HOLDFAST_DIR is not an absolute path: ${relative}`);
      }
    });
  }
  const unset = within({ HOME: dir }, lockDirectory);
  assertEquals(within({ HOLDFAST_DIR: "", HOME: dir }, lockDirectory), unset);
  assertEquals(readdirSync(dir), []);
});

test("lockDirectory() leaves .. after a symlink to the kernel, as a path does, so that both name one lock", ({ dir, path }) => {
  mkdirSync(path("far"));
  mkdirSync(path("far/away"));
  symlinkSync("far/away", path("link"));
  within({ HOLDFAST_DIR: `${dir}/link/../locks` }, () => {
    mkdirSync(path("far/locks")); // which is what mkdir "$HOLDFAST_DIR" makes
    const lock = new Lock(`${process.env.HOLDFAST_DIR}/job.lock`).acquireSync();
    const named = Lock.named("job");
    assertEquals(named.tryAcquire(), false);
    lock.release();
  });
});

test("lockDirectory() of root is /var/lib/holdfast, and nothing is made there by asking", () => {
  needs("root");
  const before = existsSync("/var/lib/holdfast");
  within({ HOME: "/root", XDG_STATE_HOME: "/root/state" }, () => {
    assertEquals(lockDirectory(), "/var/lib/holdfast");
    assertEquals(Lock.named("holdfast-test").path, "/var/lib/holdfast/holdfast-test.lock");
    assertEquals(Lock.named("holdfast-test").inspect().state, "free");
  });
  assertEquals(existsSync("/var/lib/holdfast"), before);
});

test("Lock.named() makes its directory and those above it at the first acquisition, by whatever way, and by nothing else", async ({ dir, path }) => {
  const directory = path("a/b/c");
  const ways: Record<string, (lock: Lock) => unknown> = {
    "tryAcquire()": (lock) => lock.tryAcquire(),
    "acquire()": (lock) => lock.acquire(),
    "acquireSync()": (lock) => lock.acquireSync(),
    "run()": (lock) => lock.run(() => {}),
    "runSync()": (lock) => lock.runSync(() => {}),
    "tryAcquire() by PID file": (lock) => lock.tryAcquire(),
  };
  for (const [way, acquire] of Object.entries(ways)) {
    const lock = within({ HOLDFAST_DIR: directory }, () => {
      const named = Lock.named("job", { backend: way.endsWith("file") ? "pidfile" : "auto", journal: true });
      assertEquals([lockDirectory(), named.held, named.inspect().state], [directory, false, "free"]);
      assertThrows(() => named.release(), LockError);
      assertEquals(named.verify(), false);
      return named;
    });
    assertEquals(readdirSync(dir), [], "nothing so far");
    await acquire(lock); // and though HOLDFAST_DIR is another by now
    if (lock.held) lock.release();
    assertEquals(["a", "a/b", "a/b/c"].map((name) => modeOf(path(name))), ["700", "700", "700"], way);
    removeFolder(path("a"));
  }
});

test("Lock.named() makes its directory again for an object that has acquired before, where it was deleted since", ({ path }) => {
  const lock = within({ HOLDFAST_DIR: path("a/b") }, () => Lock.named("job"));
  for (let i = 0; i < 2; i++) {
    assertEquals([lock.tryAcquire(), modeOf(path("a/b"))], [true, "700"]);
    lock.release();
    removeFolder(path("a"));
  }
});

test("Lock.named() leaves a directory that is there as it is, and does not make one that a path names", ({ path }) => {
  mkdirSync(path("open"));
  chmodSync(path("open"), 0o1777);
  within({ HOLDFAST_DIR: path("open") }, () => Lock.named("job").runSync(() => {}));
  assertEquals(modeOf(path("open")), "1777");
  const error = assertThrows(() => new Lock(path("missing/job.lock")).tryAcquire(), LockError);
  assertEquals([error.code, existsSync(path("missing"))], ["ENOENT", false]);
});

test("Lock.named() throws LockError at the acquisition where its directory cannot be made", ({ path }) => {
  writeFileSync(path("file"), "");
  within({ HOLDFAST_DIR: path("file/locks") }, () => {
    const lock = Lock.named("job");
    for (const call of [() => lock.tryAcquire(), () => lock.acquireSync({ timeout: 10_000 })]) {
      const error = assertThrows(call, LockError);
      assertEquals([error.name, error.code, error.path], ["LockError", "ENOTDIR", path("file/locks/job.lock")]);
      assertStringIncludes(error.message, `Cannot acquire ${JSON.stringify(path("file/locks/job.lock"))}: ENOTDIR`);
    }
  });
});

for (const kind of kinds) {
  if (kind === "deno-no-ffi") continue; // see below
  test(`lockDirectory() of another user in ${kind} is in XDG_STATE_HOME or HOME, and is made for that user alone`, async ({ dir, path, agent }) => {
    chmodSync(dir, 0o777);
    const user = await agent(kind, asNobody());
    const ask = (env: Record<string, string>) =>
      user.call("lockDirectory", { env: { HOLDFAST_DIR: "", XDG_STATE_HOME: "", HOME: "", ...env } });
    const home = path("home");
    assertEquals(await ask({ HOME: home }), `${home}/.local/state/holdfast`);
    assertEquals(await ask({ HOME: home, XDG_STATE_HOME: "relative" }), `${home}/.local/state/holdfast`);
    assertEquals(await ask({ HOME: home, XDG_STATE_HOME: path("state") }), path("state/holdfast"));
    assertEquals(await ask({ XDG_STATE_HOME: path("state") }), path("state/holdfast"));
    assertEquals(await ask({ HOME: "no", XDG_STATE_HOME: path("state") }), path("state/holdfast"));
    assertEquals(await ask({ HOLDFAST_DIR: path("own"), XDG_STATE_HOME: path("state") }), path("own"));
    for (
      const [env, text] of [
        [{}, "HOME is not set"],
        [{ HOME: "no" }, "HOME is not an absolute path: no"],
        [{ HOME: "/\ufffd" }, "HOME is not UTF-8: /\ufffd"],
        [{ HOME: home, XDG_STATE_HOME: "/\ufffd" }, "XDG_STATE_HOME is not UTF-8: /\ufffd"],
        [{ HOME: home, HOLDFAST_DIR: "/\ufffd" }, "HOLDFAST_DIR is not UTF-8: /\ufffd"],
      ] as const
    ) {
      const error = await failure(ask(env));
      assertEquals([error.name, error.code], ["LockError", "EINVAL"]);
      assertStringIncludes(error.message, `${text}. Set HOLDFAST_DIR to a directory`);
    }
    assertEquals(readdirSync(dir), []);
    await ask({ HOME: home });
    assertEquals(await user.call("named", { name: "job" }), `${home}/.local/state/holdfast/job.lock`);
    assertEquals(await user.tryAcquire(), true);
    for (const made of [home, `${home}/.local`, `${home}/.local/state`, `${home}/.local/state/holdfast`]) {
      assertEquals([modeOf(made), statSync(made).uid], ["700", 65534], made);
    }
    await user.release();
  });
}

test("Lock.named() in Deno without permissions throws LockError that names the missing one, and guesses nothing", async ({ dir, path, agent }) => {
  const files = [`--allow-read=${dir},${new URL("../", import.meta.url).pathname}`, `--allow-write=${dir}`];
  const directories = { HOLDFAST_DIR: "", HOME: path("home"), XDG_STATE_HOME: path("state") };
  for (
    const [flags, text] of [
      [[], "HOLDFAST_DIR (--allow-env=HOLDFAST_DIR)"],
      [["--allow-env=HOLDFAST_DIR"], "--allow-sys=uid"],
      [["--allow-env=HOME,XDG_STATE_HOME", "--allow-sys=uid"], "HOLDFAST_DIR (--allow-env=HOLDFAST_DIR)"],
    ] as const
  ) {
    const user = await agent("deno", { env: directories, flags: [...files, ...flags] });
    for (const command of ["named", "lockDirectory"]) {
      const error = await failure(user.call(command, { name: "job" }));
      assertEquals([error.name, error.code], ["LockError", "EACCES"], error.message);
      assertStringIncludes(error.message, text);
    }
  }
  // Deno's own cache may be in that home by now.
  assertEquals([existsSync(path("state")), existsSync(path("home/.local"))], [false, false]);
  // With the one variable, and without FFI, that is enough.
  const env = { HOLDFAST_DIR: path("locks") };
  const user = await agent("deno", { env, flags: [...files, "--allow-env=HOLDFAST_DIR"] });
  await user.call("named", { name: "job" });
  assertEquals([await user.tryAcquire(), modeOf(path("locks"))], [true, "700"]);
});

test("Lock.named() is one lock for all kinds, and for those who use its path", async ({ dir, path, agent }) => {
  const env = { HOLDFAST_DIR: path("locks") };
  const repository = new URL("../", import.meta.url).pathname;
  const flags = [`--allow-read=${dir},${repository}`, `--allow-write=${dir}`, "--allow-env=HOLDFAST_DIR"];
  const start = (kind: Kind) => agent(kind, kind === "deno-no-ffi" ? { env, flags } : { env });
  const users = await Promise.all(KINDS.map(start));
  for (const user of users) assertEquals(await user.call("named", { name: "job" }), path("locks/job.lock"));
  const own = new Lock(path("locks/job.lock"));
  for (const user of users) {
    assertEquals(await user.tryAcquire(), true, user.kind);
    for (const other of users) assertEquals(await other.tryAcquire(), false, `${other.kind} beside ${user.kind}`);
    assertEquals([own.tryAcquire(), own.inspect().holder?.pid], [false, user.pid]);
    await user.release();
  }
  await own.acquire();
  await assertRejects(() => users[0].call("acquire", { name: "lock", options: { timeout: 0 } }));
  own.release();
  assertEquals(scan(path("locks")).map(({ path }) => path), [path("locks/job.lock")]);
});

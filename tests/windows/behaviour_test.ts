/**
 * How a lock behaves on Windows. trials.ts runs this in Wine, in deno.exe with
 * FFI, in deno.exe without, and in bun.exe; it would run on Windows just so.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { test as nodeTest } from "node:test";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import {
  Lock,
  LockDeadlockError,
  lockDirectory,
  LockError,
  type LockHolder,
  LockLostError,
  LockTimeoutError,
  processState,
  scan,
} from "../../mod.ts";
import { bunRuntime } from "../../src/sys/bun.ts";
import { denoRuntime } from "../../src/sys/deno.ts";
import { bindKernel32, type Kernel32, overlapped, wide } from "../../src/sys/windows/kernel32.ts";

const flags: string[] = JSON.parse(process.env.HOLDFAST_FLAGS ?? "[]");
const worker = fileURLToPath(new URL("worker.ts", import.meta.url));
const cli = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));

/** kernel32, as the library has it; undefined in a Deno without FFI. */
const kernel = ((): Kernel32 | undefined => {
  const ffi = (denoRuntime() ?? bunRuntime())?.ffi();
  return ffi && "bind" in ffi ? bindKernel32(ffi.library, ffi.bind) : undefined;
})();

/** Whether a holder keeps its record from being read: a Deno without FFI does, on Windows, and in Wine 8 does not. */
const hidesRecord = kernel === undefined && ((): boolean => {
  const dir = mkdtempSync(join(process.env.HOLDFAST_TEST_DIR ?? tmpdir(), "holdfast-"));
  const file = join(dir, "file");
  writeFileSync(file, "content");
  const locked = Deno.openSync(file, { read: true, write: true });
  try {
    assert.equal(locked.tryLockSync(true), true);
    readFileSync(file);
    return false;
  } catch (error) {
    assert.match(String(error), /EBUSY|os error 33/);
    return true;
  } finally {
    locked.close();
    if (!process.env.HOLDFAST_TEST_DIR) rmSync(dir, { recursive: true, force: true });
  }
})();

interface Place {
  readonly dir: string;
  readonly path: string;
  /** Holds the lock in a process of its own, which is ended afterwards. */
  readonly holder: (path: string) => Promise<ChildProcess>;
}

function test(name: string, fn: (place: Place) => void | Promise<void>, skip = false): void {
  nodeTest(name, { timeout: 120_000, skip }, async () => {
    const dir = mkdtempSync(join(process.env.HOLDFAST_TEST_DIR ?? tmpdir(), "holdfast-"));
    const children: ChildProcess[] = [];
    try {
      await fn({
        dir,
        path: join(dir, "a.lock"),
        async holder(path) {
          const child = start([worker, "hold", path]);
          children.push(child);
          for await (const line of createInterface({ input: child.stdout! })) { // `!`: it is a pipe
            if (line === `held ${child.pid}`) return child;
          }
          throw new Error("the holder ended");
        },
      });
    } finally {
      for (const child of children) await end(child);
      // In Wine whoever gave the folder removes it: bun.exe's rmSync answers EFAULT there.
      if (!process.env.HOLDFAST_TEST_DIR) rmSync(dir, { recursive: true, force: true });
    }
  });
}

const runArgs = (args: readonly string[]) => [
  ...(process.versions.bun ? [] : ["run", "--no-check", "--quiet", ...flags]),
  ...args,
];
const start = (args: readonly string[]) =>
  spawn(process.execPath, runArgs(args), { stdio: ["ignore", "pipe", "inherit"] });

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.on("exit", resolve));
  process.kill(child.pid!, "SIGKILL"); // `!`: it was started
  await ended;
}

const failure = (fn: () => unknown): LockError => {
  try {
    fn();
  } catch (error) {
    assert.ok(error instanceof LockError, `${error}`);
    return error;
  }
  throw new assert.AssertionError({ message: "it did not fail" });
};

/** Deno with permissions to check cannot open a long path in Wine 8 ("More data available. (os error 234)"). */
function failsBy234(): boolean {
  const dir = mkdtempSync(join(process.env.HOLDFAST_TEST_DIR ?? tmpdir(), "holdfast-"));
  const file = join(dir, "d".repeat(200), "e".repeat(100), "file");
  mkdirSync(`\\\\?\\${dirname(file)}`, { recursive: true });
  try {
    Deno.openSync(file, { write: true, create: true }).close();
    return false;
  } catch (error) {
    assert.match(String(error), /os error 234/);
    return true;
  } finally {
    if (!process.env.HOLDFAST_TEST_DIR) rmSync(dir, { recursive: true, force: true });
  }
}

test("tryAcquire() is false while another Lock of the process holds it, and true once that has released", ({ path }) => {
  const [a, b] = [new Lock(path), new Lock(path)];
  assert.equal(a.tryAcquire(), true);
  assert.match(a.backendReason, kernel ? /^LockFileEx through the runtime's FFI$/ : /^LockFileEx through FsFile/);
  assert.equal(b.tryAcquire(), false);
  a.release();
  assert.equal(b.tryAcquire(), true);
  assert.equal(a.tryAcquire(), false);
  b.release();
});

test("tryAcquire() is false while another process holds it, which inspect() names, and true once that was killed", async ({ path, holder }) => {
  const child = await holder(path);
  const stale: LockHolder[] = [];
  const lock = new Lock(path, { onStale: (holder) => void stale.push(holder) });
  assert.equal(lock.tryAcquire(), false);
  const status = lock.inspect();
  const named = hidesRecord ? undefined : child.pid;
  assert.deepEqual([status.state, status.holder?.pid, status.mode], ["held", named, "exclusive"]);
  assert.equal(status.unread, hidesRecord || undefined);
  await end(child);
  assert.equal(lock.tryAcquire(), true);
  assert.deepEqual(stale.map(({ pid }) => pid), [child.pid]);
  lock.release();
  assert.equal(lock.inspect().state, "free");
});

test("tryAcquire() shares with those who share, and with nobody else", ({ path }) => {
  const [a, b] = [new Lock(path, { mode: "shared" }), new Lock(path, { mode: "shared" })];
  const writer = new Lock(path);
  assert.deepEqual([a.tryAcquire(), b.tryAcquire(), writer.tryAcquire()], [true, true, false]);
  a.release();
  assert.equal(writer.tryAcquire(), false);
  b.release();
  assert.equal(writer.tryAcquire(), true);
  assert.equal(a.tryAcquire(), false);
  writer.release();
});

test("the same file is one lock, by whichever name it goes", ({ path, dir }) => {
  const lock = new Lock(path);
  assert.equal(lock.tryAcquire(), true);
  const names = [path.toUpperCase(), path.replaceAll("\\", "/"), `\\\\?\\${path}`, `${dir}\\.\\x\\..\\a.lock`];
  assert.deepEqual(names.map((name) => new Lock(name).tryAcquire()), names.map(() => false));
  lock.release();
});

test("acquire() waits for another process, times out with its name, and gets it when that ends", async ({ path, holder }) => {
  const child = await holder(path);
  const lock = new Lock(path, { onStale() {} });
  await assert.rejects(lock.acquire({ timeout: 50 }), (error: unknown) => {
    assert.ok(error instanceof LockTimeoutError);
    assert.equal(error.holder?.pid, hidesRecord ? undefined : child.pid);
    if (hidesRecord) assert.match(error.message, /held by a holder whose record cannot be read/);
    return true;
  });
  assert.throws(() => lock.acquireSync({ timeout: 50 }), LockTimeoutError);
  const waiting = lock.acquire();
  await end(child);
  await waiting;
  assert.equal(lock.held, true);
  lock.release();
});

test("acquireSync() finds that this thread waits for itself", ({ path }) => {
  const lock = new Lock(path);
  assert.equal(lock.tryAcquire(), true);
  assert.throws(() => new Lock(path).acquireSync(), LockDeadlockError);
  lock.release();
});

test("tryAcquire() leaves content that is not ours as it is, and its record out", ({ path }) => {
  writeFileSync(path, "name = value\r\n");
  const lock = new Lock(path);
  assert.equal(lock.tryAcquire(), true);
  assert.equal(new Lock(path).tryAcquire(), false);
  lock.release();
  assert.equal(readFileSync(path, "utf8"), "name = value\r\n");
  assert.deepEqual(readdirSync(dirname(path)), ["a.lock"]);
});

test("the record stands in the lock file and in no other, and is cleared by release()", ({ path, dir }) => {
  const lock = new Lock(path, { label: "nightly" });
  assert.equal(lock.tryAcquire(), true);
  if (hidesRecord) assert.throws(() => readFileSync(path), /EBUSY|os error 33/);
  else {
    const [pid, json] = readFileSync(path, "utf8").split("\n");
    assert.equal(pid, String(process.pid));
    assert.equal(JSON.parse(json).label, "nightly");
  }
  assert.equal(lock.inspect().holder?.pid, process.pid);
  assert.deepEqual(readdirSync(dir), ["a.lock"]);
  lock.release();
  assert.equal(readFileSync(path, "utf8"), "");
});

test("a record that a dead holder left behind is found, and reported once", ({ path }) => {
  writeFileSync(path, "2147483632\n"); // no process has that number
  assert.equal(Lock.inspect(path).state, "stale");
  const stale: number[] = [];
  const lock = new Lock(path, { onStale: ({ pid }) => void stale.push(pid) });
  assert.equal(lock.tryAcquire(), true);
  lock.release();
  assert.deepEqual(stale, [2147483632]);
  assert.equal(lock.inspect().state, "free");
});

test("tryAcquire() refuses what is no plain file's name, and makes nothing", ({ dir }) => {
  const names = [
    ...["NUL", "nul.lock", "CON", "COM1", "com\u00b9.txt", "LPT9.lock", "AUX .x", "CONIN$"].map((name) =>
      join(dir, name)
    ),
    ...["a.lock:stream", "a.lock::$DATA", "a?", "a*.lock", "a|b", "a<b", 'a"b', "a\u0001"].map((name) =>
      join(dir, name)
    ),
    ...["a.lock.", "a.lock ", "sub.\\a.lock"].map((name) => `\\\\?\\${dir}\\${name}`),
    ...[
      "\\\\.\\pipe\\a",
      "\\\\.\\NUL",
      "\\\\.\\C:\\a",
      "\\\\?\\GLOBALROOT\\a",
      "\\\\server\\pipe\\a",
      "\\\\?\\UNC\\server\\PIPE\\a",
    ],
  ];
  for (const name of names) assert.equal(failure(() => new Lock(name).tryAcquire()).code, "EINVAL", name);
  assert.deepEqual(readdirSync(dir), []);
});

test("tryAcquire() refuses a directory, and names a missing one", ({ dir }) => {
  assert.equal(failure(() => new Lock(dir).tryAcquire()).code, "EISDIR");
  const missing = failure(() => new Lock(join(dir, "no", "a.lock")).tryAcquire());
  assert.equal(missing.code, "ENOENT");
  assert.match(missing.message, /its directory .* does not exist/);
});

test("tryAcquire() takes a path of more than 260 characters", ({ dir }) => {
  const deep = join(dir, "d".repeat(200), "e".repeat(100));
  mkdirSync(`\\\\?\\${deep}`, { recursive: true });
  const lock = new Lock(join(deep, "a.lock"));
  assert.equal(lock.tryAcquire(), true);
  assert.equal(new Lock(`\\\\?\\${join(deep, "a.lock")}`).tryAcquire(), false);
  lock.release();
}, !kernel && failsBy234());

test("tryAcquire() by a server's share takes the same lock as by the drive", ({ dir, path }) => {
  // In Wine wine.ts has made that share; on Windows a drive is one, to its administrators.
  const share = process.env.HOLDFAST_SHARE ? `${process.env.HOLDFAST_SHARE}\\` : `\\\\localhost\\${path[0]}$\\`;
  const unc = join(`${share}${dir.slice(3)}`, "a.lock");
  // Deno checks no permission by a server's path, and wants all of them.
  if (!kernel) {
    const error = failure(() => new Lock(unc).tryAcquire());
    assert.equal(error.code, "EACCES");
    return assert.match(error.message, /--allow-all/);
  }
  const [byShare, byDrive, extended] = [unc, path, `\\\\?\\UNC\\${unc.slice(2)}`].map((each) => new Lock(each));
  assert.equal(byShare.tryAcquire(), true);
  assert.deepEqual([byDrive.tryAcquire(), extended.tryAcquire()], [false, false]);
  assert.equal(Lock.inspect(unc).holder?.pid, process.pid);
  byShare.release();
  assert.equal(byDrive.tryAcquire(), true);
  assert.equal(byShare.tryAcquire(), false);
  byDrive.release();
});

test("processState() knows the living, the dead, and a number that another process has now", async ({ path, holder }) => {
  assert.equal(processState(process.pid).state, "alive");
  assert.equal(processState(2147483632).state, "dead");
  const child = await holder(path);
  assert.equal(processState(child.pid!).state, "alive"); // `!`: it was started
  if (kernel) assert.equal(processState(child.pid!, "1").state, "dead"); // `!` as above
  await end(child);
  assert.equal(processState(child.pid!).state, "dead"); // `!` as above
  if (kernel) assert.equal(processState(process.pid + 1).state, "dead", "Windows opens the process for it");
});

test("Lock.named() is in %LOCALAPPDATA%\\holdfast", () => {
  const { HOLDFAST_DIR, LOCALAPPDATA } = process.env;
  delete process.env.HOLDFAST_DIR;
  assert.ok(LOCALAPPDATA);
  try {
    assert.equal(lockDirectory(), join(LOCALAPPDATA, "holdfast"));
    const lock = Lock.named(`windows-${process.pid}`);
    assert.equal(lock.tryAcquire(), true);
    assert.equal(Lock.named(`windows-${process.pid}`).tryAcquire(), false);
    assert.ok(
      scan(lockDirectory()).some(({ path, state }) => basename(path) === basename(lock.path) && state === "held"),
    );
    lock.release();
    for (const name of readdirSync(lockDirectory())) {
      if (name.startsWith(`windows-${process.pid}`)) unlinkSync(join(lockDirectory(), name));
    }
    assert.equal(failure(() => Lock.named("nul").tryAcquire()).code, "EINVAL");
    process.env.HOLDFAST_DIR = "\\locks"; // of the drive that is the current one
    assert.equal(failure(() => lockDirectory()).code, "EINVAL");
  } finally {
    delete process.env.HOLDFAST_DIR;
    if (HOLDFAST_DIR !== undefined) process.env.HOLDFAST_DIR = HOLDFAST_DIR;
  }
});

test("backend: pidfile excludes the kernel lock, and is excluded by it", ({ path }) => {
  const [file, kernelLock] = [new Lock(path, { backend: "pidfile" }), new Lock(path)];
  assert.equal(file.tryAcquire(), true);
  assert.equal(kernelLock.tryAcquire(), false);
  file.release();
  assert.equal(kernelLock.tryAcquire(), true);
  assert.equal(file.tryAcquire(), false);
  kernelLock.release();
});

if (kernel) {
  const { raw, bool, handle } = kernel;
  const GENERIC_READ_WRITE = 0xc000_0000, OPEN_ALWAYS = 4, ALL = 7;
  const open = (path: string, share: number) => {
    const opened = handle("CreateFileW", wide(path), GENERIC_READ_WRITE, share, 0, OPEN_ALWAYS, 0, 0);
    assert.ok(typeof opened === "number");
    return opened;
  };
  const MAX = 0xffff_ffff, EXCLUSIVE_AT_ONCE = 3;

  test("tryAcquire() excludes whoever locks the whole file, and is excluded by them", ({ path }) => {
    const other = open(path, ALL), lock = new Lock(path);
    const whole = () => bool("LockFileEx", other, EXCLUSIVE_AT_ONCE, 0, MAX, MAX, overlapped(0n)) === true;
    assert.equal(whole(), true);
    assert.equal(lock.tryAcquire(), false);
    raw.UnlockFileEx(other, 0, MAX, MAX, overlapped(0n));
    assert.equal(lock.tryAcquire(), true);
    assert.equal(whole(), false);
    lock.release();
    raw.CloseHandle(other);
  });

  test("tryAcquire() locks no byte of the content: others may read and write there", ({ path }) => {
    const other = open(path, ALL), lock = new Lock(path);
    assert.equal(lock.tryAcquire(), true);
    // Wine lets all read, so this asks for a lock on those bytes instead: it would be refused if they were locked.
    assert.equal(bool("LockFileEx", other, EXCLUSIVE_AT_ONCE, 0, MAX, 0x3fff_ffff, overlapped(0n)), true);
    raw.UnlockFileEx(other, 0, MAX, 0x3fff_ffff, overlapped(0n));
    lock.release();
    raw.CloseHandle(other);
  });

  test("tryAcquire() has an error for a file that another program shares with nobody", ({ path }) => {
    const other = open(path, 0);
    const error = failure(() => new Lock(path).tryAcquire());
    assert.equal(error.code, "EBUSY");
    assert.match(error.message, /another program has it open and does not share it/);
    raw.CloseHandle(other);
    const lock = new Lock(path);
    assert.equal(lock.tryAcquire(), true);
    lock.release();
  });

  test("tryAcquire() keeps the file from being deleted, renamed and replaced while it is held", ({ path, dir }) => {
    const lock = new Lock(path), other = join(dir, "other");
    writeFileSync(other, "");
    assert.equal(lock.tryAcquire(), true);
    for (
      const attempt of [() => unlinkSync(path), () => renameSync(path, `${path}.old`), () => renameSync(other, path)]
    ) {
      assert.throws(attempt, /EBUSY|EPERM|EACCES|os error (?:5|32)/);
    }
    assert.equal(new Lock(path).tryAcquire(), false);
    lock.release();
    unlinkSync(path);
  });
} else {
  test("release() says that the lock was lost when its file was replaced", ({ path }) => {
    const lock = new Lock(path);
    assert.equal(lock.tryAcquire(), true);
    renameSync(path, `${path}.old`);
    writeFileSync(path, "");
    assert.throws(() => lock.release(), LockLostError);
  });
}

test("holdfast run holds the lock while COMMAND runs, and has its exit status", async ({ path, holder }) => {
  const command = [process.execPath, ...runArgs([worker, "exit", "7"])];
  const holdfast = (...args: string[]) =>
    spawnSync(process.execPath, runArgs([cli, ...args]), { stdio: ["ignore", "pipe", "pipe"], encoding: "utf8" });
  const ran = holdfast("run", path, "--", ...command);
  assert.equal(ran.status, 7, ran.stderr);
  await holder(path);
  const refused = holdfast("run", "-n", path, "--", ...command);
  assert.equal(refused.status, 1, refused.stderr);
  assert.match(refused.stderr, /is held/);
});

if (kernel) {
  test("holdfast run takes COMMAND, and what that has started, with it when it is killed", async ({ path }) => {
    const holdfast = start([cli, "run", path, "--", "cmd", "/c", process.execPath, ...runArgs([worker, "idle"])]);
    const lines = createInterface({ input: holdfast.stdout! })[Symbol.asyncIterator](); // `!`: it is a pipe
    const pid = Number((await lines.next()).value);
    assert.equal(processState(pid).state, "alive");
    await end(holdfast);
    const began = performance.now();
    while (processState(pid).state !== "dead" && performance.now() - began < 5_000) await setTimeout(20);
    const { state, reason } = processState(pid);
    if (state !== "dead") process.kill(pid, "SIGKILL");
    assert.equal(state, "dead", reason);
    const lock = new Lock(path, { onStale() {} });
    assert.equal(lock.tryAcquire(), true);
    lock.release();
  });
}

/**
 * What macOS, FreeBSD and Android do otherwise, and what is made of it, where this machine can be made to do so:
 * by another `process.platform`, and modules of the runtime that answer as they do there. Nothing here has run there.
 */
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import process from "node:process";
import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { Choice } from "../../src/backend/choice.ts";
import { readEntry } from "../../src/backend/entry.ts";
import { tryPidFile } from "../../src/backend/pidfile.ts";
import { judge } from "../../src/record/owner.ts";
import type { Bind } from "../../src/sys/abi.ts";
import { bindCalls } from "../../src/sys/calls.ts";
import { bindCommandCalls } from "../../src/sys/command.ts";
import { PLATFORMS } from "../../src/sys/libc.ts";
import { signals, system } from "../../src/sys/mod.ts";
import { nodeRuntime } from "../../src/sys/node.ts";
import { openFailure, openFile } from "../../src/sys/primitives.ts";
import { unseen } from "../../src/sys/proc.ts";
import { type System, SystemError } from "../../src/sys/contract.ts";
import { test } from "../support/harness.ts";

/** Calls with some properties of an object replaced. */
function replacing<T>(object: object, properties: Record<string, unknown>, call: () => T): T {
  const real = Object.keys(properties).map((name) => [name, Object.getOwnPropertyDescriptor(object, name)] as const);
  for (const [name, value] of Object.entries(properties)) {
    Object.defineProperty(object, name, { value, configurable: true, writable: true });
  }
  try {
    return call();
  } finally {
    for (const [name, descriptor] of real) {
      if (descriptor) Object.defineProperty(object, name, descriptor);
      else Reflect.deleteProperty(object, name);
    }
  }
}

/** Calls with another `process.platform`. */
const on = <T>(platform: string, call: () => T): T => replacing(process, { platform }, call);

/** Calls with some functions of a module of the runtime replaced. */
function withModule<T>(module: string, functions: Record<string, unknown>, call: () => T): T {
  const real = process.getBuiltinModule;
  // The casts: it answers by name, and no type says what any name is answered by.
  const getBuiltinModule = (name: string) =>
    name === module ? { ...real(name as "node:fs"), ...functions } : real(name as "node:fs");
  return replacing(process, { getBuiltinModule }, call);
}

/** Calls where `/bin/ps` prints this, or fails with nothing, or may not be run, as in Node with --permission. */
function withPs<T>(stdout: string | undefined | Error, call: () => T): T {
  const spawnSync = () => {
    if (stdout instanceof Error) throw stdout;
    return { status: stdout === undefined ? 1 : 0, stdout };
  };
  return withModule("node:child_process", { spawnSync }, call);
}

/** An error as node:fs throws it. */
const failing = (code: string) => () => {
  throw Object.assign(new Error(`${code}: as it is there, open`), { code });
};

const HIDDEN = /hides other users' processes/;

test("unseen() says gone only of what FreeBSD would not hide", () => {
  const never = (): boolean => {
    throw new Error("process 1 need not be asked for");
  };
  assertEquals(unseen(1001, 0, never), "gone"); // root sees all
  assertEquals(unseen(1000, 1000, never), "gone"); // one's own
  for (const owner of [1001, 0, undefined]) {
    assertEquals(unseen(owner, 1000, () => true), "gone");
    assertMatch(String(unseen(owner, 1000, () => false)), HIDDEN);
  }
  assertMatch(String(unseen(undefined, undefined, () => false)), HIDDEN);
});

let modules = 0;

/** The system that FreeBSD's modules make, as uid 1000, where only these processes are seen. */
async function freebsd(seen: readonly number[], ps?: string | Error): Promise<System> {
  const kill = (pid: number) => {
    // EPERM: another user's, but seen.
    throw Object.assign(new Error("as it is there"), { code: seen.includes(pid) ? "EPERM" : "ESRCH" });
  };
  // A module of its own, with nothing remembered. Without an FFI, as Node before 26.9 is there.
  const { system }: typeof import("../../src/sys/mod.ts") = await import(`../../src/sys/mod.ts?${++modules}`);
  const made = on("freebsd", system);
  const as = <T>(call: () => T): T =>
    on("freebsd", () => replacing(process, { kill, getuid: () => 1000 }, () => withPs(ps, call)));
  return { ...made, self: () => as(() => made.self()), exists: (...args) => as(() => made.exists(...args)) };
}

test("judge() says dead on FreeBSD of what is gone, and unknown of what may only be hidden", async () => {
  const ps = "Sun Nov 29 17:00:00 2026 Ss node a.js\n";
  const [everybody, ownOnly] = [await freebsd([1], ps), await freebsd([], ps)];
  const state = (sys: System, uid?: number) => {
    const { host } = sys.self();
    return judge({ pid: 4711, uid, host, pidNamespace: "host" }, sys).state;
  };
  assertEquals([1000, 1001, undefined].map((uid) => state(everybody, uid)), ["dead", "dead", "dead"]);
  assertEquals([1000, 1001, undefined].map((uid) => state(ownOnly, uid)), ["dead", "unknown", "unknown"]);
  assertMatch(judge({ pid: 4711, uid: 1001 }, ownOnly).reason, HIDDEN);
});

test("self() says on FreeBSD whether it is in a jail, whose processes are not the host's", async () => {
  const line = (state: string) => `Sun Nov 29 17:00:00 2026 ${state} node a.js\n`;
  const [jail, host] = [await freebsd([], line("SJ")), await freebsd([1], line("Ss+"))];
  assertEquals([jail.self().pidNamespace, host.self().pidNamespace], ["jail", "host"]);
  assertEquals((await freebsd([1])).self().pidNamespace, undefined); // no ps, no word
  const owner = { pid: 4711, uid: 1000, host: jail.self().host, pidNamespace: "host" };
  assertMatch(judge(owner, jail).reason, /another PID namespace/);
  assertEquals(judge(owner, jail).state, "unknown");
  assertEquals(judge(owner, host).state, "dead");
  // Two jails may have one host name, and neither shows the other's processes.
  assertEquals(judge({ ...owner, pidNamespace: "jail" }, jail).state, "unknown");
  assertMatch(judge({ ...owner, pidNamespace: "jail" }, jail).reason, /whether it is the same jail is not known/);
  // No boot is known there, and none is asked for; the host and whether it is a jail are.
  for (const unknown of ["host", "pidNamespace"]) {
    assertEquals(judge({ ...owner, nonce: "1", [unknown]: undefined }, host).state, "unknown");
  }
});

test("self() names the system on macOS, which has no PID namespaces, and judge() goes by the host's name there", async () => {
  const { system }: typeof import("../../src/sys/mod.ts") = await import(`../../src/sys/mod.ts?${++modules}`);
  const made = on("darwin", system);
  const here = on("darwin", () => withPs("Sun Nov 29 17:00:00 2026 S node a.js\n", () => made.self()));
  assertEquals([here.pidNamespace, here.bootId, here.timeNamespace], ["darwin", undefined, undefined]);
  const gone = { ...here, pid: 4711 };
  const mac = (self: Partial<typeof here>): System => ({
    ...made,
    self: () => ({ ...here, ...self }),
    exists: () => "gone",
    processInfo: () => undefined,
  });
  assertEquals(judge(gone, mac({})).state, "dead");
  assertEquals(judge({ ...gone, host: "other" }, mac({})).state, "unknown");
  assertEquals(judge({ ...gone, host: undefined }, mac({})).state, "unknown");
  assertEquals(judge(gone, mac({ host: undefined })).state, "unknown");
  // A Linux on the same machine, in a virtual machine or a container, without FFI: nothing but its host is known.
  assertEquals(judge({ ...gone, pidNamespace: undefined }, mac({})).state, "unknown");
});

test("self() needs no ps, which Node with --permission may not run", async () => {
  const sys = await freebsd([1], Object.assign(new Error("restricted"), { code: "ERR_ACCESS_DENIED" }));
  assertEquals([sys.self().pid, sys.self().startTime, sys.self().pidNamespace], [process.pid, undefined, undefined]);
});

test("tryAcquire() by PID file works on Android, where link(2) is EACCES for every app", ({ dir, path }) => {
  const sys = {
    ...system(),
    link: () => {
      throw new SystemError("EACCES", "permission denied, link");
    },
  };
  const request = { path: path(), mode: "exclusive", fileMode: 0o644, label: undefined } as const;
  sys.self();
  assertThrows(() => tryPidFile(sys, request), SystemError, "permission denied, link");
  const hold = (attempt: ReturnType<typeof tryPidFile>) => "hold" in attempt ? attempt.hold : undefined;
  on("android", () => {
    const first = hold(tryPidFile(sys, request));
    assertEquals(readdirSync(dir), ["a.lock.pid"]);
    assertEquals(hold(tryPidFile(sys, request)), undefined);
    assertEquals(first?.release(), undefined);
    assertEquals(readdirSync(dir), []);
    // A damaged one may be in the making for as long as it is there: nobody can publish it at once.
    writeFileSync(path("a.lock.pid"), "");
    assertEquals(readEntry(sys, path(), path("a.lock.pid"))?.owner.state, "unknown");
  });
});

/** A C library that has these functions, and all else that is asked for and does nothing. */
const library =
  (functions: Record<string, (...values: Uint8Array[]) => unknown>, missing?: string): Bind => (_, table) => {
    if (missing !== undefined && missing in table) throw new Error(`undefined symbol: ${missing}`);
    return Object.fromEntries(Object.keys(table).map((name) => [name, functions[name] ?? (() => 0)]));
  };

test("bindCalls() is had on an Android without getentropy, which bionic has since Android 9", () => {
  const fill = (bytes: Uint8Array) => (bytes.fill(7), 0);
  for (const platform of ["linux", "darwin", "freebsd"]) {
    const bytes = new Uint8Array(4);
    assertEquals(bindCalls(platform, "libc", library({ getentropy: fill })).random(bytes), true);
    assertEquals(bytes, new Uint8Array([7, 7, 7, 7]));
  }
  const calls = bindCalls("android", "libc.so", library({ flock: () => 0 }, "getentropy"));
  assertEquals(calls.random(new Uint8Array(4)), false); // then crypto.getRandomValues() is asked: nonces() of mod.ts
  assertEquals(calls.flock(3, "exclusive"), "locked");
});

/** An entry of a directory: its length at 16, its name at 19 as on Linux, or at 24 as on FreeBSD. */
function entry(name: string, at: 19 | 24): Uint8Array {
  const bytes = new Uint8Array(32);
  bytes[16] = bytes.length;
  bytes.set(new TextEncoder().encode(name), at);
  return bytes;
}

test("list() reads directories where struct dirent is Linux's, and FreeBSD's /proc is none to it", () => {
  const list = (platform: string, at: 19 | 24) => {
    const entries = [entry("self", at), entry("4711", at)];
    const memcpy = (to: Uint8Array, from: Uint8Array, ...[length]: unknown[]) =>
      from && to.set(from.subarray(0, length as number)); // the cast: as memcpy has it
    const functions = { opendir: () => 1, readdir: () => entries.shift() ?? null, memcpy };
    return bindCalls(platform, "libc", library({ ...functions, [PLATFORMS[platform].errnoSymbol]: () => 0 }))
      .list("/proc");
  };
  assertEquals(list("linux", 19), ["self", "4711"]);
  assertEquals(list("android", 19), ["self", "4711"]);
  assertEquals(list("freebsd", 24), undefined);
  assertEquals(list("darwin", 24), undefined);
});

test("signals() are FreeBSD's own there, whatever the runtime takes them for", () => {
  const { SIGABRT, SIGUSR1, SIGTERM } = on("freebsd", signals);
  assertEquals([SIGABRT, SIGUSR1, SIGTERM], [6, 30, 15]);
  assertEquals(on("linux", signals).SIGUSR1, 10);
});

test("spawn() hands a descriptor down that is where it is to be, which macOS' adddup2 would leave close-on-exec", () => {
  const spawned = (fd: number, at: number) => {
    const called: unknown[][] = [];
    const call = (name: string, answer: number) => (...values: unknown[]) => (called.push([name, ...values]), answer);
    const functions = {
      dup: call("dup", 9),
      dup2: call("dup2", 0),
      close: call("close", 0),
      posix_spawn_file_actions_adddup2: (_: unknown, ...values: unknown[]) => called.push(["adddup2", ...values]),
      posix_spawnp: call("spawn", 0),
    };
    bindCommandCalls("darwin", "libc", library(functions), false).spawn(["true"], { fd, at });
    return called.map((values) => values[0] === "spawn" ? ["spawn"] : values);
  };
  assertEquals(spawned(3, 3), [["dup", 3], ["dup2", 9, 3], ["close", 9], ["spawn"]]);
  assertEquals(spawned(3, 5), [["adddup2", 3, 5], ["spawn"]]);
});

test("nodeRuntime() uses no FFI where a size_t has 32 bits, as on an Android of 32", () => {
  const ffi = (arch: string) =>
    replacing(process, { arch }, () => withModule("node:ffi", {}, () => nodeRuntime().ffi()));
  for (const arch of ["arm", "ia32"]) {
    assertEquals(ffi(arch), { unavailable: `the FFI is not used on ${arch}, of 32 bits` });
  }
  for (const arch of ["arm64", "x64"]) assertEquals("library" in ffi(arch), true);
});

test("denoRuntime() takes a granted libSystem, which on macOS is in the loader's cache and no file", ({ dir, path }) => {
  const runtime = new URL("../../src/sys/deno.ts", import.meta.url).href;
  const script = `import { denoRuntime } from ${JSON.stringify(runtime)};
    Object.defineProperty(process, "platform", { value: Deno.args[0] });
    console.log(JSON.stringify(denoRuntime().ffi()));`;
  writeFileSync(path("ffi.ts"), script);
  const library = "/usr/lib/libSystem.B.dylib";
  const ffi = (platform: string, ...flags: string[]) => {
    const args = ["run", "--quiet", "--no-check", "--no-prompt", "--no-config", ...flags, path("ffi.ts"), platform];
    return JSON.parse(execFileSync(process.execPath, args, { cwd: dir, encoding: "utf8" }));
  };
  assertEquals(existsSync(library), false, "this is no macOS of before 11");
  assertEquals(ffi("darwin", "--allow-read", `--allow-ffi=${library}`), { library });
  assertEquals(ffi("darwin", "--allow-read").unavailable, "Deno runs without --allow-ffi");
  // Elsewhere a file that is not there is not loaded: the loader would look for its name in other folders.
  assertEquals(existsSync("/lib/libc.so.7"), false);
  assertEquals(
    ffi("freebsd", "--allow-read", "--allow-ffi=/lib/libc.so.7").unavailable,
    "Deno runs without --allow-ffi",
  );
});

test("openFailure() calls a symlink ELOOP on FreeBSD, and a socket ENXIO on both, as Linux does", () => {
  const name = (platform: string, code: string) => openFailure(platform, new SystemError(code, "why")).code;
  assertEquals(["freebsd", "darwin", "linux", "android"].map((each) => name(each, "EMLINK")), [
    "ELOOP",
    "EMLINK",
    "EMLINK",
    "EMLINK",
  ]);
  for (const code of ["EOPNOTSUPP", "ENOTSUP"]) {
    assertEquals(["freebsd", "darwin", "linux"].map((each) => name(each, code)), ["ENXIO", "ENXIO", code]);
  }
  for (const code of ["ELOOP", "EACCES", "ENOENT", "ENOLCK", "ENOSYS"]) assertEquals(name("freebsd", code), code);
  const cause = new Error("below");
  const { message, cause: kept } = openFailure("freebsd", new SystemError("EMLINK", "why", { cause }));
  assertEquals([message, kept], ["why", cause]);
});

test("tryAcquire() refuses a symlink with ELOOP and a socket with ENXIO where open(2) calls them EMLINK and EOPNOTSUPP", async ({ path }) => {
  writeFileSync(path("data"), "");
  symlinkSync("data", path("link"));
  const server = createServer().listen(path("socket"));
  await new Promise((listening) => server.once("listening", listening));
  const sys = system(); // of this machine, whatever the platform is said to be below
  const attempt = (name: string) =>
    new Choice(() => ({ ...sys, openLock: (path, access, mode) => openFile(path, access, mode, () => "locked") }), {
      backend: "auto",
      fileSystem: "any",
    })
      .attempt({ path: path(name), mode: "exclusive", fileMode: 0o644, label: undefined });
  try {
    for (const [name, code, there] of [["link", "ELOOP", "EMLINK"], ["socket", "ENXIO", "EOPNOTSUPP"]]) {
      on("freebsd", () =>
        withModule("node:fs", { openSync: failing(there) }, () => {
          const error = assertThrows(() => attempt(name)) as Error & { code?: string }; // what is thrown is an Error
          assertEquals([error.name, error.code], ["LockError", code]);
          assertMatch(error.message, new RegExp(`it is a ${name === "link" ? "symlink" : name}, and a lock file must`));
        }));
    }
  } finally {
    server.close();
  }
});

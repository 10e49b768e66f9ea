/** What Wine cannot show of the Windows code, on a model of what the Win32 documentation says: tests/support/fake_windows.ts. */
import { assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { tryFlock } from "../../src/backend/flock.ts";
import { advance } from "../../src/backend/pidfile.ts";
import { describe } from "../../src/inspect/describe.ts";
import { whyNotToSignal } from "../../src/hold/handover.ts";
import { inspectPath } from "../../src/inspect/inspect.ts";
import { notSignalledError, timeoutError } from "../../src/record/messages.ts";
import { judge } from "../../src/record/owner.ts";
import { forget, remember } from "../../src/backend/registry.ts";
import { errnoName } from "../../src/sys/errno.ts";
import { bindKernel32, Win32Failure } from "../../src/sys/windows/kernel32.ts";
import { extended, filePath } from "../../src/sys/windows/paths.ts";
import { LOCKED_BYTE } from "../../src/sys/windows/handle.ts";
import { patient } from "../../src/sys/windows/patience.ts";
import { system } from "../../src/sys/mod.ts";
import { type System, SystemError } from "../../src/sys/contract.ts";
import { test } from "../support/harness.ts";
import { FakeWindows } from "../support/fake_windows.ts";

const P = "C:\\locks\\a.lock";
const request = { path: P, mode: "exclusive", fileMode: 0o644, label: undefined } as const;
const take = (sys: System, mode: "exclusive" | "shared" = "exclusive") => tryFlock(sys, { ...request, mode });
const hold = (sys: System, mode: "exclusive" | "shared" = "exclusive") => {
  const attempt = take(sys, mode);
  if (!("hold" in attempt)) throw new Error("it is held by another");
  return attempt.hold;
};
const refusal = (sys: System) => {
  const attempt = take(sys);
  if (!("refusal" in attempt)) throw new Error("it was granted");
  return attempt.refusal;
};
const refused = (sys: System, mode: "exclusive" | "shared" = "exclusive") => "refusal" in take(sys, mode);
const code = (fn: () => unknown) => (assertThrows(fn, SystemError) as SystemError).code; // checked by assertThrows

/** Each pair of a holder and another, with FFI or without. */
const pairs = (fn: (holder: System, other: System, windows: FakeWindows, ways: [boolean, boolean]) => void) => {
  for (const ways of [[true, true], [true, false], [false, true], [false, false]] as [boolean, boolean][]) {
    const windows = new FakeWindows();
    fn(windows.system(ways[0]), windows.system(ways[1]), windows, ways);
    assertEquals(windows.openHandles, 0, `handles are left open: ${ways}`);
  }
};

test("filePath() lets through what names a file, as Windows resolves it", () => {
  const same = [
    P,
    "\\\\server\\share\\a",
    "\\\\?\\C:\\a",
    "\\\\?\\UNC\\server\\share\\a",
    "C:\\",
    "C:\\nullable.lock",
    "C:\\com10",
    "\\\\?\\Volume{b75e2c83-0000-0000-0000-602f00000000}\\a",
    `C:\\${"d\\".repeat(400)}a`,
  ];
  for (const path of same) assertEquals(filePath(path), path);
  assertEquals(filePath("C:/locks/./x/../a.lock"), P);
});

test("filePath() refuses devices, streams, pipes, wildcards, and names that Windows would change", () => {
  const names = [
    "NUL",
    "nul.txt",
    "Con",
    "aux .x",
    "COM1",
    "com\u00b2",
    "LPT9.a.b",
    "CONOUT$",
    "PRN ",
    "a:b",
    "a::$DATA",
    "a?",
    "*",
    "a|b",
    "a<",
    'a"',
    "a\u001f",
    "a.",
    "a ",
    "a.\\b",
  ];
  for (const name of names) assertEquals(code(() => filePath(`\\\\?\\C:\\locks\\${name}`)), "EINVAL", name);
  const roots = [
    "\\\\.\\pipe\\a",
    "\\\\.\\C:\\a",
    "\\\\?\\GLOBALROOT\\a",
    "\\\\?\\pipe\\a",
    "\\\\server\\pipe\\a",
    "\\\\?\\UNC\\s\\Mailslot\\a",
    "\\\\?\\C:\\a\\..\\b",
    "\\\\?\\C:\\a/b",
    "\\??\\C:\\a",
  ];
  for (const path of roots) assertEquals(code(() => filePath(path)), "EINVAL", path);
  assertEquals(code(() => filePath(`C:\\${"d\\".repeat(20_000)}a`)), "ENAMETOOLONG");
});

test("extended() lifts the limit of 260 characters, also for a server's share", () => {
  assertEquals(extended(P), `\\\\?\\${P}`);
  assertEquals(extended("\\\\server\\share\\a"), "\\\\?\\UNC\\server\\share\\a");
  assertEquals(extended("\\\\?\\C:\\a"), "\\\\?\\C:\\a");
});

test("errnoName() on Windows names what its documentation lists, and shows the number of what it does not", () => {
  const names = [2, 5, 32, 33, 50, 80, 112, 206, 1_450].map((number) => errnoName("win32", number));
  assertEquals(names, ["ENOENT", "EACCES", "EBUSY", "EBUSY", "ENOTSUP", "EEXIST", "ENOSPC", "ENAMETOOLONG", "ENOMEM"]);
  assertEquals(errnoName("win32", 4_999), "errno 4999");
});

test("bindKernel32() calls again where the runtime lost the error's number, and never takes that for a success", () => {
  const windows = new FakeWindows();
  windows.losesErrors = 2;
  const kernel = bindKernel32("kernel32.dll", windows.bind);
  const failure = kernel.handle("OpenProcess", 0, 0, 99);
  assertEquals(failure instanceof Win32Failure && failure.number, 87);
  windows.losesErrors = 1_000;
  const lost = kernel.handle("OpenProcess", 0, 0, 99);
  assertEquals(lost instanceof Win32Failure && lost.toError().code, "errno 0");
});

test("tryFlock() on Windows excludes, in all ways, with the record in the file and in no other", () => {
  pairs((holder, other, windows) => {
    const held = hold(holder);
    assertEquals(refused(other), true);
    assertEquals(refused(other, "shared"), true);
    assertEquals(windows.text(P)?.startsWith(`${process.pid}\n`), true);
    assertEquals(held.release(), undefined);
    assertEquals([windows.text(P), inspectPath(other, P).state], ["", "free"]);
    hold(other).release();
    assertEquals([...windows.files.keys()], [P.toLowerCase()]);
  });
});

const UNREAD = "its content is locked, as a runtime without --allow-ffi locks the whole file on Windows, and a Worker";

test("inspect() on Windows names a holder with FFI, and says of one without that its record cannot be read", () => {
  pairs((holder, other, _windows, [ffi]) => {
    const held = hold(holder);
    const { state, mode, holder: named, holders, unread, reason } = inspectPath(other, P);
    assertEquals([mode, named?.pid, holders.length], ffi ? ["exclusive", process.pid, 1] : ["exclusive", undefined, 0]);
    assertEquals(unread, ffi ? undefined : true);
    if (!ffi) assertEquals([state, reason], ["held", UNREAD]);
    held.release();
  });
});

test("inspect() on Windows by a holder without FFI, which cannot read its own record either, says that this process holds it", () => {
  const sys = new FakeWindows().system(false), held = hold(sys);
  remember(held, () => {});
  try {
    const { state, mode, holder, unread, reason } = inspectPath(sys, P);
    assertEquals([state, mode, holder?.pid, unread, reason], [
      "held",
      "exclusive",
      process.pid,
      undefined,
      "this process holds it",
    ]);
  } finally {
    forget(held);
    held.release();
  }
});

test("LockTimeoutError and signalHolder on Windows say of a holder without FFI that its record cannot be read", () => {
  for (const ffi of [true, false]) {
    const windows = new FakeWindows(), held = hold(windows.system(false)), other = windows.system(ffi);
    const inTheWay = describe(other, P, refusal(other));
    const { message, holder } = timeoutError(P, 50, inTheWay);
    assertEquals(holder, undefined);
    assertStringIncludes(message, `held by a holder whose record cannot be read. It counts as held because ${UNREAD}`);
    const refusing = notSignalledError(P, "SIGTERM", inTheWay, whyNotToSignal(other, inTheWay) ?? "it may be").message;
    assertStringIncludes(
      refusing,
      `held by a holder whose record cannot be read, which was not sent SIGTERM, because ${UNREAD}`,
    );
    held.release();
  }
});

test("tryFlock() on Windows counts a PID file that cannot be read as held", () => {
  for (const ffi of [true, false]) {
    const windows = new FakeWindows();
    windows.put(`${P}.pid`, "4724\n");
    const other = windows.open(`${P}.pid`, {})!; // `!`: it is there
    windows.lock(other, 0n, 100n, true);
    const sys = windows.system(ffi), { unread, doubt } = describe(sys, P, refusal(sys));
    assertEquals([unread, doubt?.endsWith("cannot be read while another program has it locked")], [true, true]);
    windows.close(other);
  }
});

test("tryPidFile() on Windows, in a runtime without any kernel lock, takes a file that cannot be read for held", () => {
  const windows = new FakeWindows(), held = hold(windows.system(false));
  const without: System = { ...windows.system(false), way: undefined };
  const step = advance(without, request, { at: "B", nonce: "0".repeat(32) });
  assertEquals("refusal" in step && describe(without, P, step.refusal), { unread: true, doubt: UNREAD });
  held.release();
});

test("tryFlock() on Windows shares with those who share only, in all ways", () => {
  pairs((holder, other) => {
    const [a, b] = [hold(holder, "shared"), hold(other, "shared")];
    assertEquals(refused(other), true);
    a.release();
    assertEquals(refused(holder), true);
    b.release();
    hold(holder).release();
  });
});

test("tryFlock() on Windows reports a holder that died, in all ways, and once", () => {
  pairs((holder, other, windows) => {
    hold(holder);
    windows.endAll(); // its lock ends with it, so its record can be read
    assertEquals(inspectPath(other, P).holder?.pid, process.pid);
    const first = hold(other);
    assertEquals([first.stale?.pid, first.stale?.runtime], [process.pid, "fake/1.0.0"]);
    first.release();
    const second = hold(holder);
    assertEquals(second.stale, undefined);
    second.release();
  });
});

test("tryFlock() on Windows leaves what users wrote as it is, in all ways, and lets an FFI's holder and others read it", () => {
  pairs((holder, other, windows, [ffi]) => {
    windows.put(P, "name = value\r\n");
    const held = hold(holder);
    if (ffi) {
      const reader = windows.open(P, {})!; // `!`: it is there
      assertEquals(new TextDecoder().decode(windows.read(reader, 0, 100) as Uint8Array), "name = value\r\n"); // no error's number
      windows.close(reader);
    } else assertEquals(inspectPath(other, P).reason, UNREAD);
    held.release();
    assertEquals(windows.text(P), "name = value\r\n");
  });
});

test("tryFlock() on Windows locks one byte that no content reaches, and that whoever locks the whole file locks too", () => {
  const windows = new FakeWindows(), sys = windows.system(true);
  const held = hold(sys);
  const [{ from, to }] = windows.files.get(P.toLowerCase())!.locks; // `!`: it was made
  assertEquals([from, to], [LOCKED_BYTE, LOCKED_BYTE + 1n]);
  held.release();
  assertEquals(windows.calls.lastIndexOf("UnlockFileEx") < windows.calls.lastIndexOf("CloseHandle"), true);
  assertEquals(
    windows.calls.includes("UnlockFileEx"),
    true,
    "the system may take its time to unlock what is merely closed",
  );
});

test("tryFlock() on Windows refuses a reparse point, a directory and a device, and leaves them as they are", () => {
  for (
    const [attributes, type, expected] of [[0x420, 1, "ELOOP"], [0x10, 1, "EISDIR"], [0x410, 1, "ELOOP"], [
      0x20,
      2,
      "EINVAL",
    ], [0x20, 3, "EINVAL"]]
  ) {
    const windows = new FakeWindows();
    windows.put(P, "4711\n", Number(attributes), Number(type));
    const failure = code(() => take(windows.system(true)));
    assertEquals([failure, windows.text(P), windows.openHandles], [expected, "4711\n", 0]);
  }
});

test("tryFlock() on Windows does not take a failure for contention", () => {
  for (const [number, expected] of [[5, "EACCES"], [50, "ENOTSUP"], [1, "ENOSYS"], [36, "ENOLCK"]] as const) {
    const windows = new FakeWindows();
    windows.lockError = number;
    assertEquals(code(() => take(windows.system(true))), expected);
    assertEquals(windows.openHandles, 0);
  }
});

test("tryFlock() on Windows takes both errors of a refused LockFileEx for contention", () => {
  for (const number of [33, 997]) {
    const windows = new FakeWindows();
    windows.lockError = number;
    assertEquals(refused(windows.system(true)), true);
    assertEquals(windows.openHandles, 0);
  }
});

test("tryFlock() on Windows shares the file for no deletion, unless another has it open for that already", () => {
  const windows = new FakeWindows(), sys = windows.system(true);
  const held = hold(sys);
  assertEquals(windows.open(P, { asksDelete: true }), undefined);
  held.release();
  const scanner = windows.open(P, { asksDelete: true })!; // `!`: nobody is in the way
  hold(sys).release();
  windows.close(scanner);
  const greedy = windows.open(P, { share: 0 })!; // `!` as above
  assertMatch(assertThrows(() => take(sys), SystemError).message, /EBUSY .*does not share it/);
  windows.close(greedy);
});

test("tryFlock() on Windows locks a file that may only be read", () => {
  const windows = new FakeWindows(), sys = windows.system(true);
  windows.put(P, "", 0x21);
  const held = hold(sys);
  assertEquals([refused(sys), windows.text(P)], [true, ""]);
  held.release();
});

test("tryFlock() on Windows opens in a Worker what its runtime closes when that is terminated", () => {
  const windows = new FakeWindows(), [sys, main] = [windows.system(true, false), windows.system(true)];
  const held = hold(sys);
  assertEquals([sys.way, main.way, windows.calls.includes("LockFileEx")], ["FsFile", "ffi", false]);
  assertEquals([refused(main), inspectPath(main, P).unread], [true, true]);
  assertEquals(windows.text(P)?.startsWith(`${process.pid}\n`), true, "for the next holder");
  held.release();
});

test("openRead() on Windows waits for the end of a file that is being deleted, which is denied until then, and not for ever", () => {
  const windows = new FakeWindows(), sys = windows.system(true);
  windows.put(`${P}.pid`).pending = 5; // two opens a try
  assertEquals(sys.openRead(`${P}.pid`), undefined);
  windows.put(`${P}.pid`).pending = Infinity;
  assertEquals(code(() => sys.openRead(`${P}.pid`)), "EACCES");
  assertEquals(code(() => sys.openLock(`${P}.pid`, "write", 0)), "EACCES");
  assertEquals(windows.openHandles, 0);
});

test("stat() on Windows tells files apart by their paths where the server numbers none", () => {
  const windows = new FakeWindows(), sys = windows.system(true);
  for (const name of ["a", "b"]) windows.files.set(`c:\\locks\\${name}`, { ...windows.put(P), index: 0 });
  const [a, b, again] = ["a", "b", "A"].map((name) => sys.stat(`C:\\locks\\${name}`)?.identity);
  assertEquals([a === again, a === b], [true, false]);
});

test("patient() tries again what may pass, throws what stays, and at once what cannot pass", () => {
  const after = (times: number, name: string, cause: unknown = new Error("of the system")) => {
    let calls = 0;
    const call = patient(() => {
      if (calls++ < times) throw new SystemError(name, "on purpose", { cause });
    });
    return { call, calls: () => calls };
  };
  const passing = after(3, "EBUSY"), staying = after(100, "EACCES"), missing = after(1, "ENOENT");
  passing.call();
  assertEquals([passing.calls(), code(staying.call), staying.calls()], [4, "EACCES", 7]);
  assertEquals([code(missing.call), missing.calls()], ["ENOENT", 1]);
  const ours = after(1, "EACCES", null), denos = after(1, "EACCES", Object.assign(new Error(), { name: "NotCapable" }));
  for (const each of [ours, denos]) assertEquals([code(each.call), each.calls()], ["EACCES", 1]);
});

test("judge() on Windows, and on Linux, does not go by a number of the other's, as of a WSL with the same host name", () => {
  const windows = new FakeWindows().system(true), linux = system();
  const here: System = { ...linux, self: () => ({ ...linux.self(), host: "PC" }) };
  const of = (sys: System, pid: number) => ({ ...sys.self(), pid, startTime: undefined });
  assertEquals(judge(of(here, 4724), windows).state, "unknown");
  assertEquals(judge(of(windows, 2147483632), here).state, "unknown"); // no process has that number
  assertEquals(judge(of(here, 2147483632), here).state, "dead");
});

test("judge() on Windows knows the living, the dead that somebody still watches, the denied, and who has the number now", () => {
  const windows = new FakeWindows(), sys = windows.system(true);
  const state = (pid: number, startTime?: string) => judge({ pid, startTime }, sys).state;
  windows.processes.set(4716, { startTime: 7n, runs: false }).set(4720, { startTime: 7n, runs: true, denied: true });
  assertEquals([state(4712), state(4712, "1"), state(4712, "2")], ["alive", "alive", "dead"]);
  assertEquals([state(4716), state(4720), state(4724)], ["dead", "alive", "dead"]);
  assertEquals(state(4713), "dead", "Windows opens 4712 for it");
  windows.processCallsFail = true; // WAIT_FAILED, and no id: no proof of an end
  assertEquals([state(4712), state(4712, "1")], ["alive", "alive"]);
  assertEquals(sys.signal(4713, "SIGKILL") instanceof SystemError, true); // which is 4712
  assertEquals(windows.calls.includes("TerminateProcess"), false);
  assertEquals(windows.openHandles, 0);
});

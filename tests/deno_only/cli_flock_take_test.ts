/** What flock does with answers that no disk here gives: NFS's, a full table's, a timer's. */
import { assert, assertEquals } from "@std/assert";
import { settings } from "../../src/cli/flock/settings.ts";
import { take } from "../../src/cli/flock/take.ts";
import type { CommandCalls } from "../../src/sys/command.ts";
import { SystemError } from "../../src/sys/contract.ts";
import { test } from "../support/harness.ts";

/** Answers calls from a list, `name code`, and says what was called. */
function taken(args: string[], answers: string[], isLocal = false) {
  const called: string[] = [];
  const answer = (name: string) => {
    called.push(name);
    const [expected, code] = (answers.shift() ?? `${name} ok`).split(": ");
    assertEquals(name, expected);
    return code === "ok" ? undefined : new SystemError(code, `${code} text`);
  };
  // The cast: the others are not called.
  const calls = {
    open: (path: string, how: string) => answer(`open ${path} ${how}`) ?? 7,
    close: (fd: number) => called.push(`close ${fd}`),
    access: () => true,
    inherited: () => true,
    isLocal: () => isLocal,
    flock: (fd: number, operation: number) => answer(`flock ${fd} ${operation}`),
    lockRange: (fd: number, operation: number) => answer(`fcntl ${fd} ${operation}`),
  } as unknown as CommandCalls;
  const asked = settings(args, undefined);
  assert("target" in asked);
  const result = take(calls, asked, () => performance.now());
  return { called, result: "took" in result ? "locked" : result };
}

const OK = (args: string[], answers: string[]) => {
  const { called, result } = taken(args, answers);
  assertEquals(result, "locked");
  return called;
};

test("flock opens a file that is there to read, and makes one that is not", () => {
  assertEquals(OK(["f", "true"], ["open f r: ok", "flock 7 2: ok"]).length, 2);
  OK(["f", "true"], ["open f r: ENOENT", "open f a+: ok", "flock 7 2: ok"]);
  // Made by another user, between the two.
  OK(["f", "true"], ["open f r: ENOENT", "open f a+: EACCES", "open f r: ok", "flock 7 2: ok"]);
});

test("flock opens the file again to write where the lock is refused with EIO or EBADF, as on NFS, but once", () => {
  for (const code of ["EIO", "EBADF"]) {
    const called = OK(["f", "true"], ["open f r: ok", `flock 7 2: ${code}`, "open f a+: ok", "flock 7 2: ok"]);
    assertEquals(called, ["open f r", "flock 7 2", "close 7", "open f a+", "flock 7 2"]);
  }
  const { result } = taken(["f", "true"], ["open f r: ok", "flock 7 2: EIO", "open f a+: ok", "flock 7 2: EIO"]);
  assertEquals(result, { status: 65, message: "f: EIO text" });
  const shared = taken(["-s", "f", "true"], ["open f r: ok", "flock 7 1: EIO"]);
  assertEquals(shared.result, { status: 65, message: "f: EIO text" });
});

test("flock --fcntl opens to write for an exclusive lock, and a directory to read", () => {
  OK(["--fcntl", "f", "true"], ["open f a: ok", "fcntl 7 2: ok"]);
  OK(["--fcntl", "-s", "f", "true"], ["open f r: ok", "fcntl 7 1: ok"]);
  OK(["--start", "5", "d", "true"], ["open d a: EISDIR", "open d r: ok", "fcntl 7 2: ok"]);
});

test("flock tells by its status what the system lacks", () => {
  for (
    const [code, status] of Object.entries({ ENOMEM: 71, EMFILE: 71, ENFILE: 71, EROFS: 73, ENOSPC: 73, EPERM: 66 })
  ) {
    const message = `cannot open lock file f: ${code} text`;
    assertEquals(taken(["f", "true"], [`open f r: ${code}`]).result, { status, message });
  }
  for (const [code, status] of Object.entries({ ENOLCK: 71, ENOMEM: 71, EINVAL: 65 })) {
    assertEquals(taken(["9"], [`flock 9 2: ${code}`]).result, { status, message: `9: ${code} text` });
  }
  // An SMB mount says EACCES for "held".
  const held = taken(["-nE", "5", "9"], ["flock 9 6: EACCES"]);
  assertEquals(held.result, { status: 5, verbose: "failed to get lock" });
  // A security policy says so on a local disk; of a range it may be held all the same.
  const denied = taken(["9"], ["flock 9 2: EACCES"], true);
  assertEquals(denied.result, { status: 65, message: "9: EACCES text" });
  const range = taken(["-nE", "5", "--fcntl", "9"], ["fcntl 9 6: EACCES"], true);
  assertEquals(range.result, { status: 5, verbose: "failed to get lock" });
});

test("flock -w tries until the time is up and no longer", () => {
  const began = performance.now();
  const { called, result } = taken(["-w", "0.25", "9"], Array(10_000).fill("flock 9 6: EWOULDBLOCK"));
  const took = performance.now() - began;
  assertEquals(result, { status: 1, verbose: "timeout while waiting to get lock" });
  assert(took >= 250 && took < 2_500, `it took ${took} ms`);
  assert(called.length > 5 && called.length < 300, `${called.length} tries`);
});

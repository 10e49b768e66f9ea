/** What was given to this process, told from what its runtime shows: src/sys/environment.ts and given.ts. */
import { assertEquals, assertThrows } from "@std/assert";
import { writeFileSync } from "node:fs";
import process from "node:process";
import { fromText } from "../src/sys/bytes.ts";
import { forgetFiles, preference } from "../src/sys/environment.ts";
import { environmentFor, exactArguments } from "../src/sys/given.ts";
import { SystemError } from "../src/sys/contract.ts";
import { ownKind, test } from "./support/harness.ts";

const isBun = ownKind === "bun";

/** Does something while `/proc/self/environ` cannot be read, as that of a program that its user may not read. */
function unread<T>(fn: () => T): T {
  // The cast: it is there to be replaced.
  const fs = process.getBuiltinModule("node:fs") as { readFileSync: unknown };
  const { readFileSync } = fs;
  fs.readFileSync = () => {
    throw new Error("EACCES");
  };
  try {
    return fn();
  } finally {
    fs.readFileSync = readFileSync;
  }
}

test("forgetFiles() takes variables out of process.env that were not given, and gives back those that were: in Bun, which reads .env", () => {
  const path = process.env.PATH;
  process.env.HOLDFAST_PLANTED = "1"; // as Bun sets it
  process.env.PATH = "/planted";
  try {
    forgetFiles();
    assertEquals([process.env.HOLDFAST_PLANTED, process.env.PATH], isBun ? [undefined, path] : ["1", "/planted"]);
  } finally {
    delete process.env.HOLDFAST_PLANTED;
    process.env.PATH = path;
  }
});

test("forgetFiles() refuses where there is a .env that Bun has read, and what was given cannot be read", ({ dir, path }) => {
  const before = process.cwd();
  process.chdir(dir);
  try {
    unread(forgetFiles); // there is no such file
    writeFileSync(path(".env.production.local"), "");
    if (!isBun) return unread(forgetFiles);
    const error = assertThrows(() => unread(forgetFiles), SystemError, "--no-env-file");
    assertEquals(error.message.includes(".env.production.local"), true);
  } finally {
    process.chdir(before);
  }
});

test("environmentFor() keeps what was given byte for byte, and adds what the user has had the runtime read", () => {
  const given = ["A=1", "A=2", "N\xe9=\xff", "", "none", "=x", "B=\xc3\xa4"];
  assertEquals(environmentFor(given, []), given);
  // As the runtimes show the same: once, or with U+FFFD, or not at all.
  assertEquals(environmentFor(given, [["A", "1"], ["N\ufffd", "\ufffd"], ["B", "ä"]]), given);
  assertEquals(environmentFor(given, [["A", "3"], ["NEW", "ä"]]), [...given.slice(2), "A=3", "NEW=\xc3\xa4"]);
  assertEquals(environmentFor(undefined, [["A", "1"]]), ["A=1"]);
});

test("exactArguments() are those of the command line, and none where a U+FFFD cannot be told from other bytes", () => {
  const given = ["runtime", "main.ts", "run", "\xff", "\xef\xbf\xbd", ""];
  assertEquals(exactArguments(given, ["\ufffd", "\ufffd", ""]), ["\xff", "\xef\xbf\xbd", ""]);
  assertEquals(exactArguments(given, []), []);
  // Bun takes a first `--` away: they no longer correspond.
  assertEquals(exactArguments(["--", "a"], ["a", "b"]), ["a", "b"]);
  assertEquals(exactArguments(undefined, ["ä"]), [fromText("ä")]);
  for (const known of [undefined, [], ["a\xff"]]) assertEquals(exactArguments(known, ["\ufffd"]), undefined);
});

test("preference() is undefined for a variable that is not set, or empty", () => {
  assertEquals(preference("HOLDFAST_NO_SUCH_VARIABLE"), undefined);
  assertEquals(preference("PATH"), process.env.PATH);
});

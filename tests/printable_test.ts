/** What another user may have chosen, in the words that people read: src/sys/printable.ts, and where it is used. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { Lock, LockError, LockHolder } from "../mod.ts";
import { timeoutError } from "../src/record/messages.ts";
import { printable, quote, shown } from "../src/sys/printable.ts";
import { cut } from "../src/cli/output.ts";
import { test } from "./support/harness.ts";

const from = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, i) => first + i);

/** Control characters; bidirectional ones; separators of lines; halves of pairs; invisible, private and unassigned ones. */
const HIDDEN = [
  ...[...from(0, 0x1f), ...from(0x7f, 0x9f)],
  ...[0x61c, 0x200e, 0x200f, ...from(0x202a, 0x202e), ...from(0x2066, 0x2069)],
  ...[0x2028, 0x2029, 0xd800, 0xdfff, 0xad, 0x200b, 0xfeff, 0xe000, 0xfff9, 0x378, 0xe0001, 0x10fffd],
].map((code) => String.fromCodePoint(code));

const PLAIN = "abc XYZ 019 äß漢字 ✓ 😀 e\u0301 \\ \" ' $";

const isPlain = (text: string) => !/[\p{C}\u2028\u2029]/u.test(text);

test("printable() shows every character that a terminal could be misled by as its number, and no other", () => {
  assertEquals(printable(PLAIN), PLAIN);
  assertEquals(printable("a\n\x1b[m\x9b\u202e漢"), "a\\u000a\\u001b[m\\u009b\\u202e漢");
  assertEquals(printable("\u{e0001}"), "\\udb40\\udc01", "as JSON has it");
  for (const each of HIDDEN) assertMatch(printable(`a${each}b`), /^a(?:\\u[0-9a-f]{4}){1,2}b$/, JSON.stringify(each));
  assertEquals(printable(printable("\x1b")), "\\u001b", "what is escaped stays as it is");
});

test("printable() of a JSON document is the same document, and quote() is one", () => {
  for (const text of [PLAIN, ...HIDDEN, HIDDEN.join("\\"), '"\\\x9b\\"']) {
    assertEquals(JSON.parse(printable(JSON.stringify({ [text]: [text] }))), { [text]: [text] });
    assertEquals(JSON.parse(quote(text)), text);
    assert(isPlain(quote(text)), JSON.stringify(text));
  }
});

test("shown() is a word that a shell takes for nothing but itself", () => {
  assertEquals(["a/b.lock", "漢字", "a b", "", "it's"].map(shown), ["a/b.lock", "漢字", "'a b'", "''", `'it'\\''s'`]);
  const words = ["$(echo ran).lock", "`echo ran`", '"; echo ran; "', "'; echo ran; '", "a\\b", "*", "#a", PLAIN];
  for (const word of words) {
    assertEquals(execFileSync("sh", ["-c", `printf %s ${shown(word)}`], { encoding: "utf8" }), word);
  }
  for (const each of HIDDEN) assert(isPlain(shown(`a${each}`)), JSON.stringify(each));
});

test("a LockError's message, and what String(holder) says, have no character that a terminal could be misled by", () => {
  const text = HIDDEN.join("");
  assert(isPlain(new LockError(`the system said ${text}`, { code: "EIO", path: text }).message));
  assert(isPlain(String(new LockHolder({ pid: 1, command: text, host: text, label: text, acquiredAt: text }))));
});

test("acquire() and inspect() of a path that a terminal could be misled by show it as its numbers", ({ dir, path }) => {
  const name = "red\x9b31m\u202e $(reboot).lock";
  const failures: unknown[] = [];
  for (
    const call of [() => new Lock(`${dir}/none/${name}`).tryAcquire(), () => Lock.inspect(`${dir}/a.lock/${name}`)]
  ) {
    writeFileSync(path(), "");
    try {
      call();
    } catch (error) {
      failures.push(error);
    }
  }
  assertEquals(failures.length, 2);
  for (const each of failures) {
    assert(each instanceof LockError);
    assert(isPlain(each.message), JSON.stringify(each.message));
    assertStringIncludes(each.message, 'red\\u009b31m\\u202e $(reboot).lock"');
  }
});

test("LockTimeoutError's suggested command names a file for the shell, whatever it is called", () => {
  const { message } = timeoutError("/srv/$(reboot) \x9b.lock", 0, {});
  assertStringIncludes(message, `"fuser -v '/srv/$(reboot) \\u009b.lock'" names`);
});

test("cut() looks at no more of a text than it shows", () => {
  assertEquals(cut("abcdef", 6), "abcdef");
  assertEquals(cut("abcdef", 5), "abcd…");
  assertEquals(cut("日本語", 5), "日本…");
  assertEquals(cut("e\u0301".repeat(9), 5), `${"e\u0301".repeat(4)}…`);
  assertEquals(cut("\x1b[31mabcdef\x1b[39m", 6), "\x1b[31mabcdef\x1b[39m");
  assertEquals(cut("\u0301".repeat(60_000), 80).length <= 80 * 8 + 1, true); // they take no column
});

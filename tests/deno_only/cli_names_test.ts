/** Names and arguments that are not UTF-8: the runtimes show another name, and its file would be another lock. */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { CLI, cliEnv, type CliKind, FFI_KINDS } from "../support/cli.ts";
import { type Place, test, within } from "../support/harness.ts";

// The cast: the keys of a table that is written out.
const KINDS = Object.keys(CLI) as CliKind[];

/** Runs lines of bash, in which `holdfast` is ours and `name` has an é of Latin-1; what they said, but for errors. */
async function bash({ child, dir, path }: Place, kind: CliKind, script: string) {
  const quoted = CLI[kind]().map((word) => `'${word}'`).join(" ");
  const prelude = `name=$'caf\\xe9' errors=$PWD/errors; holdfast() { ${quoted} "$@" 2>>"$errors"; }\n`;
  writeFileSync(path("script"), prelude + script);
  const run = child("bash", [path("script")], { cwd: dir, env: cliEnv(dir) });
  const lines: string[] = [];
  for (;;) {
    const line = await within(60_000, run.line()).catch(() => undefined);
    if (line === undefined) break;
    lines.push(line);
  }
  assertEquals(await run.ended, { code: 0, signal: null }, run.errors);
  return lines;
}

/** One runs every command; the others show that they see the bytes too. */
const EVERY_COMMAND: readonly CliKind[] = ["bun"];

for (const kind of KINDS.filter((each) => !EVERY_COMMAND.includes(each))) {
  test(`holdfast in ${kind} refuses a path, and a directory, that is not UTF-8, and makes no other file`, async (place) => {
    const lines = await bash(
      place,
      kind,
      `
holdfast run -n "./$name.lock" touch ran; echo $?
holdfast status "./$name.lock"; echo $?
HOLDFAST_DIR="$PWD/$name" holdfast run -n job touch ran; echo $?
mkdir "in-$name"; cd "in-$name"
holdfast run -n ./a.lock touch ../ran; echo $?
ls -A`,
    );
    assertEquals(lines, ["64", "64", "66", "64"], readFileSync(place.path("errors"), "utf8"));
    assertEquals(readdirSync(place.dir).filter((name) => name.startsWith("caf") || name === "ran"), []);
  });
}

for (const kind of EVERY_COMMAND) {
  test(`holdfast in ${kind} refuses a path that is not UTF-8, which flock(1) holds, and makes no other file`, async (place) => {
    const lines = await bash(
      place,
      kind,
      `
exec 9> "$name.lock"; flock -n 9
holdfast run -n "./$name.lock" touch ran; echo $?
holdfast run -n "$name" touch ran; echo $?
holdfast run -n --journal="./$name" ./a.lock touch ran; echo $?
holdfast status "./$name.lock"; echo $?
holdfast break "./$name.lock"; echo $?
holdfast history "./$name.lock"; echo $?
holdfast history --journal="./$name" ./a.lock; echo $?
holdfast doctor "./$name.lock"; echo $?
HOLDFAST_DIR="$PWD/$name" holdfast run -n job touch ran; echo $?
holdfast list .; echo $?
mkdir "in-$name"; cd "in-$name"
holdfast run -n ./a.lock touch ../ran; echo $?
holdfast run -n ../a.lock touch ../ran; echo $?
holdfast list .; echo $?
holdfast doctor .; echo $?
ls -A`,
    );
    assertEquals(lines.slice(0, 9), [...Array(8).fill("64"), "66"], readFileSync(place.path("errors"), "utf8"));
    const [head, ...list] = lines.slice(9, lines.indexOf("3"));
    assertMatch(head, /^STATE +LOCK/);
    assertEquals(list.length, 2, "a row, and why");
    assertMatch(list[0], /^unknown +'caf\ufffd\.lock'/);
    assertStringIncludes(list[1], "its name is not UTF-8");
    assertEquals(lines.slice(lines.indexOf("3") + 1), Array(4).fill("64"), "nor is any file made in that directory");
    const made = readdirSync(place.dir).filter((name) => name.startsWith("caf") || name === "ran");
    assertEquals(made.length, 1, "another file is another lock");
    for (const line of readFileSync(place.path("errors"), "utf8").trim().split("\n")) assertMatch(line, /^holdfast: /);
  });
}

for (const kind of FFI_KINDS) {
  test(`holdfast run in ${kind} gives COMMAND arguments that are not UTF-8 as they are, as flock(1) does`, async (place) => {
    const lines = await bash(
      place,
      kind,
      `
printf '#!/bin/sh\nprintf "%%s|" "$@" | od -An -c\n' > "$name"; chmod +x "$name"
set -- "./$name" $'\\xff' -- "" $'\\xef\\xbf\\xbd' $'\\xed\\xa0\\x80' --help ä
flock a.lock "$@"; holdfast run ./a.lock "$@"; holdfast run ./a.lock -- "$@"; holdfast run -F ./a.lock "$@"`,
    );
    const once = lines.length / 4;
    assertEquals(lines, Array.from({ length: 4 }, () => lines.slice(0, once)).flat());
    assertMatch(lines[0], / 377 +\| +- +- +\| +\| 357 277 275 /);
  });
}

test("holdfast run where there is no FFI refuses arguments that it would have to change, and passes on U+FFFD where that is what was given", async (place) => {
  const lines = await bash(
    place,
    "node20",
    `
holdfast run ./a.lock touch ran $'\\xff'; echo $?
holdfast run ./a.lock printf '%s\\n' $'\\xef\\xbf\\xbd'; echo $?
ls ran 2> /dev/null; true`,
  );
  assertEquals(lines, ["64", "\ufffd", "0"]);
});

/** Help, manual page, completions and mistakes: all of them from one table of options. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { main } from "../../src/cli/main.ts";
import { Asked, parse, UsageError } from "../../src/cli/args.ts";
import { type Option, optionsOf, spelling } from "../../src/cli/command.ts";
import { loaded } from "../../src/cli/command.ts";
import { COMMANDS } from "../../src/cli/commands.ts";
import { commandHelp } from "../../src/cli/help.ts";
import { manual } from "../../src/cli/man.ts";
import { age, ago, signalName, span } from "../../src/cli/words.ts";
import { VERSION } from "../../src/cli/version.ts";
import { CLI, cliEnv, holdfast } from "../support/cli.ts";
import { test } from "../support/harness.ts";
import { needs } from "../support/needs.ts";

const commands = await loaded(COMMANDS);

test("COMMANDS has each command by its own name, with a summary that is a phrase", () => {
  assertEquals(commands.map(({ name }) => name), Object.keys(COMMANDS));
  for (const { name, summary, usage } of commands) {
    assert(!summary.endsWith("."), name);
    assert(usage.every((each) => each === name || each.startsWith(`${name} `)), name);
  }
});

test("VERSION is that of deno.json", () => {
  const { version } = JSON.parse(readFileSync(new URL("../../deno.json", import.meta.url), "utf8"));
  assertEquals(VERSION, version);
});

test("--help and --version of every command, and of holdfast itself", async (place) => {
  for (const name of ["", ...Object.keys(COMMANDS)]) {
    for (const option of ["--help", "-V"]) {
      const { code, out, err } = await holdfast(place, "bun", name ? [name, option] : [option]);
      assertEquals([code, err], [0, ""], `${name} ${option}`);
      assertMatch(out, option === "--help" ? /^(?:\n?Usage:\n?| *holdfast \d)/ : /holdfast \d+\.\d+\.\d+\n$/);
    }
  }
});

test("commandHelp() shows every option, and no line is longer than the terminal where words allow", () => {
  for (const command of commands) {
    for (const columns of [20, 80]) {
      const help = commandHelp(command, columns);
      for (const option of optionsOf(command)) assertStringIncludes(help, `--${option.long}`);
      const longest = Math.max(...command.options.map((each) => spelling(each).length + 6), columns);
      for (const line of help.split("\n")) assert(line.length <= Math.max(longest, 40), line);
    }
  }
});

test("the manual page has every command and every option", async (place) => {
  const page = manual(commands);
  const source = page.replaceAll("\\-", "-");
  for (const command of commands) {
    assertStringIncludes(source, `.SS "holdfast ${command.name}"`);
    for (const { long } of optionsOf(command)) assertStringIncludes(source, `\\fB--${long}\\fR`);
  }
  const lines = page.split("\n");
  assertEquals(lines.filter((line) => /^'|[^ -~]/.test(line)), [], "a control line, or what is no ASCII");
  assertEquals((await holdfast(place, "node26", ["man"])).out, page);
});

for (const command of ["man", "mandoc"]) {
  test(`the manual page is one that ${command} has nothing to say of`, ({ path }) => {
    needs(command);
    writeFileSync(path(), manual(commands));
    const args = command === "man" ? ["--warnings", "-l", path()] : ["-T", "lint", "-W", "warning", path()];
    const env = { ...process.env, LC_ALL: "C.UTF-8", MANWIDTH: "80" }; // ASCII has no …
    const { stdout, stderr } = spawnSync(command, args, { encoding: "utf8", env });
    assertEquals(command === "man" ? stderr : stdout, "");
    if (command === "man") assertMatch(stdout, /NAME\n\s+holdfast - one process/);
  });
}

test("holdfast completion is what bash takes, and completes commands, options, and COMMAND", async (place) => {
  const { out } = await holdfast(place, "bun", ["completion", "bash"]);
  writeFileSync(place.path("c.bash"), out);
  const complete = (words: string[]) => {
    const script =
      `set -eu; . ./c.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _holdfast; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const { stdout, stderr } = spawnSync("bash", ["-c", script, "bash", ...words], {
      encoding: "utf8",
      cwd: place.dir,
    });
    assertEquals(stderr, "");
    return stdout.trim().split("\n");
  };
  assertEquals(complete(["holdfast", "sta"]), ["status"]);
  assertEquals(complete(["holdfast", "run", "--no"]), ["--nonblock", "--no-fork", "--nofile"]);
  assertEquals(complete(["holdfast", "completion", ""]), ["-h", "--help", "-V", "--version", "bash", "zsh", "fish"]);
  writeFileSync(place.path("some.lock"), "");
  assertEquals(complete(["holdfast", "run", "-w", "5", "some"]), ["some.lock"]);
  assert(complete(["holdfast", "run", "-w", "5", "some.lock", "--", "bas"]).includes("bash"));
  for (const option of commands.flatMap(optionsOf)) assertStringIncludes(out, `--${option.long}`);
});

for (const shell of ["zsh", "fish"]) {
  test(`holdfast completion has every option for ${shell}`, async (place) => {
    const { out } = await holdfast(place, "bun", ["completion", shell]);
    for (const { long } of commands.flatMap(optionsOf)) {
      assert(out.includes(`--${long}`) || out.includes(`-l ${long}`), long);
    }
  });

  test(`holdfast completion is what ${shell} takes`, async (place) => {
    needs(shell);
    const { out } = await holdfast(place, "bun", ["completion", shell]);
    const { status, stderr } = spawnSync(shell, ["-n"], { input: out, encoding: "utf8" });
    assertEquals([status, stderr], [0, ""]);
  });
}

test("an unknown option, command or shell gets a suggestion where one is near, and ends with 64", async (place) => {
  const cases: [args: string[], message: string][] = [
    [["run", "--lable", "x", "job", "true"], "run: unknown option --lable, did you mean --label?"],
    [["run", "--nonblok", "job", "true"], "run: unknown option --nonblok, did you mean --nonblock?"],
    [["run", "--sig", "job", "true"], "run: unknown option --sig, did you mean --signal-holder?"],
    [["run", "-x", "job", "true"], "run: unknown option -x"],
    [["rnu", "job", "true"], "unknown command rnu, did you mean run?"],
    [["delete"], "unknown command delete"],
    [["--versoin"], "unknown option --versoin, did you mean --version?"],
    [["completion", "tcsh"], "completion: unknown shell tcsh: it takes one of bash, zsh, fish"],
    [["--json", "status", "nightly"], "option --json goes after the command: holdfast status --json"],
    [["-w", "run", "nightly", "true"], "option -w goes after the command: holdfast run -w"],
    [["help", "statsu"], "help: unknown command statsu, did you mean status?"],
    [["run", "\x1b[31m"], "run: it takes a COMMAND to run under '\\u001b[31m'"],
    [["\x1b[31m"], 'unknown command "\\u001b[31m"'],
    [["status"], "status: it takes a LOCK"],
    [[], "it takes a command"],
  ];
  for (const [args, message] of cases) {
    const { code, out, err } = await holdfast(place, "bun", args);
    assertEquals([code, out, err.split("\n")[0]], [64, "", `holdfast: ${message}`]);
  }
});

const options: Option[] = [
  { short: "n", long: "nonblock", help: "" },
  { short: "w", long: "wait", value: "SECONDS", help: "" },
  { long: "journal", value: "[=FILE]", help: "" },
];

test("parse() takes options in every spelling, and with `stop` leaves alone what comes after the first argument", () => {
  const given = (args: string[], stop = false) => {
    const { values, rest } = parse({ options }, args, stop);
    return [{ ...values }, [...rest]];
  };
  assertEquals(given(["-nw5", "a", "--journal"]), [{ nonblock: true, wait: "5", journal: true }, ["a"]]);
  assertEquals(given(["--wait=5", "--journal=f", "a"]), [{ wait: "5", journal: "f" }, ["a"]]);
  assertEquals(
    given(["--journal", "f"]),
    [{ journal: true }, ["f"]],
    "a value that may be left out is no word of its own",
  );
  assertEquals(given(["-w", "-n"]), [{ wait: "-n" }, []]);
  assertEquals(given(["-n", "lock", "-x", "--", "-w"], true), [{ nonblock: true }, ["lock", "-x", "--", "-w"]]);
  assertEquals(given(["-n", "--", "-lock", "-x"], true), [{ nonblock: true }, ["-lock", "-x"]]);
  assertEquals(given(["--", "-n"]), [{}, ["-n"]]);
  for (const wrong of [["-w"], ["--nonblock=1"], ["--wait"], ["-q"]]) {
    let error: unknown;
    try {
      parse({ options }, wrong);
    } catch (thrown) {
      error = thrown;
    }
    assert(error instanceof UsageError, String(wrong));
  }
  try {
    parse({ options }, ["-w", "5", "--help"]);
    assert(false);
  } catch (error) {
    assert(error instanceof Asked && error.what === "help");
  }
});

test("span() and ago() say a time in words", () => {
  const said = [0, 5, 999, 1000, 59_999, 60_000, 61_000, 185_000, 3_600_000, 5_400_000, 90_000_000, 1e9].map(span);
  assertEquals(said, [
    "0 seconds",
    "5 ms",
    "999 ms",
    "1 second",
    "59 seconds",
    "1 minute",
    "1 minute 1 second",
    "3 minutes",
    "1 hour",
    "1 hour 30 minutes",
    "1 day 1 hour",
    "11 days",
  ]);
  assertEquals([age("no time"), ago(undefined), ago("2999-01-01T00:00:00Z")], [undefined, undefined, "in the future"]);
});

test("signalName() knows a signal by name and number", () => {
  assertEquals(["TERM", "sigterm", "15"].map(signalName), ["SIGTERM", "SIGTERM", "SIGTERM"]);
});

test("main() is there to be called, and importing it runs nothing", async () => {
  assertEquals(await main(["--no-such-option"]), 64);
});

test("README.md: every command of the command line works as it stands there", (place) => {
  const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
  const block = [...readme.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, code]) => code)
    .find((code) => code.startsWith("holdfast run")) ?? "";
  const lines = block.trimEnd().split("\n");
  assert(lines.length >= 10);
  writeFileSync(place.path("holdfast"), `#!/bin/sh\nexec ${CLI.bun().join(" ")} "$@"\n`, { mode: 0o755 });
  for (const script of ["backup.sh", "deploy.sh"]) writeFileSync(place.path(script), "#!/bin/sh\n", { mode: 0o755 });
  const env = cliEnv(place.dir, { PATH: `${place.dir}:${process.env.PATH}` });
  for (const line of lines) {
    const { status, stderr } = spawnSync("sh", ["-c", line], {
      cwd: place.dir,
      env,
      encoding: "utf8",
      timeout: 20_000,
    });
    // The doctor may have something to say of the place where the tests are.
    assert(status === 0 || (status === 1 && line.startsWith("holdfast doctor")), `${line}: ${status} ${stderr}`);
  }
});

/** `holdfast doctor`: what this machine and this file system can do. */
import { accessSync, constants, existsSync, realpathSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { Lock, lockDirectory, LockError } from "../../mod.ts";
import { mountOf } from "../mounts.ts";
import { isWindows, system } from "../sys/mod.ts";
import { parse, UsageError } from "./args.ts";
import type { Command } from "./command.ts";
import { judgeCleaners } from "./doctor/cleaners.ts";
import { error, type Finding, ok, warning, worst } from "./doctor/finding.ts";
import { judgeMount } from "./doctor/mounts.ts";
import { selfTest } from "./doctor/self_test.ts";
import { wrap } from "./help.ts";
import { columns, paint, print } from "./output.ts";
import { isPath, lockPath } from "./target.ts";
import { NAME, VERSION } from "./version.ts";
import { printable, shown } from "./words.ts";

const COLOURS = { ok: "green", warning: "yellow", error: "red" } as const;

/** Longer lines are hard to read. */
const WIDEST = 100;

/** Everything that is found for a path. */
function examine(path: string, isDirectory: boolean): Finding[] {
  const findings = [
    ok("runtime", `${NAME} ${VERSION} in ${system().self().runtime} on ${process.platform} ${process.arch}`),
  ];
  const directory = isDirectory || (existsSync(path) && statSync(path).isDirectory()) ? path : dirname(path);
  const there = nearest(directory);
  if (there !== directory && directory !== lockDirectory()) {
    return [...findings, error("directory", `${shown(directory)} does not exist`, `mkdir -p ${shown(directory)}`)];
  }
  if (there !== directory) {
    findings.push(
      ok("directory", `${shown(directory)} is made by the first lock in it; ${shown(there)} is examined instead`),
    );
  }
  const real = realpathSync(there);
  findings.push(judgeMount(mountOf(real, system().mounts() ?? "")), judgeCleaners(real), ...judgeRights(real));
  if (path !== directory) findings.push(...judgeFile(path));
  return [...findings, ...selfTest(real)];
}

/** The nearest directory above that exists. */
function nearest(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : nearest(dirname(path));
}

/** Who may delete files there: a deleted lock file is two locks. */
function judgeRights(directory: string): Finding[] {
  if (isWindows()) return []; // it has access control lists; the mode that a runtime shows is made up
  const { mode, uid } = statSync(directory);
  const own = process.getuid?.();
  const octal = (mode & 0o7777).toString(8).padStart(4, "0");
  const what = `${shown(directory)} has mode ${octal} and belongs to uid ${uid}`;
  const found: Finding[] = [];
  try {
    accessSync(directory, constants.W_OK | constants.X_OK);
  } catch {
    // EACCES or EROFS: the answer that was asked for.
    found.push(
      warning(
        "permissions",
        `${what}, and this user (uid ${own}) may not make files in it`,
        "make the lock files beforehand, or use another directory",
      ),
    );
  }
  const sticky = (mode & 0o1000) !== 0;
  if ((mode & 0o002) !== 0) {
    found.push(warning(
      "permissions",
      sticky
        ? `${what}: anybody may make a lock's file there first, and hold it`
        : `${what}: anybody may delete a lock's file there, and so have two hold the lock`,
      // Never a chmod of /tmp: it is to be as it is.
      sticky
        ? "use a directory that only those who lock may write to, such as the lock directory"
        : `use a directory that only those who lock may write to: chmod o-w ${shown(directory)}, or another`,
    ));
  } else if ((mode & 0o020) !== 0 && !sticky) {
    found.push(
      warning(
        "permissions",
        `${what}: its whole group may delete a lock's file there`,
        `chmod +t ${shown(directory)}, unless the group is trusted`,
      ),
    );
  } else if (uid !== 0 && own !== undefined && uid !== own) {
    found.push(
      warning(
        "permissions",
        `${what}: that user may delete a lock's file there`,
        "use a directory of your own, unless that user is trusted",
      ),
    );
  }
  return found.length > 0 ? found : [ok("permissions", what)];
}

/** The lock file itself. */
function judgeFile(path: string): Finding[] {
  try {
    const { state, reason, holder } = Lock.inspect(path);
    const what = `${shown(path)} is ${state}: ${reason}${holder && state !== "free" ? `; ${holder}` : ""}`;
    return [
      state === "unknown"
        ? warning("lock", what, `find out whether its owner lives; "${NAME} break" removes what it left`)
        : ok("lock", what),
    ];
  } catch (failure) {
    if (!(failure instanceof LockError)) throw failure;
    return [error("lock", failure.message, "a lock file must be a regular file that this user may read")];
  }
}

function forPeople(findings: readonly Finding[], room: number): string {
  const indented = (text: string, indent: string) =>
    wrap(text, Math.max(room - indent.length, 10)).map((line, i) => (i === 0 ? "" : indent) + line).join("\n");
  return findings.map(({ level, about, what, advice }) =>
    `${paint(COLOURS[level], level.padEnd(7))} ${paint("bold", about)}\n  ${indented(printable(what), "  ")}\n` +
    (advice ? `  ${indented(`→ ${printable(advice)}`, "    ")}\n` : "")
  ).join("");
}

/** `holdfast doctor`. */
export const doctor: Command = {
  name: "doctor",
  usage: ["doctor [--json] [PATH|NAME]"],
  summary: "show what this machine and file system can do",
  description: `Shows what can be locked at PATH, a lock file or a directory with a "/" or a "." at its beginning, ` +
    `by the lock NAME, or else in the lock directory: the ` +
    `runtime, the back end that is taken and why, the file system, who deletes files there, the permissions, and ` +
    `whether two processes really exclude each other there. For that it makes one file in the directory, and removes ` +
    `it again.

The exit status is 0 if all is well, 1 if there are warnings, 2 if it cannot lock.`,
  options: [{ long: "json", help: "one JSON document, for programs" }],
  run(args) {
    const { values, rest: [given, ...more] } = parse(this, args);
    if (more.length > 0) throw new UsageError("it takes one PATH at most");
    const path = given === undefined ? lockDirectory() : isPath(given) ? resolve(given) : lockPath(given);
    const findings = examine(path, given === undefined);
    if (values.json) print(JSON.stringify({ path, findings }) + "\n");
    else print(forPeople(findings, Math.min(columns(1), WIDEST)));
    return worst(findings);
  },
};

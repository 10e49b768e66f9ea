/** `holdfast doctor`: what this machine and this file system can do. */
import { realpathSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { lockDirectory } from "../../mod.ts";
import { explain } from "../record/explain.ts";
import { mountOf } from "../sys/mounts.ts";
import { isInexact } from "../sys/bytes.ts";
import { system } from "../sys/mod.ts";
import { printable, shown } from "../sys/printable.ts";
import { SystemError } from "../sys/contract.ts";
import { parse, UsageError } from "./args.ts";
import type { Command } from "./command.ts";
import { judgeCleaners } from "./doctor/cleaners.ts";
import { judgeFile } from "./doctor/file.ts";
import { error, type Finding, ok, warning, worst } from "./doctor/finding.ts";
import { judgeMount } from "./doctor/mounts.ts";
import { judgeRights, mayEnter, mayMakeFiles } from "./doctor/rights.ts";
import { selfTest } from "./doctor/self_test.ts";
import { columns, paint, print, toJson, wrap } from "./output.ts";
import { fullPath, isPath, lockPath } from "./target.ts";
import { NAME, VERSION } from "./version.ts";

const COLOURS = { ok: "green", warning: "yellow", error: "red" } as const;

/** Longer lines are hard to read. */
const WIDEST = 100;

/** Everything that is found for a path. */
function examine(path: string, isLockDirectory: boolean): Finding[] {
  const self = ok("runtime", `${NAME} ${VERSION} in ${system().self().runtime} on ${process.platform} ${process.arch}`);
  try {
    return [self, ...examinePath(path, isLockDirectory)];
  } catch (failure) {
    // Of what is asked for here, a failure of the system is an answer.
    const { code, message } = failure as NodeJS.ErrnoException; // every runtime throws Errors here
    if (!/^E[A-Z0-9]+$/.test(code ?? "")) throw failure; // a fault of ours
    return [self, error("directory", message, "use another directory, or ask as another user")];
  }
}

function examinePath(path: string, isLockDirectory: boolean): Finding[] {
  const directory = isLockDirectory || isDirectory(path) ? path : dirname(path);
  const there = nearest(directory);
  if (there !== directory && directory !== lockDirectory()) {
    return [error("directory", `${shown(directory)} does not exist`, `mkdir -p ${shown(directory)}`)];
  }
  if (!isDirectory(there)) return [error("directory", `${shown(there)} is not a directory`, "use another path")];
  const findings = there === directory
    ? []
    : [ok("directory", `${shown(directory)} is made by the first lock in it; ${shown(there)} is examined instead`)];
  const real = realPath(there);
  if (real === undefined) {
    const what = `${shown(there)} leads to a directory whose name is not UTF-8, and that cannot be examined here`;
    return [warning("directory", what, `"${NAME} run" locks what is in it, by this path`)];
  }
  findings.push(judgeMount(mountOf(real, system().mounts() ?? "")), judgeCleaners(real), ...judgeRights(real));
  if (!mayEnter(real)) return findings; // nothing there can be locked, nor looked at
  const file = path === directory || there !== directory ? undefined : judgeFile(path);
  if (file) findings.push(file.finding);
  // Its own test takes a file of its own, because a lock that others wait for must not be taken for a test.
  const what = "not made: it takes a new file, and none can be made there; the lock file itself can be opened";
  const advice = `"${NAME} run" locks it, where the file system has a kernel lock`;
  if (mayMakeFiles(real) || !file) return [...findings, ...selfTest(real)];
  if (file.finding.level === "error") return findings;
  return [...findings, ...file.usable && system().way ? [warning("self-test", what, advice)] : selfTest(real)];
}

/** Without symlinks; undefined where its name is no text. */
function realPath(path: string): string | undefined {
  try {
    const real = realpathSync(path);
    return isInexact(real) ? undefined : real;
  } catch (error) {
    const { name, code } = error as NodeJS.ErrnoException; // every runtime throws Errors here
    // Of such a name Deno says so; Bun and Node go on and ask for another.
    if (name === "InvalidData" || (code === "ENOENT" && standsThere(path))) return undefined;
    throw error;
  }
}

function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false; // not there, or not to be seen: what that comes from is found on the way to it
  }
}

/** The nearest directory above that exists. */
function nearest(path: string): string {
  return standsThere(path) || dirname(path) === path ? path : nearest(dirname(path));
}

/** Whether something stands there; throws where that may not be seen, and says which directory denies it. */
function standsThere(path: string): boolean {
  const sys = system();
  try {
    return sys.stat(path) !== undefined;
  } catch (failure) {
    throw failure instanceof SystemError ? explain(sys, path, failure) : failure;
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
    `runtime, the back end that is taken and why, the file system, what deletes files there, the permissions, and ` +
    `whether two processes really exclude each other there. For that it makes one file in the directory, and removes ` +
    `it again.

The exit status is 0 if all is well, 1 if there are warnings, 2 if it cannot lock.`,
  options: [{ long: "json", help: "one JSON document, for programs" }],
  run(args) {
    const { values, rest: [given, ...more] } = parse(this, args);
    if (more.length > 0) throw new UsageError("it takes one PATH at most");
    const path = given === undefined ? lockDirectory() : isPath(given) ? fullPath(given) : lockPath(given);
    const findings = examine(path, given === undefined);
    if (values.json) print(toJson({ path, findings }));
    else print(forPeople(findings, Math.min(columns(1), WIDEST)));
    return worst(findings);
  },
};

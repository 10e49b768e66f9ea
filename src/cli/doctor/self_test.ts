/** Two processes and one lock, on the very file system that is asked about. */
import { spawnSync } from "node:child_process";
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { Lock, LockError } from "../../../mod.ts";
import { isWindows, system } from "../../sys/mod.ts";
import { shown } from "../../sys/printable.ts";
import { error, type Finding, ok, warning } from "./finding.ts";

/** In milliseconds; a runtime starts in a tenth of a second, and on a machine in distress in some. */
const PATIENCE = 30_000;

/** How this very program is started once more. */
function ownCommand(): string[] {
  const [, script] = process.argv;
  // A single executable has its script inside.
  if (script.startsWith("/$bunfs/") || script === process.execPath) return [process.execPath];
  if (!process.versions.deno) return [process.execPath, script];
  // By its URL, for a script that came from the network has no path.
  const main = import.meta.url.replace(/\bdoctor\/self_test(\.\w+)$/, "main$1");
  return [process.execPath, "run", "--quiet", "--no-prompt", "-A", main === import.meta.url ? script : main];
}

/** Another process's try: its exit status, and what it said. */
function otherTries(path: string): { status: number | null; said: string } {
  const nothing = isWindows() ? ["cmd", "/c", "exit"] : ["true"];
  const [command, ...args] = [...ownCommand(), "run", "--nonblock", path, ...nothing];
  const { status, stderr, error } = spawnSync(command, args, {
    stdio: ["ignore", "ignore", "pipe"],
    encoding: "utf8",
    timeout: PATIENCE,
  });
  return { status, said: error ? error.message : stderr.trim() };
}

/** Makes a file of its own in the directory, and removes it again. */
export function selfTest(directory: string): Finding[] {
  const path = join(directory, `.holdfast-doctor-${process.pid}-${system().nonce().slice(0, 8)}`);
  const lock = new Lock(path);
  const findings: Finding[] = [];
  try {
    findings.push(...tryBoth(lock, path));
  } catch (failure) {
    if (!(failure instanceof LockError)) throw failure;
    findings.push(
      error(ABOUT, failure.message, "choose a directory that exists, and in which you may make and lock files"),
    );
  } finally {
    findings.push(...tidy(lock, path));
  }
  return findings;
}

const ABOUT = "self-test";

function tryBoth(lock: Lock, path: string): Finding[] {
  if (!lock.tryAcquire()) {
    const what = "a lock on a fresh file is said to be held";
    return [error(ABOUT, what, "this file system has no lock that works: use another")];
  }
  const backEnd = lock.backend === "flock" ? ok("back end", `the kernel lock: ${lock.backendReason}`) : warning(
    "back end",
    `a PID file, because ${lock.backendReason}`,
    'a PID file outlives a crash until its owner is known to be dead, and cannot be shared or given to COMMAND ("run --no-fork" helps); ' +
      "use a directory and a runtime with flock(2)",
  );
  const refused = otherTries(path);
  lock.release();
  const granted = refused.status === 1 ? otherTries(path) : undefined;
  if (refused.status === 0) {
    const what = "a second process got the lock while the first held it";
    return [backEnd, error(ABOUT, what, "no lock works here: use another directory")];
  }
  if (granted?.status !== 0) {
    const { status, said } = granted ?? refused;
    return [backEnd, error(ABOUT, `a second process ended with ${status}: ${said}`, "see what it says")];
  }
  return [backEnd, ok(ABOUT, "a second process was refused while this one held the lock, and got it afterwards")];
}

/** What is wrong here is what the doctor is asked for: it is told, never thrown. */
function tidy(lock: Lock, path: string): Finding[] {
  try {
    if (lock.held) lock.release();
    // Not unless it is there: where nothing could be made, nothing can be removed, and that was said.
    if (existsSync(path)) rmSync(path, { force: true });
    return [];
  } catch (failure) {
    const { message } = failure as Error; // both throw errors only
    return [warning(ABOUT, `what it made could not be removed: ${message}`, `remove ${shown(path)}`)];
  }
}

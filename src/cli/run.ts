/** `holdfast run`: COMMAND runs while the lock is held. */
import { type Lock, LockHeldError, LockLostError, LockTimeoutError } from "../../mod.ts";
import { leaveAll } from "../backend/registry.ts";
import { commandCalls } from "../sys/command.ts";
import { endTogether } from "../sys/mod.ts";
import { shown } from "../sys/printable.ts";
import { number, parse, type Parsed, text, UsageError, whole } from "./args.ts";
import type { Command } from "./command.ts";
import { endAsFirst } from "./first.ts";
import { isExact } from "./launch.ts";
import { isTerminal, say } from "./output.ts";
import { cannotExecute, supervise } from "./supervise.ts";
import { LOCK_HELP, openLock } from "./target.ts";
import { STATUS } from "./version.ts";
import { signalName, span } from "./words.ts";

/** `holdfast run`. */
export const run: Command = {
  name: "run",
  usage: ["run [OPTION…] LOCK [--] COMMAND [ARG…]"],
  summary: "hold LOCK while COMMAND runs",
  description: `Holds LOCK while COMMAND runs, and waits for it first if another has it. ${LOCK_HELP} ` +
    `Options end at LOCK.

COMMAND has the lock itself, as its descriptor 3 (with --no-fork it may be another): if this process is killed, COMMAND still holds it, and no other process ` +
    `gets it before COMMAND has ended. What COMMAND leaves running keeps the lock as well, unless it closes the ` +
    `descriptor; --close does not give it away. TERM, INT, HUP, QUIT, USR1, USR2 and ALRM are passed on to COMMAND, ` +
    `unless the whole process group got them (Ctrl-C, timeout(1), systemd): then COMMAND has them already. Two of a kind less than ` +
    `200 ms apart may be told wrongly; in a systemd unit use --no-fork, or KillMode=mixed. Where there is no kernel lock there is no descriptor ` +
    `to give: COMMAND would then run on without the lock after a "kill -9" of this process (--verbose says so), and ` +
    `--no-fork is the way out, because then there is one process only.

The exit status is COMMAND's, or 128 and the number of the signal that ended it; 126 if it cannot be executed and ` +
    `127 if it is not there. 1, or CODE: the lock is held by another. 64: the arguments are wrong. 66: the lock file ` +
    `cannot be opened, nor made for lack of a right; 73: the disk is full or read-only; 69: that kind of lock cannot ` +
    `be had here; 71: the system refused. ` +
    `75: the lock was lost while COMMAND ran, because its file was replaced, or its file was deleted and COMMAND has the deleted one only, and COMMAND did not fail by itself. COMMAND is told of that only with --signal-on-lost: half a job is often worse than two at once, and only ` +
    `you know.`,
  options: [
    { short: "n", long: "nonblock", help: "fail at once if the lock is held, instead of waiting" },
    {
      short: "w",
      long: "wait",
      value: "SECONDS",
      help: "how long to wait at most, such as 0.5; without it, for ever",
    },
    { short: "s", long: "shared", help: "share the lock with others that share it" },
    {
      short: "E",
      long: "conflict-exit-code",
      value: "CODE",
      help: "the exit status if the lock is held, 0 to 255; 1 by default",
    },
    { long: "local", help: "only if the lock file is on a local disk: not on FUSE, NFS, SMB, 9p and the like" },
    { short: "o", long: "close", help: "do not give the lock to COMMAND; what it leaves running will not hold it" },
    { short: "F", long: "no-fork", help: "become COMMAND instead of starting it, where the runtime can" },
    {
      long: "nofile",
      value: "N",
      help: "the soft limit of open files for COMMAND, which the runtime has raised to the hard one",
    },
    { long: "label", value: "TEXT", help: "text that is shown to others while the lock is held" },
    { long: "signal-holder", value: "[=TERM]", help: "send the holder a signal, once, and wait for it to end" },
    { long: "signal-on-lost", value: "[=TERM]", help: "send COMMAND a signal if the lock is lost" },
    {
      long: "journal",
      value: "[=FILE]",
      help: 'append what happens to FILE, or to LOCK.journal; see "holdfast history"',
    },
    {
      short: "q",
      long: "quiet",
      help: "do not name the holder, report that the last one died, or say what the file system is",
    },
    { long: "verbose", help: "say which lock was taken, how, and after how long" },
  ],
  async run(args) {
    const parsed = parse(this, args, true);
    const { values, rest: [name, ...rest] } = parsed;
    const command = rest[0] === "--" ? rest.slice(1) : rest;
    number(parsed, "wait", 0); // first: a -w without its number takes LOCK for one
    if (name === undefined) throw new UsageError("it takes a LOCK and a COMMAND");
    if (command.length === 0) throw new UsageError(`it takes a COMMAND to run under ${shown(name)}`);
    if (!isExact(command)) throw new UsageError("an argument of COMMAND is not UTF-8, and cannot be passed on here");
    if (values["no-fork"] && values.close) throw new UsageError("--no-fork and --close exclude each other");
    const files = fileLimit(parsed);
    const lost = values["signal-on-lost"] ? signalName(text(parsed, "signal-on-lost") ?? "TERM") : undefined;
    const lock = open(parsed, name);
    const waited = endAsFirst();
    const conflict = await acquire(parsed, lock, name).finally(waited);
    if (conflict !== undefined) return conflict;
    const verbose = (words: string) => void (values.verbose && say(words));
    if (values["no-fork"]) become(lock, command, verbose, files);
    return await around(lock, command, values.close ? undefined : lock.fd, lost, verbose, files);
  },
};

/** The soft limit of open files. Every runtime raises its own at the start, and nothing tells what it was. */
function fileLimit(parsed: Parsed): number | undefined {
  const files = whole(parsed, "nofile", 4, 2 ** 31 - 1); // COMMAND needs the standard streams and the lock
  if (files === undefined) return undefined;
  const calls = commandCalls();
  if (typeof calls === "string") throw new UsageError(`--nofile takes the runtime's FFI, and there is none: ${calls}`);
  const most = calls.mostFiles();
  if (BigInt(files) > most) throw new UsageError(`--nofile: ${files} is above the hard limit, ${most}`);
  return files;
}

function open(parsed: Parsed, name: string): Lock {
  const { journal, shared, quiet, local } = parsed.values;
  return openLock(name, {
    mode: shared ? "shared" : "exclusive",
    label: text(parsed, "label"),
    journal,
    ...(quiet ? { onStale() {} } : {}),
    fileSystem: local ? "local" : quiet ? "any" : "warn",
  });
}

/** The exit status for a lock that is held by another; undefined once it is ours. */
async function acquire(parsed: Parsed, lock: Lock, name: string): Promise<number | undefined> {
  const { values } = parsed;
  const code = whole(parsed, "conflict-exit-code", 0, 255) ?? 1;
  const seconds = number(parsed, "wait", 0);
  const signalHolder = values["signal-holder"] ? signalName(text(parsed, "signal-holder") ?? "TERM") : undefined;
  if (signalHolder && values.nonblock) {
    throw new UsageError("--signal-holder waits: --wait, and not --nonblock, limits it");
  }
  const timeout = values.nonblock ? 0 : seconds === undefined ? Infinity : seconds * 1000;
  const began = performance.now();
  try {
    if (!lock.tryAcquire()) {
      const { showing, whoHeld } = await import("./held.ts"); // most of the time the lock is free
      const wait = lock.acquire({ timeout, ...(signalHolder ? { signalHolder } : {}) });
      const shows = timeout > 0 && !values.quiet && isTerminal(2);
      if (values.verbose && !shows && timeout > 0) say(`waiting for ${shown(name)}, held ${whoHeld(lock)}`);
      await (shows ? showing(lock, name, wait) : wait);
    }
  } catch (error) {
    if (!(error instanceof LockHeldError)) throw error;
    // Other than a time that is up, it says why: such as a holder that could not be signalled.
    const { whoHeld } = await import("./held.ts");
    const why = error instanceof LockTimeoutError ? `${shown(name)} is held ${whoHeld(lock)}` : error.message;
    if (!values.quiet) say(why);
    return code;
  }
  if (values.verbose) {
    const waited = span(performance.now() - began);
    say(`got ${shown(lock.path)} (${values.shared ? "shared" : "exclusive"}) after ${waited}: ${lock.backendReason}`);
  }
  return undefined;
}

/** Becomes COMMAND; comes back if there is no way to. */
function become(lock: Lock, command: readonly string[], verbose: (words: string) => void, files?: number): void {
  const calls = commandCalls();
  if (typeof calls === "string" || (lock.backend === "flock" && lock.fd === undefined)) {
    const why = typeof calls === "string" ? calls : lock.backendReason;
    return verbose(`it is started as a child, because there is no exec here: ${why}`);
  }
  // Where the runtime cannot tell it from those that it was given, it is passed on by its own number.
  let at = lock.fd !== undefined && calls.inherited(lock.fd) ? lock.fd : 3;
  while (at !== lock.fd && calls.inherited(at)) at++;
  const what = lock.fd === undefined ? "a PID file, which names this process" : `its descriptor ${at}`;
  verbose(`becoming ${command.map(shown).join(" ")}; the lock is ${what}`);
  // No exit will come that clears the record. A PID file stays: its process lives on as COMMAND,
  // whose own tries it refuses (isOfThisCommand).
  if (lock.fd !== undefined) leaveAll();
  calls.defaultSignals();
  calls.passOn();
  const exact = calls.exact(command)!; // `!`: isExact() has said so
  const { code } = calls.exec(exact, lock.fd ?? 0, lock.fd === undefined ? 0 : at, files);
  calls.exit(cannotExecute(command[0], code));
}

/** Runs COMMAND under the lock, and releases. */
async function around(
  lock: Lock,
  command: readonly string[],
  fd: number | undefined,
  onLost: NodeJS.Signals | undefined,
  verbose: (words: string) => void,
  files?: number,
): Promise<number> {
  const what = command.map(shown).join(" ");
  const part = fd === undefined ? endTogether() : undefined;
  const then = fd !== undefined
    ? "; the lock is its descriptor 3"
    : part
    ? `; the lock is pid ${process.pid}'s, and ends it with itself`
    : `; it does not get the lock, and after a "kill -9" of pid ${process.pid} would run on without`;
  verbose(`executing ${what}${then}`);
  const began = performance.now();
  const child = supervise(command, fd, files);
  const { signal } = lock;
  let lost = false, signalled = false;
  const onLoss = () => {
    lost = true;
    const over = child.over();
    if (onLost && !over) {
      signalled = true;
      child.signal(onLost);
    }
    tell(signal.reason, over ? "COMMAND had ended by then" : onLost ? `COMMAND is sent ${onLost}` : "COMMAND runs on");
  };
  if (signal.aborted) onLoss();
  else signal.addEventListener("abort", onLoss);
  const end = await child.ended;
  part?.();
  lock.verify(); // reports a loss for which there was no time yet
  signal.removeEventListener("abort", onLoss);
  const took = span(performance.now() - began);
  let made = false;
  try {
    lock.release();
  } catch (error) {
    if (!(error instanceof LockLostError)) throw error;
    // We had made it again, and held that. What COMMAND was given is the deleted one; and what was deleted twice
    // before we looked has been seen once.
    made = !lost;
    lost = true;
  } finally {
    child.leaveSignals();
  }
  let status = typeof end === "number" ? end : cannotExecute(command[0], end.why);
  verbose(`it ended with ${status} after ${took}`);
  if (made) {
    say(
      `${shown(lock.path)} was deleted while COMMAND ran, and made again. Whether another had the lock in between ` +
        "cannot be told; what COMMAND has left running is without it. Look for what deletes files there (a tmp cleaner?)",
    );
  }
  if (lost && (status === 0 || signalled)) status = STATUS.lost;
  return status;
}

const tell = (reason: unknown, then: string) =>
  say(`${reason instanceof Error ? reason.message : String(reason)}. ${then}`);

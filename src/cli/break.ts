/** `holdfast break`: for locks that only a person can judge. It shows what is known, asks, and only then acts. */
import { Lock, type LockHolder, type LockStatus } from "../../mod.ts";
import type { Entry } from "../backend/contract.ts";
import { pidPath } from "../backend/entry.ts";
import { breakPidFile, pidFiles } from "../backend/break.ts";
import { describe } from "../inspect/describe.ts";
import { whyNotToSignal } from "../hold/handover.ts";
import { isUncertain } from "../inspect/status.ts";
import { system } from "../sys/mod.ts";
import { printable, shown } from "../sys/printable.ts";
import { SystemError } from "../sys/contract.ts";
import { parse, type Parsed, text, UsageError } from "./args.ts";
import type { Command } from "./command.ts";
import { byWhom } from "./held.ts";
import { fileSystemOf, howToEnd, howToGoOn, isBareNumber, isStopped, keepersOf, named, proofOf } from "./keepers.ts";
import { isatty, print, say } from "./output.ts";
import { LOCK_HELP, lockPath } from "./target.ts";
import { NAME } from "./version.ts";
import { ago, signalName, stateOf } from "./words.ts";

/** The exit status where nothing was done that should have been: refused, or not confirmed. */
const REFUSED = 1;

const about = (holder: LockHolder | undefined): string => {
  const since = ago(holder?.acquiredAt);
  return holder ? `${holder}${since ? ` (${since})` : ""}` : "an owner that cannot be named";
};

/** Asks the person at the terminal; with --yes there is no need to. */
async function confirmed({ values }: Parsed, question: string): Promise<boolean> {
  if (values.yes) return true;
  if (!isatty(0)) throw new UsageError("it asks on the terminal, and there is none: --yes answers for scripts");
  const { createInterface } = await import("node:readline/promises");
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(?:es)?$/i.test((await terminal.question(`${question} [y/N] `)).trim());
  } finally {
    terminal.close();
  }
}

/** Signals the holder, if it is verified to be that. */
async function signal(parsed: Parsed, path: string, status: LockStatus, name: NodeJS.Signals): Promise<number> {
  const refuse = (holder: LockHolder | undefined, why: string) => {
    say(`no ${name} is sent to ${about(holder)}: ${why}`);
    return REFUSED;
  };
  if (isUncertain(status)) return refuse(undefined, `its holder, if there is one, cannot be seen from here`);
  if (status.state === "free" || status.state === "stale") {
    print("there is no process to be signalled\n");
    return 0;
  }
  if (status.state !== "held") return refuse(status.holder, `whether it holds the lock is ${status.state}`);
  const { holder, reason } = status;
  const why = whyNotToSignal(system(), {
    holder,
    fileSystem: fileSystemOf(status),
    doubt: holder ? undefined : reason,
    proof: holder && proofOf(status, holder),
  });
  if (why !== undefined || !holder) return refuse(holder, why ?? "no process can be named");
  if (!await confirmed(parsed, `Send ${name} to pid ${holder.pid}?`)) return REFUSED;
  const keepers = keepersOf(status); // while they can be seen; it may take a second
  // And a person's time to answer: the holder must be the same, in the same acquisition, at the very end.
  const now = Lock.inspect(path);
  if (now.state !== "held" || now.holder?.nonce !== holder.nonce) {
    return refuse(holder, "it has released the lock since");
  }
  const whyNow = whyNotToSignal(system(), { holder, fileSystem: fileSystemOf(now), proof: proofOf(now, holder) });
  if (whyNow !== undefined) return refuse(holder, whyNow);
  const answer = system().signal(holder.pid, name);
  if (answer instanceof SystemError) return refuse(holder, answer.message);
  if (answer === "gone") return refuse(holder, "it has ended since");
  const others = keepers.filter(({ pid }) => pid !== holder.pid);
  const free = others.length > 0
    ? `the lock is free when it has released it or ended, and each of these too: ${named(others)}`
    : "the lock is free as soon as it releases it or ends";
  // A stopped process takes these two at once, and all others when it goes on (signal(7)).
  const waits = isStopped(holder.pid) && !["SIGKILL", "SIGCONT"].includes(name);
  const how = `; it is stopped, and does nothing until "kill -CONT ${holder.pid}"`;
  print(`${name} was sent to pid ${holder.pid}${waits ? how : ""}; ${free}\n`);
  return 0;
}

/** What frees a lock that is held: it lasts until the last process that has its open file has closed it or ended. */
function whatFrees(status: LockStatus): string {
  const { path, holder } = status;
  const keepers = keepersOf(status);
  const proof = holder?.nonce === undefined ? undefined : proofOf(status, holder);
  const isOurs = holder !== undefined && proof === true;
  if (keepers.length > 1) {
    const how = isOurs
      ? [`--signal asks pid ${holder.pid} to go ("${NAME} run" passes that on to its COMMAND)`, howToGoOn(keepers)]
        .filter(Boolean).join("; ")
      : howToEnd(keepers, path);
    return `it is free when each of these has released it or ended: ${named(keepers)}. ${how}`;
  }
  if (keepers.length === 0) return "no process of this machine can be named as its holder";
  if (typeof proof === "string") {
    return `pid ${holder?.pid} is named, and that it has the lock is not proven: ${printable(proof)}`;
  }
  if (!isOurs) {
    const who = isBareNumber(status)
      ? `the number in ${shown(pidPath(path))}, which may be another program's, is that of`
      : "it is held by";
    return `${who} ${named(keepers)}; ${howToEnd(keepers, path)}`;
  }
  return ["--signal asks its holder to go", howToGoOn(keepers)].filter(Boolean).join("; ");
}

/** Removes the PID file, whose owner, with the takeovers that are under way, the person declares dead. */
async function remove(parsed: Parsed, path: string, entries: readonly Entry[]): Promise<number> {
  for (const { holder, owner } of entries) {
    print(
      `PID file of ${about(holder)}: ${owner.state === "dead" ? "dead" : "it may be alive"}, because ${
        printable(owner.reason)
      }\n`,
    );
  }
  const doubtful = entries.filter(({ owner }) => owner.state === "unknown");
  const question = doubtful.length > 0
    ? "If it is alive, two will hold the lock. Is it dead, and is its PID file to be removed?"
    : "Is the PID file to be removed?";
  if (!await confirmed(parsed, question)) return REFUSED;
  // By nonce: what was taken since is another's, and is not declared anything.
  const outcome = breakPidFile(path, new Set(doubtful.map(({ nonce }) => nonce)));
  if (outcome === "removed" || outcome === "gone") {
    print(outcome === "removed" ? "the PID file is removed\n" : "the PID file was removed by another meanwhile\n");
    return 0;
  }
  const { holder, doubt } = describe(system(), path, outcome);
  say(
    `the PID file stays: it is held by ${about(holder)}${doubt ? `; ${doubt}` : ""}`,
  );
  return REFUSED;
}

/** `holdfast break`. */
export const breaks: Command = {
  name: "break",
  usage: ["break [--yes] [--signal[=TERM]] LOCK"],
  summary: "remove a PID file whose owner is dead, or signal the holder",
  description: `For a lock that only a person can judge: shows what is known, asks, and then removes the PID file ` +
    `of an owner that is dead, or that may be alive on another host or in another container and that you declare ` +
    `dead. ${LOCK_HELP}

It is removed by taking it over, never by deleting it: a process that took the lock in the meantime keeps it. The lock ` +
    `file itself is never deleted, and the kernel's lock cannot be broken, for it ends with its holder. An owner that ` +
    `is known to be alive is left alone; --signal asks it to go, if it is verified to be the holder, and yours.

The exit status is 0 if that was done or there was nothing to do, and 1 if it was refused or not confirmed.`,
  options: [
    { short: "y", long: "yes", help: "do not ask: the answer is yes; for scripts, which have no terminal" },
    { long: "signal", value: "[=TERM]", help: "send the verified holder a signal, and remove nothing" },
  ],
  async run(args) {
    const parsed = parse(this, args);
    const { values, rest: [given, ...more] } = parsed;
    if (given === undefined || more.length > 0) throw new UsageError("it takes one LOCK");
    const name = values.signal ? signalName(text(parsed, "signal") ?? "TERM") : undefined;
    const path = lockPath(given);
    const status = Lock.inspect(path);
    const { state, reason } = status;
    print(
      `${shown(path)} is ${stateOf(status)}${state === "held" ? ` ${printable(byWhom(status))}` : ""}: ${
        printable(reason)
      }\n`,
    );
    if (name) return await signal(parsed, path, status, name);
    if (state === "held") {
      say(`it is left alone: ${whatFrees(status)}`);
      return REFUSED;
    }
    const entries = pidFiles(path);
    if (entries.length > 0) return await remove(parsed, path, entries);
    if (state !== "unknown") {
      print("there is nothing to remove\n");
      return 0;
    }
    say("it has no PID file, and nothing else can be removed: the kernel's lock ends with its holder");
    return REFUSED;
  },
};

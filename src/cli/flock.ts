/**
 * `holdfast flock`: flock(1) of util-linux, with its options, messages and exit
 * statuses. The lock is the same lock. Where it differs: docs/flock.md.
 */
import type { ByteString } from "../sys/bytes.ts";
import { commandCalls } from "../sys/command.ts";
import type { Command, Option } from "./command.ts";
import { become, run } from "./flock/launch.ts";
import { type Answer, EX_UNAVAILABLE, EX_USAGE, type Settings, settings } from "./flock/settings.ts";
import { take } from "./flock/take.ts";
import { sayRaw } from "./output.ts";
import { variable } from "./program.ts";
import { VERSION } from "./version.ts";

const usage = [
  "flock [options] <file>|<directory> <command> [<argument>...]",
  "flock [options] <file>|<directory> -c <command>",
  "flock [options] <file descriptor number>",
] as const;

const options: readonly Option[] = [
  { short: "s", long: "shared", help: "take a shared lock" },
  { short: "x", long: "exclusive", help: "take an exclusive lock, which is the default (also -e)" },
  { short: "u", long: "unlock", help: "give a lock up" },
  { short: "n", long: "nonblock", help: "fail if the lock is held, do not wait (also --nb)" },
  { short: "w", long: "timeout", value: "secs", help: "how long to wait at most; fractions count (also --wait)" },
  { short: "E", long: "conflict-exit-code", value: "number", help: "the exit status when the lock is held (1)" },
  { short: "o", long: "close", help: "keep the lock's descriptor from the command" },
  { short: "c", long: "command", value: "command", help: "give a single string to the shell (after the file)" },
  { short: "F", long: "no-fork", help: "become the command instead of starting it" },
  { long: "fcntl", help: "lock with fcntl(F_OFD_SETLK) instead of flock(); Linux" },
  { long: "start", value: "offset", help: "first byte to lock (implies --fcntl)" },
  { long: "length", value: "number", help: "how many bytes to lock (implies --fcntl)" },
  { long: "verbose", help: "say how long it took, or why it failed" },
  { short: "h", long: "help", help: "show this" },
  { short: "V", long: "version", help: "show the version" },
];

const description = "Holds a lock on a file while a command runs, or locks a descriptor of the calling shell. " +
  "Takes flock(1)'s options and gives its exit statuses.";

function help(): string {
  const lines = options.map(({ short, long, value, help }) => {
    const names = `${short ? `-${short},` : "   "} --${long}${value ? ` <${value}>` : ""}`;
    return ` ${names.padEnd(35)} ${help}`;
  });
  return ["", "Usage:", ...usage.map((line) => ` ${line}`), "", description, "", "Options:", ...lines, ""].join("\n");
}

/** Runs it. Everything is written through the C library: at once, byte for byte, its failure known. */
function main(args: readonly string[]): number {
  const calls = commandCalls();
  if (typeof calls === "string") {
    // The casts: only what stands for an option is read, and that is ASCII.
    const asked = settings(args as readonly ByteString[], undefined);
    if ("show" in asked) {
      console.log(asked.show === "help" ? help() : `flock from holdfast ${VERSION}`);
      return 0;
    }
    sayRaw(`flock: it takes flock(2) through the runtime's FFI, and there is none: ${calls}\n`);
    return EX_UNAVAILABLE;
  }
  calls.defaultSignals();
  let lost: string | undefined; // why standard output could not be written
  let unsaid = false; // standard error could not
  const print = (text: string) => {
    const failure = calls.write(1, `${text}\n`);
    lost ??= failure?.message;
  };
  const tell = (text: string) => {
    unsaid = calls.write(2, `${text}\n`) !== undefined || unsaid;
  };
  const say = (text: string) => tell(`flock: ${text}`);
  /** The status, unless what had to be said was lost. */
  const end = (status: number): number => {
    if (lost !== undefined) say(`write error: ${lost}`);
    return lost !== undefined || unsaid ? 1 : status;
  };

  const answer = (answer: Answer): number => {
    if ("show" in answer) {
      print(answer.show === "help" ? help() : `flock from holdfast ${VERSION}`);
      return end(0);
    }
    if (answer.complaint !== "") say(answer.complaint);
    if (answer.tryHelp) tell("Try 'flock --help' for more information.");
    return end(EX_USAGE);
  };

  const exact = calls.exact(args);
  const asked: Settings | Answer = exact
    ? settings(exact, variable(calls, "SHELL"))
    : { complaint: "an argument is not UTF-8, and its bytes are not known here" };
  if (!("target" in asked)) return answer(asked);

  const { target, verbose, close, fork } = asked;
  const taken = take(calls, asked, () => performance.now());
  if ("status" in taken) {
    const message = taken.message ?? (verbose ? taken.verbose : undefined);
    if (message !== undefined) say(message);
    return end(taken.status);
  }
  if (verbose) print(`flock: getting lock took ${taken.took.toFixed(6)} seconds`);
  if (typeof target === "number") return end(0);
  if (verbose) print(`flock: executing ${target.command[0]}`);
  if (!fork) return become(calls, target.command, taken.fd, say);
  const { status, message } = run(calls, target.command, taken.fd, close);
  if (message !== undefined) calls.write(2, `flock: ${message}\n`); // the child would have written it, and no error would show its loss
  // At once: as they end in order, Bun and Node put the terminal back to how they found it, and undo `stty -echo`.
  return calls.exit(end(status));
}

/** The command. */
export const flock: Command = {
  name: "flock",
  usage,
  summary: "flock(1), on every system that this runs on",
  description,
  options,
  run: main,
};

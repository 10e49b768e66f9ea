/** What flock(1)'s arguments ask for, checked in its order and complained of in its words. */
import type { ByteString } from "../../sys/bytes.ts";
import type { Range } from "../../sys/command.ts";
import { getopt, type Known } from "./getopt.ts";
import { integer, type NoNumber, seconds, size } from "./numbers.ts";

/** <sysexits.h>. */
export const EX_USAGE = 64, EX_DATAERR = 65, EX_NOINPUT = 66, EX_UNAVAILABLE = 69, EX_OSERR = 71, EX_CANTCREAT = 73;

/** Everything that the arguments say. */
export interface Settings {
  readonly mode: "shared" | "exclusive" | "unlock";
  /** One try, whatever the timeout. */
  readonly nonblock: boolean;
  /** In seconds, as given; undefined: for as long as it takes. */
  readonly timeout: number | undefined;
  readonly conflict: number;
  readonly close: boolean;
  readonly fork: boolean;
  readonly verbose: boolean;
  /** The bytes to lock through `fcntl(2)`; undefined for `flock(2)`. */
  readonly range: Range | undefined;
  /** A descriptor, or a file with the command to run. */
  readonly target: number | { readonly file: ByteString; readonly command: readonly ByteString[] };
}

/** What is wrong with the arguments. */
interface Complaint {
  readonly complaint: string;
  readonly tryHelp?: boolean;
}

/** What is to be said instead of locking. */
export type Answer = Complaint | { readonly show: "help" | "version" };

// In the order of util-linux, in which the possibilities of an ambiguous name are told.
const KNOWN = [
  { key: "shared", letters: "s", names: ["shared"] },
  { key: "exclusive", letters: "xe", names: ["exclusive"] },
  { key: "unlock", letters: "u", names: ["unlock"] },
  { key: "nonblock", letters: "n", names: ["nonblocking", "nb"] }, // `--nonblock` is short for the first
  { key: "timeout", letters: "w", names: ["timeout", "wait"], value: true },
  { key: "conflict", letters: "E", names: ["conflict-exit-code"], value: true },
  { key: "close", letters: "o", names: ["close"] },
  { key: "no-fork", letters: "F", names: ["no-fork"] },
  { key: "verbose", names: ["verbose"] },
  { key: "fcntl", names: ["fcntl"] },
  { key: "start", names: ["start"], value: true },
  { key: "length", names: ["length"], value: true },
  { key: "help", letters: "h", names: ["help"] },
  { key: "version", letters: "V", names: ["version"] },
  { key: "question", letters: "?", names: [] }, // known to it, and answered with nothing but the hint
] as const satisfies readonly Known<string>[];

const wrong = (what: string, text: string, why: NoNumber): Complaint => ({
  complaint: `${what}: '${text}'${why === "range" ? ": Numerical result out of range" : ""}`,
});

/** Reads them. `shell`: the user's, for `-c`. */
export function settings(args: readonly ByteString[], shell: ByteString | undefined): Settings | Answer {
  if (args.length === 0) return { complaint: "not enough arguments", tryHelp: true };
  const { options, rest, complaint } = getopt(KNOWN, args);
  const chosen = {
    mode: "exclusive" as Settings["mode"], // as: else it would be a string
    timeout: undefined as number | undefined, // as: it is set below
    nonblock: false,
    conflict: 1,
    close: false,
    fork: true,
    verbose: false,
    range: undefined as Range | undefined, // as: it is set below
  };
  for (const [key, text] of options) {
    switch (key) {
      case "shared":
      case "exclusive":
      case "unlock":
        chosen.mode = key;
        break;
      case "nonblock":
        chosen.nonblock = true;
        break;
      case "timeout": {
        const number = seconds(text);
        if (typeof number === "string") return wrong("invalid timeout value", text, number);
        chosen.timeout = number;
        break;
      }
      case "conflict": {
        const number = integer(text);
        if (typeof number === "string") return wrong("invalid exit code", text, number);
        if (number < 0 || number > 255) return { complaint: "exit code out of range (expected 0 to 255)" };
        chosen.conflict = number;
        break;
      }
      case "close":
        chosen.close = true;
        break;
      case "no-fork":
        chosen.fork = false;
        break;
      case "verbose":
        chosen.verbose = true;
        break;
      case "fcntl":
        chosen.range ??= { start: 0, length: 0 };
        break;
      case "start":
      case "length": {
        const number = size(text);
        if (typeof number === "string") return wrong(`invalid ${key}`, text, number);
        chosen.range = { start: 0, length: 0, ...chosen.range, [key]: number };
        break;
      }
      case "help":
      case "version":
        return { show: key };
      case "question":
        return { complaint: "", tryHelp: true };
    }
  }
  if (complaint !== undefined) return { complaint, tryHelp: true };
  if (!chosen.fork && chosen.close) return { complaint: "the --no-fork and --close options are incompatible" };
  const target = targetOf(rest, shell);
  if (typeof target === "object" && "complaint" in target) return target;
  return { ...chosen, target };
}

function targetOf(rest: readonly ByteString[], shell: ByteString | undefined): Settings["target"] | Complaint {
  if (rest.length === 0) return { complaint: "requires file descriptor, file or directory" };
  const [file, ...command] = rest;
  if (command.length === 0) {
    const fd = integer(file);
    return typeof fd === "string" ? wrong("bad file descriptor", file, fd) : fd;
  }
  if (command[0] !== "-c" && command[0] !== "--command") return { file, command };
  if (command.length !== 2) return { complaint: `${command[0]} requires exactly one command argument` };
  return { file, command: [shell || "/bin/sh", "-c", command[1]] };
}

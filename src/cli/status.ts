/** `holdfast status` and `holdfast list`: show the holder of each lock, and take none. */
import { existsSync, statSync } from "node:fs";
import { basename } from "node:path";
import { Lock, lockDirectory, LockError, type LockStatus, scan } from "../../mod.ts";
import { FREE } from "../inspect/inspect.ts";
import { unnamed } from "../record/messages.ts";
import { isUncertain } from "../inspect/status.ts";
import { printable, shown } from "../sys/printable.ts";
import { number, parse, type Parsed, UsageError } from "./args.ts";
import type { Command, Option } from "./command.ts";
import { howToSettle } from "./held.ts";
import { holdersHere, howToGoOn, type Keeper, named } from "./keepers.ts";
import { columns, isTerminal, paint, print, toJson } from "./output.ts";
import { type Column, table } from "./table.ts";
import { fullPath, LOCK_HELP, lockName, lockPath, whatIsMissing, whyMissing } from "./target.ts";
import { ago, stateOf } from "./words.ts";

/** The exit status for a state: the worst of many counts. */
const STATES = ["free", "held", "stale", "unknown"] as const satisfies LockStatus["state"][];

/** What a state counts for: one that is not certain as much as one that is not known. */
const rankOf = (status: LockStatus): number => STATES.indexOf(isUncertain(status) ? "unknown" : status.state);

const COLOURS = { free: "green", held: "yellow", stale: "magenta", unknown: "red" } as const;

const OPTIONS: readonly Option[] = [
  { long: "json", help: "one JSON document, for programs; with --watch, one a line at every change" },
  {
    long: "watch",
    value: "[=SECONDS]",
    help: "stay, and look again every 2 seconds or every SECONDS; a pipe gets the changes only",
  },
];

const STATUSES = "The exit status is 0 if every lock is free, 1 if one is held, 2 if the last holder of one died " +
  "without releasing it (stale: it is free), 3 if the owner of one cannot be judged from here, or a holder of it would " +
  'not be seen from here (free? and stale?: in a container, for one; "complete" is false then); the highest of all.';

/** Shorter watches would only take the processor away from the processes that are watched. */
const LEAST_PAUSE = 0.1;

/** What a lock is called in what is shown. */
type Naming = (path: string) => string;

const columnsBy = (naming: Naming): readonly Column<LockStatus>[] => [
  { title: "STATE", cell: stateOf, style: (status) => COLOURS[STATES[rankOf(status)]] },
  { title: "LOCK", cell: ({ path }) => shown(naming(path)), style: () => "bold" },
  { title: "PID", cell: pids, alone: "pid " },
  { title: "SINCE", cell: ({ holder }) => ago(holder?.acquiredAt) ?? "" },
  { title: "WAITING", cell: ({ waiters }) => waiters ? String(waiters) : "", alone: "waiting: " },
  { title: "LABEL", cell: ({ holder }) => holder?.label ? printable(holder.label) : "" },
  { title: "COMMAND", cell: ({ holder }) => holder?.command ? printable(holder.command) : "" },
];

/** The number of the holder's process, and how many more there are; `†` where it died. */
function pids(status: LockStatus): string {
  const { state, holder, holders } = status;
  if (!holder) return "";
  const mark = state === "stale"
    ? "†"
    : keepers(status).some(({ pid, stopped }) => stopped && pid === holder.pid)
    ? " stopped"
    : "";
  return `${holder.pid}${mark}${holders.length > 1 ? ` +${holders.length - 1}` : ""}`;
}

/** Looked for once, for a table asks for each cell several times. */
const found = new WeakMap<LockStatus, readonly Keeper[]>();

function keepers(status: LockStatus): readonly Keeper[] {
  const known = found.get(status) ?? holdersHere(status);
  found.set(status, known);
  return known;
}

/** Remarks on holders that hold it together, are stopped, or cannot be named. */
function aboutHolders(status: LockStatus): string[] {
  const all = keepers(status);
  const goOn = howToGoOn(all);
  const { state, unread, reason } = status;
  return [
    ...(state === "held" && unread ? [`it is held by ${unnamed(status)}: ${printable(reason)}`] : []),
    ...(all.length > 1 ? [`it is free when each of these has released it or ended: ${named(all)}`] : []),
    ...(goOn ? [`its holder is stopped, and keeps it: ${goOn}`] : []),
  ];
}

/** A lock's status; what cannot be read is unknown, and no reason to say nothing of the others. */
function look(path: string): LockStatus {
  try {
    return Lock.inspect(path);
  } catch (error) {
    if (!(error instanceof LockError)) throw error;
    // Who asked for what stands beside it already.
    const reason = error.message.replace(/^Cannot inspect "(?:[^"\\]|\\.)*": /, "");
    return { path, state: "unknown", complete: false, holders: [], reason };
  }
}

/** All that is known, for people. */
function forPeople(statuses: readonly LockStatus[], naming: Naming, room: number, stays: boolean): string {
  const doubts = statuses.filter((status) => STATES[rankOf(status)] === "unknown").map((status) =>
    `${paint("red", stateOf(status))}: ${shown(naming(status.path))}: ${printable(status.reason)}${
      howToSettle(status)
    }\n`
  );
  // "free" alone would calm a user that has mistyped the name.
  const missing = statuses.filter(({ path, state, backend }) => state === "free" && !backend && !existsSync(path))
    .map(({ path }) => `${shown(naming(path))}: there is no ${whatIsMissing(path)}: ${whyMissing(path)}\n`);
  // More than "free" is to be known: it may not be read, or another program's PID stands in it.
  const remarks = statuses.filter(({ state, complete, reason }) =>
    state === "free" && complete && reason.startsWith(`${FREE};`)
  )
    .map(({ path, reason }) => `${shown(naming(path))}: ${printable(reason)}\n`);
  const held = statuses.flatMap((status) =>
    aboutHolders(status).map((words) => `${shown(naming(status.path))}: ${words}\n`)
  );
  const notes = stays ? [] : [...missing, ...remarks, ...held];
  return table(statuses, columnsBy(naming), room) + doubts.join("") + notes.join("");
}

/** Shows once, or stays and shows what changes. Returns the exit status. */
async function show(
  parsed: Parsed,
  naming: Naming,
  empty: string,
  collect: () => readonly LockStatus[],
): Promise<number> {
  const { json, watch } = parsed.values;
  const pause = (number(parsed, "watch", LEAST_PAUSE, 86_400) ?? 2) * 1000;
  const once = (statuses: readonly LockStatus[]) =>
    json ? toJson(statuses) : statuses.length === 0 ? empty : forPeople(statuses, naming, columns(1), !!watch);
  if (!watch) {
    const statuses = collect();
    print(once(statuses));
    return Math.max(0, ...statuses.map(rankOf));
  }
  let before = new Map<string, string>(), first = true;
  for (;;) { // until a signal, or the end of the pipe
    const statuses = collect();
    const now = new Map(statuses.map((each) => [each.path, JSON.stringify(each)]));
    const changed = statuses.filter(({ path }) => now.get(path) !== before.get(path));
    const gone = [...before.keys()].filter((path) => !now.has(path));
    if (isTerminal(1) && !json) print(`\x1b[H\x1b[J${once(statuses)}`);
    else if (first || changed.length + gone.length > 0) {
      if (json || first) print(once(statuses));
      else {print(
          changed.map((each) => line(each, naming)).join("") +
            gone.map((path) => `gone  ${shown(naming(path))}\n`).join(""),
        );}
    }
    before = now;
    first = false;
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

/** One change, in a line. */
const line = (status: LockStatus, naming: Naming): string =>
  columnsBy(naming).map(({ cell, alone = "" }) => cell(status) && alone + cell(status)).filter((each) => each !== "")
    .join("  ") +
  "\n";

/** `holdfast status`. */
export const status: Command = {
  name: "status",
  usage: ["status [OPTION…] LOCK…"],
  summary: "show who holds each LOCK",
  description: `Shows who holds each LOCK, since when, and with which command, without ever taking it. ${LOCK_HELP}

${STATUSES}

† marks a process that died; +1, that another process holds the lock too, as the COMMAND of "holdfast run" does if that was killed; stopped, one that ` +
    `does nothing until a SIGCONT.`,
  options: OPTIONS,
  async run(args) {
    const parsed = parse(this, args);
    if (parsed.rest.length === 0) throw new UsageError("it takes a LOCK");
    const paths = parsed.rest.map(lockPath);
    return await show(parsed, lockName, "", () => paths.map(look));
  },
};

/** Nothing is there. What may not be looked at may be. */
function isMissing(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false }) === undefined;
  } catch {
    return false; // EACCES and the like: the listing says so
  }
}

/** `holdfast list`. */
export const list: Command = {
  name: "list",
  usage: ["list [OPTION…] [DIR]"],
  summary: "show all locks of a directory",
  description: "Shows every lock in DIR, or in the lock directory: $HOLDFAST_DIR; as root /var/lib/holdfast; else " +
    `$XDG_STATE_HOME/holdfast or ~/.local/state/holdfast. A lock that is free is shown if its name ends in ".lock".

${STATUSES}`,
  options: OPTIONS,
  async run(args) {
    const parsed = parse(this, args);
    const { rest: [given, ...more] } = parsed;
    if (more.length > 0) throw new UsageError("it takes one DIR at most");
    const directory = given === undefined ? lockDirectory() : fullPath(given);
    // The lock directory is made by the first lock in it.
    const missing = given === undefined && isMissing(directory);
    const naming = given === undefined ? lockName : (path: string) => basename(path);
    return await show(
      parsed,
      naming,
      `there is no lock in ${shown(directory)}\n`,
      () => missing ? [] : scan(directory),
    );
  },
};

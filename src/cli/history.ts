/** `holdfast history`: what a lock's journal tells. */
import { existsSync } from "node:fs";
import { pidPath } from "../backend/entry.ts";
import { history as events, type LockEvent } from "../journal.ts";
import { printable, shown } from "../sys/printable.ts";
import { parse, text, UsageError, whole } from "./args.ts";
import type { Command } from "./command.ts";
import { columns, paint, print, say, toJson } from "./output.ts";
import { type Column, table } from "./table.ts";
import { checked, LOCK_HELP, lockPath, whatIsMissing, whyMissing } from "./target.ts";
import { holdsNow, unended } from "./unended.ts";
import { ago, span } from "./words.ts";

const COLOURS = { acquired: "green", released: "cyan", waiting: "yellow", stale: "magenta", lost: "red" } as const;

/** `unended`: what is to be said of those that have no end. */
const columnsBy = (unended: ReadonlyMap<LockEvent, string>): readonly Column<LockEvent>[] => [
  { title: "AT", cell: ({ at }) => printable(at) },
  { title: "EVENT", cell: ({ event }) => event, style: ({ event }) => COLOURS[event] },
  {
    title: "PID",
    cell: ({ pid, event, holder }) => String(event === "stale" && holder ? holder.pid : pid),
    alone: "pid ",
  },
  { title: "WAITED", cell: ({ waited }) => waited === undefined ? "" : span(waited), alone: "waited " },
  {
    title: "HELD",
    cell: (event) => event.held === undefined ? unended.get(event) ?? "" : span(event.held),
    alone: "held ",
  },
  { title: "LABEL", cell: ({ label }) => label ? printable(label) : "" },
  {
    title: "COMMAND",
    cell: ({ command, event, holder }) => printable((event === "stale" ? holder?.command : command) ?? ""),
  },
];

/** What all of it comes to. */
interface Summary {
  /** How often it was acquired. */
  readonly runs: number;
  /** How often the next holder found that the last one had died without releasing. */
  readonly crashes: number;
  /** How often it was lost while it was held. */
  readonly lost: number;
  /** Acquisitions without an end, whose process has the lock no longer: it died, and no holder has come since to report it. */
  readonly unreleased: readonly LockEvent[];
  readonly longestWait?: LockEvent;
  readonly longestHold?: LockEvent;
}

/** The event for which a figure is the largest. */
function longest(all: readonly LockEvent[], figure: "waited" | "held"): LockEvent | undefined {
  return all.reduce<LockEvent | undefined>(
    (best, each) => (each[figure] ?? -1) > (best?.[figure] ?? -1) ? each : best,
    undefined,
  );
}

function summarise(all: readonly LockEvent[], unreleased: readonly LockEvent[]): Summary {
  const count = (event: LockEvent["event"]) => all.filter((each) => each.event === event).length;
  return {
    runs: count("acquired"),
    crashes: count("stale"),
    lost: count("lost"),
    unreleased,
    longestWait: longest(all, "waited"),
    longestHold: longest(all, "held"),
  };
}

function forPeople({ runs, crashes, lost, unreleased, longestWait, longestHold }: Summary): string {
  const who = ({ at, pid, command }: LockEvent) =>
    `pid ${pid}${command ? ` (${printable(command)})` : ""}, ${ago(at) ?? printable(at)}`;
  const last = unreleased.at(-1);
  const lines = [
    `runs           ${runs}`,
    `crashes        ${paint(crashes > 0 ? "red" : "green", String(crashes))}`,
    `lost           ${paint(lost > 0 ? "red" : "green", String(lost))}`,
    ...(last
      ? [
        `not released   ${paint("red", String(unreleased.length))}: ${unreleased.length > 1 ? "the last by " : ""}${
          who(last)
        }`,
      ]
      : []),
    ...(longestWait ? [`longest wait   ${span(longestWait.waited ?? 0)}: ${who(longestWait)}`] : []),
    ...(longestHold ? [`longest hold   ${span(longestHold.held ?? 0)}: ${who(longestHold)}`] : []),
  ];
  return lines.map((line) => `${line}\n`).join("");
}

/** `holdfast history`. */
export const history: Command = {
  name: "history",
  usage: ["history [OPTION…] LOCK"],
  summary: "show a lock's runs, crashes, and longest wait and hold",
  description: `Shows what the journal of LOCK tells: how often it was acquired, how often its holder died without ` +
    `releasing it, the longest wait and the longest hold, and the last events. ${LOCK_HELP}

A holder that dies writes no line: a crash counts once the next holder has found it, and until then the acquisition is ` +
    `shown as not released, unless that process has the lock now.

There is a journal only of what was run with "holdfast run --journal", or by a program with the option journal. ` +
    `The exit status is 1 if there is none.`,
  options: [
    { short: "n", long: "last", value: "N", help: "show the last N events; 10 by default" },
    { long: "journal", value: "FILE", help: "the journal, if it is not LOCK.journal" },
    { long: "json", help: "one JSON document, for programs, with all events" },
  ],
  run(args) {
    const parsed = parse(this, args);
    const { values, rest: [name, ...more] } = parsed;
    if (name === undefined || more.length > 0) throw new UsageError("it takes one LOCK");
    const last = whole(parsed, "last", 0, 1e9) ?? 10;
    const path = lockPath(name);
    const journal = text(parsed, "journal");
    const all = checked(name, () => events(path, journal === undefined ? {} : { journal }));
    const open = unended(all);
    const isHeld = open.length > 0 ? holdsNow(path) : () => false;
    const words = new Map(open.map((each) => [each, isHeld(each) ? "held now" : "not released"]));
    const summary = summarise(all, open.filter((each) => !isHeld(each)));
    if (values.json) print(toJson({ path, ...summary, events: all }));
    else if (all.length === 0) {
      const isThere = existsSync(path) || existsSync(pidPath(path));
      say(
        isThere
          ? `there is no journal of ${shown(path)}: "holdfast run --journal" writes one`
          : `there is no ${whatIsMissing(path)}, and no journal: ${whyMissing(path)}`,
      );
    } else print(forPeople(summary) + (last > 0 ? `\n${table(all.slice(-last), columnsBy(words), columns(1))}` : ""));
    return all.length === 0 ? 1 : 0;
  },
};

/** Standard output and standard error: at once and whole, so that nothing is cut off by the end of the process. */
import { writeSync } from "node:fs";
import { util } from "../sys/builtin.ts";
import { block } from "../sys/block.ts";
import { preference } from "../sys/environment.ts";
import { reasonOf } from "../sys/errno.ts";
import { signals } from "../sys/mod.ts";
import { printable } from "../sys/printable.ts";
import { NAME, STATUS } from "./version.ts";

/** Pause before a full pipe is tried again, in milliseconds: another process left it non-blocking. */
const PAUSE = 5;

function write(fd: number, text: string): void {
  const bytes = new TextEncoder().encode(text);
  for (let done = 0; done < bytes.length;) {
    try {
      done += writeSync(fd, bytes, done);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException; // node:fs throws errors with a code
      if (code === "EAGAIN" || code === "EINTR") {
        block(PAUSE);
        continue;
      }
      // A failure to say something changes nothing: a logger that had died kept COMMAND from --signal-on-lost.
      if (fd !== 1) return;
      // The reader has seen enough (`| head -1`). Without a word, and with the status of a process that SIGPIPE ends.
      if (code === "EPIPE") process.exit(STATUS.signal + signals().SIGPIPE);
      say(`cannot write to standard output: ${reasonOf(error)}`);
      process.exit(STATUS.system);
    }
  }
}

/** Writes to standard output; ends the process if the reader is gone. */
export const print = (text: string): void => write(1, text);

/** A line on standard error, which a terminal can be trusted with. */
export const say = (text: string): void => write(2, `${NAME}: ${printable(text)}\n`);

/**
 * A JSON document, in a line. For a pipe too, because that may end at a terminal: `ssh web-1 holdfast list --json`. To a
 * program it is the same document.
 */
export const toJson = (value: unknown): string => `${printable(JSON.stringify(value))}\n`;

/** Text on standard error as it is. */
export const sayRaw = (text: string): void => write(2, text);

/** Whether a descriptor is a terminal. Not an import: of all that a start needs it would cost the most. */
export const isatty = (fd: number): boolean => process.getBuiltinModule?.("node:tty").isatty(fd) ?? false;

/** Whether a descriptor is a terminal on which a line can be written over. */
export const isTerminal = (fd: 1 | 2): boolean => isatty(fd) && preference("TERM") !== "dumb";

/** Whether standard output is to be coloured; see no-color.org. */
const coloured = (): boolean => !preference("NO_COLOR") && isTerminal(1);

/** Text in a style, where standard output shows one. */
export function paint(style: Parameters<ReturnType<typeof util>["styleText"]>[0], text: string): string {
  // Not validated: that would load the streams, and Node 20 has no such option.
  return coloured() ? util().styleText(style, text, { validateStream: false }) : text;
}

/** Columns of the terminal; Infinity where there is none. */
export function columns(fd: 1 | 2): number {
  const given = Number(preference("COLUMNS"));
  if (Number.isInteger(given) && given > 0) return given;
  const { columns } = fd === 1 ? process.stdout : process.stderr;
  return isatty(fd) && columns > 0 ? columns : Infinity;
}

/** What takes two columns on a terminal. */
const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\u{1f300}-\u{3fffd}]/u;

/** How many columns a character takes. */
const columnsOf = (character: string): number => /\p{M}/u.test(character) ? 0 : WIDE.test(character) ? 2 : 1;

/** How many columns text takes. */
export function width(text: string): number {
  let columns = 0;
  for (const each of util().stripVTControlCharacters(text)) columns += columnsOf(each);
  return columns;
}

/** Most characters that are shown a column: a word of 60,000 combining ones takes none, and froze `status`. */
const CROWD = 8;

/** Cuts text to a number of columns, in time that grows with the columns and not with the text. */
export function cut(text: string, columns: number): string {
  if (columns === Infinity) return text;
  let used = 0, end = 0, at = 0, count = 0;
  for (const [piece] of text.matchAll(/\p{Cc}\[[\d;]*m|./gsu)) { // a style of ours, or a character
    used += piece.startsWith("\x1b[") ? 0 : columnsOf(piece);
    if (used > columns || ++count > Math.max(columns, 1) * CROWD) return `${text.slice(0, end)}…`;
    at += piece.length;
    if (used < columns) end = at; // there is room for the sign that it was cut
  }
  return text;
}

/** Breaks text at blanks into lines of at most that many columns. A longer word stands by itself. */
export function wrap(text: string, columns: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(/\s+/).filter((each) => each !== "")) {
    const longer = line === "" ? word : `${line} ${word}`;
    if (line !== "" && width(longer) > columns) {
      lines.push(line);
      line = word;
    } else line = longer;
  }
  return line === "" ? lines : [...lines, line];
}

/** A table for people: aligned, and one thing below the other where the terminal is narrow. */
import { cut, paint, width } from "./output.ts";

/** A column; the last one that has anything takes what room is left. */
export interface Column<T> {
  readonly title: string;
  readonly cell: (row: T) => string;
  readonly style?: (row: T) => Parameters<typeof paint>[0];
  /** What comes before it where it stands on a line of its own. */
  readonly alone?: string;
}

/** Between two columns. */
const GAP = "  ";

/** A last column with less room than that says nothing. */
const LEAST = 10;

/** Lays rows out in a terminal of `room` columns. Columns of the table without any content are left out. */
export function table<T>(rows: readonly T[], columns: readonly Column<T>[], room: number): string {
  const used = columns.filter(({ cell }) => rows.some((row) => cell(row) !== ""));
  const widths = used.map(({ title, cell }) => Math.max(width(title), ...rows.map((row) => width(cell(row)))));
  const fixed = widths.slice(0, -1).reduce((sum, each) => sum + each + GAP.length, 0);
  if (fixed + Math.min(widths.at(-1) ?? 0, LEAST) > room) return stacked(rows, used, room);
  const line = (cells: readonly string[], style: (i: number) => Parameters<typeof paint>[0] | undefined) =>
    cells.map((cell, i) => {
      const text = i === cells.length - 1 ? cut(cell, room - fixed) : cell;
      const padding = i === cells.length - 1 ? "" : " ".repeat(widths[i] - width(text));
      const painted = style(i);
      return (painted && text ? paint(painted, text) : text) + padding;
    }).join(GAP).trimEnd();
  return [
    line(used.map(({ title }) => title), () => "bold"),
    ...rows.map((row) => line(used.map(({ cell }) => cell(row)), (i) => used[i].style?.(row))),
  ].map((each) => `${each}\n`).join("");
}

/** One thing below the other. Nothing is cut off: what is too long goes on in the next line. */
function stacked<T>(rows: readonly T[], columns: readonly Column<T>[], room: number): string {
  return rows.map((row) =>
    columns.flatMap(({ cell, style, alone = "" }, i) => {
      const text = cell(row);
      const painted = style?.(row);
      const indent = i === 0 ? "" : "  ";
      return text === "" ? [] : chunks(alone + text, Math.max(room - indent.length, 1))
        .map((each) => `${indent}${painted ? paint(painted, each) : each}\n`);
    }).join("")
  ).join("");
}

/** Cuts text into pieces of at most `columns` columns. */
function chunks(text: string, columns: number): string[] {
  const pieces = [""];
  let used = 0;
  for (const each of text) {
    const last = pieces.length - 1, wide = width(each);
    if (pieces[last] !== "" && used + wide > columns) {
      const next = each.trimStart();
      pieces.push(next);
      used = next === "" ? 0 : wide;
    } else {
      pieces[last] += each;
      used += wide;
    }
  }
  return pieces;
}

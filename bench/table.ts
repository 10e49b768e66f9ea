/** Rows as people read them. */
import { short } from "./numbers.ts";
import type { Row } from "./part.ts";

/** A peer that cannot be run at all is one row, not one for each of its forms. */
export function merged(rows: readonly Row[]): Row[] {
  const seen = new Set<string>();
  return rows.flatMap((row) => {
    if (row.words === undefined || row.ratio !== undefined) return [row];
    const all = rows.filter(({ who, words }) => who === row.who && words === row.words);
    if (all.length === 1 || rows.some(({ who, ratio }) => who === row.who && ratio !== undefined)) return [row];
    if (seen.has(row.who)) return [];
    seen.add(row.who);
    return [{ ...row, what: "cannot be run here" }];
  });
}

export const times = (ratio: number | undefined): string => ratio === undefined ? "" : `${short(ratio)} ×`;

/** The last column. */
export const remarks = ({ figure, words }: Row): string => [figure, words].filter(Boolean).join("; ");

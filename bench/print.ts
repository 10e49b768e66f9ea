/** The table, for a terminal. */
import { styleText } from "node:util";
import type { Row, Section } from "./part.ts";
import { merged, remarks, times } from "./table.ts";

/** What came of all parts: one table, then what was asked for. */
export function print(sections: ReadonlyMap<number, Section>): void {
  const all = [...sections].map(([number, section]) => ({ number, section, rows: merged(section.rows) }));
  const cells = (row: Row) => [row.who, row.what, times(row.ratio), times(row.ratio99), row.to];
  const widths = all.flatMap(({ rows }) => rows.map(cells)).reduce(
    (most, each) => each.map((cell, i) => Math.max(most[i], cell.length)),
    [3, 4, 5, 5, 2],
  );
  const line = (each: string[]) =>
    each.map((cell, i) => i === 2 || i === 3 ? cell.padStart(widths[i]) : cell.padEnd(widths[i])).join("  ");
  console.log(styleText("bold", `   ${line(["who", "what", "ratio", "p99", "to"])}  figures`));
  for (const { number, section, rows } of all) {
    console.log(styleText("bold", `${number}. ${section.title}`));
    for (const row of rows) {
      const text = `   ${line(cells(row))}  ${remarks(row)}`.trimEnd();
      console.log(row.ours ? styleText("cyan", text) : text);
    }
  }
  for (const { section } of all) {
    for (const note of section.notes) console.log(`   ${note}`);
  }
  for (const { claim, found, met } of all.flatMap(({ section }) => section.verdicts)) {
    console.log(`${met ? styleText("green", "met    ") : styleText("red", "NOT met")}  ${claim}: ${found}`);
  }
}

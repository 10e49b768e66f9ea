/** record.json: what a later run is compared with. */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const file = fileURLToPath(new URL("record.json", import.meta.url));

export interface Recorded {
  /** The ratios, by the rows' keys. */
  readonly ratios: Readonly<Record<string, number>>;
  /** System calls of a form, in order, by runtime. */
  readonly calls: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;
  /** Bytes of the package, minified and gzipped. */
  readonly size: number;
  /** bench:check's own ratios over so many runs of it. */
  readonly spread?: Spread;
}

export interface Spread {
  readonly runs: number;
  readonly load: string;
  /** Least, middle and most, by the rows' keys. */
  readonly of: Readonly<Record<string, readonly [number, number, number]>>;
}

export const readRecord = (): Recorded => JSON.parse(readFileSync(file, "utf8"));

/** Undefined where there is none yet. */
export function recordIfAny(): Recorded | undefined {
  try {
    return readRecord();
  } catch {
    return undefined; // the first run ever, or a file that the run is about to write anew
  }
}

export const writeRecord = (record: Recorded): void => writeFileSync(file, `${JSON.stringify(record, null, 2)}\n`);

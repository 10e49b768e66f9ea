/** The contract between `deno task torture` and its parts: each attacks one claim, and says what came of it. */

/** What a part is given. */
export interface Circumstances {
  /** The same seed makes the same choices; the order of events stays the kernel's. */
  readonly seed: number;
  /** For so long, in milliseconds, a part that has no natural end goes on. */
  readonly budget: number;
  /** The form for the gate: the same attacks, fewer of them. */
  readonly short: boolean;
  /** An empty folder of its own, removed afterwards. */
  readonly dir: string;
}

/** What a part came to: a table, and what is wrong. */
export interface Section {
  readonly title: string;
  /** Sentences before the table: what was done, and what could not be tried here, and why. */
  readonly notes: readonly string[];
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** One sentence a failure. Empty: the claim stands. */
  readonly failures: readonly string[];
}

/** A part. */
export type Part = (circumstances: Circumstances) => Promise<Section>;

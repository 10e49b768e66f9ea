/** The contract between `deno task bench` and its parts: each measures one thing, and says what came of it. */
import type { Crew } from "./crew.ts";

/** What a part is given. */
export interface Circumstances {
  readonly crew: Crew;
  /** A fraction of the rounds, to see that everything works; the figures mean little. */
  readonly quick: boolean;
  /** An empty folder of its own, removed afterwards. */
  readonly dir: string;
}

/** One line of the table. */
export interface Row {
  /** The same in every run; record.json goes by it. */
  readonly key: string;
  readonly what: string;
  readonly who: string;
  /** Ours is drawn in another colour, and judged. */
  readonly ours: boolean;
  /** To what the ratio is. */
  readonly to: string;
  readonly ratio?: number;
  /** The ratio of the 99th percentiles, where there are any. */
  readonly ratio99?: number;
  /** The figure itself, with its unit. */
  readonly figure?: string;
  /** Why there is no figure, or why it does not count. */
  readonly words?: string;
}

/** What was asked for, and whether it is so. */
export interface Verdict {
  readonly claim: string;
  readonly found: string;
  readonly met: boolean;
}

export interface Section {
  readonly title: string;
  /** Sentences about how it was measured. */
  readonly notes: readonly string[];
  readonly rows: readonly Row[];
  readonly verdicts: readonly Verdict[];
}

export type Part = (circumstances: Circumstances) => Promise<Section>;

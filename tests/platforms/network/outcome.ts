/** What the guest tells the host, for each kind, in a file of their common folder. */
import type { Kind } from "../../support/harness.ts";
import type { Runner } from "../../support/runners.ts";

export const OUTCOMES = "outcomes.json";

export const KINDS = ["deno", "deno-no-ffi", "bun", "node26"] as const satisfies Kind[];

/** Which of them run the suite. */
export const AS_RUNNER: Readonly<Partial<Record<Kind, Runner>>> = { deno: "deno", bun: "bun", node26: "node" };

/** Those of {@linkcode Outcome.pending} that are no check of checks.ts. */
export const SUITE = "the suite", SOFT = "a soft mount whose server has stopped";

export interface Outcome {
  readonly kind: Kind;
  readonly passed: number;
  readonly failed: number;
  /** Left out of the suite. */
  readonly skipped: number;
  /** What failed, by name. */
  readonly failures: readonly string[];
  /** What it has not come to yet. */
  readonly pending: readonly string[];
  /** How long the suite took. */
  readonly seconds: number;
}

/** What the doctor finds: each with its weight, and with what to do about it. */

/** A finding. */
export interface Finding {
  /** `"error"`: it cannot lock; `"warning"`: it can, and something may go wrong. */
  readonly level: "ok" | "warning" | "error";
  /** What it is about, in a word or two. */
  readonly about: string;
  readonly what: string;
  /** What to do. */
  readonly advice?: string;
}

/** Nothing to do. */
export const ok = (about: string, what: string): Finding => ({ level: "ok", about, what });

/** Something may go wrong. */
export const warning = (about: string, what: string, advice: string): Finding => ({
  level: "warning",
  about,
  what,
  advice,
});

/** It cannot lock. */
export const error = (about: string, what: string, advice: string): Finding => ({
  level: "error",
  about,
  what,
  advice,
});

/** In the doctor's exit status the worst of all counts: 0, 1 or 2. */
export const worst = (findings: readonly Finding[]): number =>
  Math.max(0, ...findings.map(({ level }) => ["ok", "warning", "error"].indexOf(level)));

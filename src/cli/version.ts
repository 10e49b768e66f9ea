/**
 * The version, which deno.json has too: a JSON import would be one more file to
 * read at every start, and the packed JavaScript has no deno.json. A test
 * compares the two.
 */
export const VERSION = "0.1.0";

/** Of the version: what the manual page has at its foot. */
export const DATE = "2026-11-29";

/** What every line on standard error begins with, as it is the custom of commands. */
export const NAME = "holdfast";

/** In a phrase. */
export const SUMMARY = "one process at a time does a job on this machine";

/** The exit statuses of `holdfast run` and of everything that fails: flock(1)'s own, from <sysexits.h>, and the shell's. */
export const STATUS = {
  usage: 64,
  noInput: 66,
  unavailable: 69,
  system: 71,
  cannotCreate: 73,
  /** EX_TEMPFAIL: it was lost while COMMAND ran. */
  lost: 75,
  cannotExecute: 126,
  notFound: 127,
  /** And the number of the signal. */
  signal: 128,
} as const;

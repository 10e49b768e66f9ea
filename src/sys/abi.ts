/** The words in which a C function is described to a runtime's FFI, and what that makes of them. */

/** A parameter or result, in words that each runtime file translates. */
export type CType = "i32" | "u32" | "usize" | "buffer" | "pointer";

/** One C function. No variadic one but Linux's `open` (and the command line's `fcntl`): Apple arm64 passes their arguments elsewhere. */
export interface Signature {
  readonly parameters: readonly CType[];
  readonly result: CType;
}

/** An argument or result of a C function; a pointer is whatever the runtime takes for one. */
// deno-lint-ignore no-explicit-any -- three runtimes, three kinds of pointer, and we only hand them back
type Value = any;

/** What a runtime's FFI makes of a table of signatures. `usize` goes in as a number. */
export type Bind = (
  library: string,
  table: Record<string, Signature>,
) => Record<string, (...values: Value[]) => Value>;

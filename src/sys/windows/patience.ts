/**
 * What stands in the way of a file on Windows for a moment only: "The DeleteFile function marks a file for deletion on
 * close … Subsequent calls to CreateFile to open the file fail with ERROR_ACCESS_DENIED" (DeleteFile; not so in
 * Wine 8, which opens it again), and a reader of a record has it open for an instant; a scanner that does not share
 * a file, for a little longer.
 */
import { block } from "../block.ts";
import { SystemError } from "../contract.ts";

/** Between the tries, in milliseconds: 63 in all. Then it is an error. */
const PAUSES = [1, 2, 4, 8, 16, 32];

/** Tries again while what comes of it may pass. */
export function patiently<T>(call: () => T, mayPass: (result: T) => boolean): T {
  let result = call();
  for (const pause of PAUSES) {
    if (!mayPass(result)) break;
    block(pause);
    result = call();
  }
  return result;
}

/** Whatever of these the runtimes make of errors 5, 32 and 303; not what we or they refuse without asking the system. */
const PASSING = new Set(["EACCES", "EPERM", "EBUSY"]);
const passes = (error: unknown): boolean =>
  error instanceof SystemError && PASSING.has(error.code) && error.cause instanceof Error &&
  error.cause.name !== "NotCapable";

/** The same for a call of the runtime's own, which throws. */
export function patient<A extends unknown[]>(call: (...args: A) => void): (...args: A) => void {
  return (...args) => {
    const failure = patiently(
      () => {
        try {
          return void call(...args);
        } catch (error) {
          return error;
        }
      },
      passes,
    );
    if (failure !== undefined) throw failure;
  };
}

/** The names of `@std/assert` that the tests use, on `node:assert`. */
import nodeAssert from "node:assert/strict";

// deno-lint-ignore no-explicit-any -- as in @std/assert: any constructor of an error
type ErrorClass<E extends Error> = abstract new (...args: any[]) => E;

export function assert(value: unknown, message?: string): asserts value {
  nodeAssert.ok(value, message);
}

export function assertEquals<T>(actual: T, expected: T, message?: string): void {
  if (message === undefined) nodeAssert.deepEqual(actual, expected);
  else nodeAssert.deepEqual(actual, expected, message);
}

export function assertStringIncludes(actual: string, expected: string, message?: string): void {
  nodeAssert.ok(actual.includes(expected), message ?? `${JSON.stringify(actual)} lacks ${JSON.stringify(expected)}`);
}

export function assertMatch(actual: string, expected: RegExp, message?: string): void {
  nodeAssert.match(actual, expected, message);
}

export function assertThrows<E extends Error = Error>(fn: () => unknown, errorClass?: ErrorClass<E>, text = ""): E {
  try {
    fn();
  } catch (error) {
    return checkError(error, errorClass, text);
  }
  throw new nodeAssert.AssertionError({ message: "Expected the function to throw" });
}

export async function assertRejects<E extends Error = Error>(
  fn: () => PromiseLike<unknown>,
  errorClass?: ErrorClass<E>,
  text = "",
): Promise<E> {
  try {
    await fn();
  } catch (error) {
    return checkError(error, errorClass, text);
  }
  throw new nodeAssert.AssertionError({ message: "Expected the function to reject" });
}

function checkError<E extends Error>(error: unknown, errorClass: ErrorClass<E> | undefined, text: string): E {
  nodeAssert.ok(error instanceof (errorClass ?? Error), `Expected ${errorClass?.name ?? "an Error"}, got ${error}`);
  assertStringIncludes(error.message, text);
  return error as E; // checked in the line before last
}

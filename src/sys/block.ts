/** Stands still: the one way to wait in a call that is synchronous. */

/** Blocks this thread for that many milliseconds. Not a spin: the kernel wakes it. */
export function block(milliseconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
}

/**
 * The runtime's own modules that few programs need, loaded when one does. At the
 * start they would cost every program that only imports us: `node:child_process`
 * 10 to 45 ms, `node:worker_threads` 25 ms in Bun, `node:os` 13 ms and `node:fs` 17 ms in Deno.
 * Since Node 20.16 and 22.3, Bun 1.2 and Deno 2.1 there is a way to.
 */

/** `node:child_process`. */
export const childProcess = () => process.getBuiltinModule("node:child_process");

/** `node:fs`. */
export const fs = () => process.getBuiltinModule("node:fs");

/** `node:path`. */
export const nodePath = () => process.getBuiltinModule("node:path");

/** `node:util`. Never an import: in Node 26 that makes a pipe on standard error non-blocking, for the command too. */
export const util = () => process.getBuiltinModule("node:util");

/** `node:timers`. */
export const timers = () => process.getBuiltinModule("node:timers");

/** `node:os`. */
export const os = () => process.getBuiltinModule("node:os");

/** `node:url`. */
export const url = () => process.getBuiltinModule("node:url");

/** `node:async_hooks`. */
export const asyncHooks = () => process.getBuiltinModule("node:async_hooks");

/** `node:worker_threads`. */
export const workerThreads = () => process.getBuiltinModule("node:worker_threads");

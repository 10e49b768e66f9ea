/**
 * A lock that makes sure only one process at a time does a job on a machine,
 * for Deno, Bun and Node. The kernel holds it (`flock(2)`), so it is gone the
 * moment its process dies, however it dies.
 *
 * ```ts
 * import { Lock } from "@holdfast/lock";
 *
 * using lock = new Lock(`${await Deno.makeTempDir()}/nightly.lock`);
 * if (!lock.tryAcquire()) {
 *   console.error(`already running: ${lock.inspect().holder}`);
 *   Deno.exit(0);
 * }
 * ```
 *
 * Start at {@linkcode Lock}.
 *
 * @module
 */
export { Lock } from "./src/lock.ts";
export type { LockStatus } from "./src/inspect/status.ts";
export { scan } from "./src/inspect/scan.ts";
export { lockDirectory } from "./src/record/directory.ts";
export type { Held } from "./src/hold/run.ts";
export type { AcquireOptions, LockBackend, LockMode, LockOptions } from "./src/record/options.ts";
export { type HolderFields, LockHolder } from "./src/record/record.ts";
export { processState } from "./src/record/owner.ts";
export type { ProcessState } from "./src/record/owner.ts";
export {
  LockDeadlockError,
  LockError,
  type LockErrorOptions,
  LockHeldError,
  LockLostError,
  LockNotHeldError,
  LockTimeoutError,
  LockUnsupportedError,
} from "./src/record/errors.ts";

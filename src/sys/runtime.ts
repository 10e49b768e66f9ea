/**
 * What each runtime's file answers. `deno.ts`, `bun.ts` and `node.ts` implement
 * it, and each is the only file that names its runtime.
 */
import type { Bind } from "./calls.ts";
import type { Access, KernelLockWay, OpenFile } from "./sys.ts";
import type { Flock, Permits } from "./files.ts";

/** A way to the kernel lock, or why there is none. */
export type Unavailable = { readonly unavailable: string };

/** One runtime. */
export interface Runtime {
  /** Such as `deno/2.9.6`. */
  readonly name: string;
  /** The FFI and the library to load with it. Loads nothing yet. */
  ffi(): { readonly bind: Bind; readonly library: string } | Unavailable;
  /** Never prompts. */
  readonly permits: Permits;
  /** Whether `process.kill(pid, 0)`, `os.hostname()` and `/proc` through `node:fs` may be
   * used; each may prompt in a runtime with permissions. */
  readonly may: { readonly kill: boolean; readonly hostname: boolean; readonly uid: boolean; readonly proc: boolean };
  /** Calls back when the process is about to die of an error, where an exit event follows that does not tell. */
  onCrash(mark: () => void): void;
  /** Another way to `flock(2)`, for when there is no FFI. */
  fallback():
    | { readonly way: KernelLockWay; readonly flock: Flock }
    | { readonly way: KernelLockWay; readonly openLock: (path: string, access: Access, mode: number) => OpenFile }
    | Unavailable;
}

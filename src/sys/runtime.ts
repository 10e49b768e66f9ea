/**
 * What each runtime's file answers. `deno.ts`, `bun.ts` and `node.ts` implement
 * it, and each is the only file that names its runtime.
 */
import type { Bind } from "./abi.ts";
import type { FileSystem, KernelLockWay } from "./contract.ts";
import type { Flock, Permits } from "./primitives.ts";
import type { Proc } from "./proc.ts";

/** A way to the kernel lock, or why there is none. */
export type Unavailable = { readonly unavailable: string };

/** A program that was started, with the runtime's own streams. */
export interface Started {
  readonly pid: number;
  readonly ended: Promise<{ readonly code: number; readonly signal: string | null }>;
}

/** One runtime. */
export interface Runtime {
  /** Such as `deno/2.9.6`. */
  readonly name: string;
  /** The FFI and the library to load with it. Loads nothing yet. */
  ffi(): { readonly bind: Bind; readonly library: string } | Unavailable;
  /** Whether this is no Worker. */
  isMainThread(): boolean;
  /**
   * Whether libc may open files past the runtime. Not where that checks the path of each; nor where this program may
   * end before its process (a Worker that is terminated, a watcher), because the runtime then closes its own only.
   */
  mayOpenByItself(proc: Proc): boolean;
  /** Never prompts. */
  readonly permits: Permits;
  /** Whether it may resolve symlinks itself before it opens a file. */
  readonly resolvesLinks: boolean;
  /** Whether `process.kill(pid, 0)`, `os.hostname()` and `/proc` through `node:fs` may be
   * used; each may prompt in a runtime with permissions. */
  readonly may: {
    kill(): boolean;
    hostname(): boolean;
    uid(): boolean;
    readonly proc: boolean;
    /** Without a name: all of the environment. */
    env(name?: string): boolean;
    /** `node:fs` must not be asked otherwise. */
    statfs(path: string): boolean;
  };
  /** Whether it sets close-on-exec on the descriptors that it was started with, as on its own. */
  readonly marksInherited: boolean;
  /** Whether it has added variables of a file in the current directory to `process.env` unasked. `given`: what was given. */
  readsFiles?(given: (name: string) => string | undefined): "yes" | "perhaps" | "no";
  /** Starts a program, where `node:child_process` would change how it is called. */
  start?(command: readonly string[]): Started;
  /** Calls `onExit` at an exit event, after `crash` where that event follows an error and does not tell. */
  onEnd(onExit: () => void, crash: () => void): void;
  /** The path without `..`, where the runtime resolves those otherwise than the kernel does. */
  resolveParents?(path: string): string;
  /** Watches a file without keeping the process alive, where `node:fs` cannot. May throw. */
  watch?(path: string, happened: () => void): { close(): void } | undefined;
  /** Another way to `flock(2)`, for when there is no FFI. */
  fallback():
    | { readonly way: KernelLockWay; readonly flock: Flock }
    /** `openLock`, and the `stat` that tells the same identities as its files. */
    | ({ readonly way: KernelLockWay } & Pick<FileSystem, "openLock" | "stat">)
    | Unavailable;
}

/** Which runtime is this: asked once, answered here, at the first use of a lock. */
import { fs, os } from "./builtin.ts";
import { bunRuntime } from "./bun.ts";
import type { Bind } from "./abi.ts";
import { bindCalls, type Calls, existence, killByRuntime } from "./calls.ts";
import { denoRuntime } from "./deno.ts";
import { filesOf } from "./files.ts";
import { nodeRuntime } from "./node.ts";
import type { Flock } from "./primitives.ts";
import { FREEBSD_SIGNALS, hasLinuxKernel, PLATFORMS } from "./libc.ts";
import {
  allProcesses,
  descriptorLocks,
  hasThread,
  ownNumbers,
  ownThread,
  type Proc,
  processInfo,
  unseen,
} from "./proc.ts";
import type { Runtime } from "./runtime.ts";
import { attempt, identify, makeReader } from "./self.ts";
import { fileSystemName } from "./statfs.ts";
import { type FileSystem, type Identity, type KernelLockWay, type System, SystemError } from "./contract.ts";
import { endTogetherOnWindows, windowsSystem } from "./windows.ts";

/** Which runtime this is does not change; it is asked at the first use, not at import. */
let runtime: Runtime | undefined;
/** The system, made once: it binds the C library. */
let cached: System | undefined;

/** The runtime; for what stands beside this file. */
export const thisRuntime = (): Runtime => runtime ??= denoRuntime() ?? bunRuntime() ?? nodeRuntime();

/** Asked at the first use, not at import. */
export const isWindows = (): boolean => process.platform === "win32";

/** The system that this process runs on. */
export function system(): System {
  return cached ??= isWindows() ? windowsSystem(thisRuntime(), nonces(undefined)) : assemble(thisRuntime());
}

/** Whether the current directory may be asked for without a question on the terminal. */
export function mayAskDirectory(): boolean {
  return thisRuntime().permits("read", ".");
}

/** Whether this is no Worker. */
export const isMainThread = (): boolean => thisRuntime().isMainThread();

/** Watches a file until closed, without keeping the process alive; throws, or is undefined, where that cannot be. */
export function watchFile(path: string, happened: () => void): { close(): void } | undefined {
  const runtime = thisRuntime();
  if (runtime.watch) return runtime.watch(path, happened);
  const watcher = fs().watch(path, { persistent: false }, happened);
  watcher.on("error", () => watcher.close()); // no inotify watch left, say
  return watcher;
}

/** Calls back when this process, or this Worker, ends in order; and when it is about to die of an error. */
export function onEnd(onExit: () => void, crash: () => void): void {
  thisRuntime().onEnd(onExit, crash);
}

/** Binds what a command calls of the C library; or why it cannot. */
export function bindMore<T>(
  bindAll: (platform: string, library: string, bind: Bind, marks: boolean) => T,
): T | string {
  if (isWindows()) return "Windows has neither exec nor flock(2)";
  const runtime = thisRuntime();
  return load(runtime, (platform, library, bind) => bindAll(platform, library, bind, runtime.marksInherited));
}

/**
 * On Windows: every process that this one starts ends with it, until the returned
 * function is called. undefined where that cannot be had; see `windows/job.ts`.
 */
export function endTogether(): (() => void) | undefined {
  return isWindows() ? attempt(() => endTogetherOnWindows(thisRuntime())) : undefined;
}

/** The numbers of this system's signals, by their names. */
export const signals = (): Record<string, number> =>
  process.platform === "freebsd" ? FREEBSD_SIGNALS : os().constants.signals;

/** An environment variable; undefined where it is not set, or empty. Throws {@linkcode SystemError} where it may not be asked for, or has no text. */
export function env(name: string): string | undefined {
  if (!thisRuntime().may.env(name)) {
    throw new SystemError("EACCES", `this process may not read the environment variable ${name} (--allow-env=${name})`);
  }
  try {
    return process.env[name] || undefined;
  } catch (error) {
    throw new SystemError("EINVAL", `the environment variable ${name} is not UTF-8`, { cause: error }); // so in Deno
  }
}

/** libc through FFI, or why not. */
function load<T>(runtime: Runtime, bindAll: (platform: string, library: string, bind: Bind) => T): T | string {
  try {
    const ffi = runtime.ffi();
    return "unavailable" in ffi ? ffi.unavailable : bindAll(process.platform, ffi.library, ffi.bind);
  } catch (error) {
    return `the C library could not be loaded: ${error instanceof Error ? error.message : error}`;
  }
}

function assemble(runtime: Runtime): System {
  const loaded = load(runtime, bindCalls);
  const calls = typeof loaded === "string" ? undefined : loaded;
  const reader = makeReader(runtime, calls);
  const { disk, way, why } = chooseDisk(runtime, loaded, reader);
  const pid = process.pid;
  const others = ownNumbers(process.platform, reader, pid);
  const ask = (other: number): "exists" | "gone" | SystemError => {
    if (calls) return calls.exists(other);
    if (!runtime.may.kill()) {
      return new SystemError("EACCES", "this process may not ask whether another one lives (it takes --allow-ffi)");
    }
    const code = killByRuntime(other, 0);
    return code === undefined ? "exists" : existence(code);
  };
  let identity: Identity | undefined;
  const self = () => identity ??= identify(runtime, calls, reader, others, pid);
  const thread = () => ownThread(pid, reader);
  return {
    ...disk,
    // On an unknown system O_NOFOLLOW may be missing and a PID may mean something else: no lock that is not one.
    unsupported: process.platform in PLATFORMS ? undefined : `holdfast does not support ${process.platform} yet`,
    way,
    why,
    nonce: nonces(calls),
    wallClock: () => new Date().toISOString(),
    self,
    exists(other, owner) {
      const answer = ask(other);
      if (answer !== "gone" || process.platform !== "freebsd") return answer;
      return unseen(owner, self().uid, () => ask(1) === "exists");
    },
    processInfo: (other) => processInfo(process.platform, other, others),
    resolveParents: (path) => runtime.resolveParents?.(path) ?? path,
    own: (file) => reader.text(`/proc/self/${file}`),
    mounts: () => reader.text("/proc/self/mountinfo"),
    fileSystem(path) {
      const type = permittedType(runtime, calls, path);
      return type === undefined ? undefined : fileSystemName(type);
    },
    descriptorLocks: (other) => descriptorLocks(other, others),
    descriptorStat: (other, fd) => attempt(() => others.stat(`/proc/${other}/fd/${fd}`)),
    readLink: reader.link,
    all: () => allProcesses(others),
    hasThread: (other, thread) => hasThread(other, thread, others),
    thread,
    signal(other, name) {
      if (calls) return calls.signal(other, signals()[name]);
      if (!runtime.may.kill()) {
        return new SystemError("EACCES", "this process may not send signals (it takes --allow-ffi)");
      }
      const code = killByRuntime(other, name);
      if (code === undefined) return "sent";
      return code === "ESRCH" ? "gone" : new SystemError(code, `kill(2) answered ${code}`);
    },
    kernelLocks() {
      const again = () => others.text("/proc/locks");
      const text = again();
      // Beyond a page it is no snapshot, and a line can be missed while others go: in 1 of 10,000 cases two
      // readings in a row missed a lock that was held throughout.
      return text === undefined || text.length < 4096 ? text : [text, again(), again(), again()].join("");
    },
  };
}

/** The number that Linux gives a path's file system; undefined where it may not be asked for. */
function permittedType({ permits, may }: Runtime, calls: Calls | undefined, path: string): number | undefined {
  if (!hasLinuxKernel(process.platform) || attempt(() => permits("read", path)) !== true) return undefined;
  if (calls) return calls.fileSystem(path);
  return may.statfs(path) ? attempt(() => fs().statfsSync(path).type) : undefined;
}

function chooseDisk(
  runtime: Runtime,
  loaded: Calls | string,
  proc: Proc,
): { disk: FileSystem; way?: KernelLockWay; why: string } {
  const { permits } = runtime;
  const resolves = runtime.resolvesLinks;
  if (typeof loaded !== "string") {
    const native = runtime.mayOpenByItself(proc) ? loaded.files() : undefined;
    const disk = filesOf(loaded.flock, permits, resolves, native);
    return { disk, way: "ffi", why: "flock(2) through the runtime's FFI" };
  }
  const fallback = runtime.fallback();
  if ("unavailable" in fallback) {
    const none: Flock = () => {
      throw new SystemError("ENOSYS", fallback.unavailable);
    };
    return { disk: filesOf(none, permits, resolves), why: `${loaded}; ${fallback.unavailable}` };
  }
  const { way } = fallback;
  const why = `flock(2) through ${way}, because ${loaded}`;
  if ("flock" in fallback) return { disk: filesOf(fallback.flock, permits, resolves), way, why };
  const disk = filesOf(() => "held", permits, resolves); // never called: openLock is the runtime's own
  const { openLock, stat } = fallback;
  const allowed = (path: string) => (permits("read", path) ? stat : disk.stat)(path); // the latter says what is missing
  return { disk: { ...disk, openLock, stat: allowed }, way, why };
}

/** A maker of nonces. Sixteen are drawn at once: it is a system call, and one of thirteen that a lock takes. */
function nonces(calls: Calls | undefined): () => string {
  const bytes = new Uint8Array(256); // as many as getentropy(3) gives
  let drawn = "";
  return () => {
    if (drawn === "") {
      if (!calls?.random(bytes)) crypto.getRandomValues(bytes);
      drawn = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
    }
    const nonce = drawn.slice(0, 32);
    drawn = drawn.slice(32);
    return nonce;
  };
}

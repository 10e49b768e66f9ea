/** Which runtime is this: asked once, answered here, at the first use of a lock. */
import { spawnSync } from "node:child_process";
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { basename } from "node:path";
import { bunRuntime } from "./bun.ts";
import { bindCalls, type Calls, existence } from "./calls.ts";
import { denoRuntime } from "./deno.ts";
import { type Flock, nodeFiles } from "./files.ts";
import { nodeRuntime } from "./node.ts";
import { PLATFORMS } from "./libc.ts";
import { look, type Reader, surroundings } from "./proc.ts";
import type { Runtime } from "./runtime.ts";
import { type Disk, type Identity, type KernelLockWay, type System, SystemError } from "./sys.ts";

let runtime: Runtime | undefined;
let cached: System | undefined;

const thisRuntime = (): Runtime => runtime ??= denoRuntime() ?? bunRuntime() ?? nodeRuntime();

/** The system that this process runs on. */
export function system(): System {
  return cached ??= assemble(thisRuntime());
}

/** Whether the current directory may be asked for without a question on the terminal. */
export function mayAskDirectory(): boolean {
  return thisRuntime().permits("read", ".");
}

/** Calls back when this process, or this Worker, ends in order; and when it is about to die of an error. */
export function onEnd(leave: () => void, crash: () => void): void {
  thisRuntime().onEnd(leave, crash);
}

const attempt = <T>(call: () => T): T | undefined => {
  try {
    return call();
  } catch {
    return undefined; // the caller treats what cannot be read as unknown, and unknown as the cautious case
  }
};

/** libc through FFI, or why not. */
function load(runtime: Runtime): Calls | string {
  try {
    const ffi = runtime.ffi();
    return "unavailable" in ffi ? ffi.unavailable : bindCalls(process.platform, ffi.library, ffi.bind);
  } catch (error) {
    return `the C library could not be loaded: ${error instanceof Error ? error.message : error}`;
  }
}

function assemble(runtime: Runtime): System {
  const loaded = load(runtime);
  const calls = typeof loaded === "string" ? undefined : loaded;
  const { disk, way, why } = chooseDisk(runtime, loaded);
  const reader = makeReader(runtime, calls);
  const pid = process.pid;
  let self: Identity | undefined;
  return {
    ...disk,
    // On an unknown system O_NOFOLLOW may be missing and a PID may mean something else: no lock that is not one.
    unsupported: process.platform in PLATFORMS ? undefined : `holdfast does not support ${process.platform} yet`,
    way,
    why,
    nonce,
    wallClock: () => new Date().toISOString(),
    self: () => self ??= identify(runtime, calls, reader, pid),
    exists(other) {
      if (calls) return calls.exists(other);
      if (!runtime.may.kill) {
        return new SystemError("EACCES", "this process may not ask whether another one lives (it takes --allow-ffi)");
      }
      try {
        process.kill(other, 0);
        return "exists";
      } catch (error) {
        return existence((error as NodeJS.ErrnoException).code ?? "EIO"); // every runtime throws Errors here
      }
    },
    look: (other) => look(process.platform, other, reader),
    physical: (path) => runtime.physical?.(path) ?? path,
    mounts: () => reader.text("/proc/self/mountinfo"),
    kernelLocks() {
      const text = reader.text("/proc/locks");
      // Beyond a page it is no snapshot, and a line can be missed while others go: two readings miss less.
      return text === undefined || text.length < 4096 ? text : text + (reader.text("/proc/locks") ?? "");
    },
  };
}

function chooseDisk(runtime: Runtime, loaded: Calls | string): { disk: Disk; way?: KernelLockWay; why: string } {
  const { permits } = runtime;
  const resolves = runtime.resolvesLinks();
  if (typeof loaded !== "string") {
    return { disk: nodeFiles(loaded.flock, permits, resolves), way: "ffi", why: "flock(2) through the runtime's FFI" };
  }
  const fallback = runtime.fallback();
  if ("unavailable" in fallback) {
    const none: Flock = () => {
      throw new SystemError("ENOSYS", fallback.unavailable);
    };
    return { disk: nodeFiles(none, permits, resolves), why: `${loaded}; ${fallback.unavailable}` };
  }
  const { way } = fallback;
  const why = `flock(2) through ${way}, because ${loaded}`;
  if ("flock" in fallback) return { disk: nodeFiles(fallback.flock, permits, resolves), way, why };
  const disk = nodeFiles(() => "held", permits, resolves); // never called: openLock is the runtime's own
  const { openLock, stat } = fallback;
  const allowed = (path: string) => (permits("read", path) ? stat : disk.stat)(path); // the latter says what is missing
  return { disk: { ...disk, openLock, stat: allowed }, way, why };
}

function makeReader(runtime: Runtime, calls: Calls | undefined): Reader {
  const proc = runtime.may.proc;
  return {
    text: (path) => calls ? calls.readText(path) : proc ? attempt(() => readFileSync(path, "utf8")) : undefined,
    link: (path) => calls ? calls.readLink(path) : proc ? attempt(() => readlinkSync(path)) : undefined,
    ps(args) {
      if (!runtime.may.kill) return undefined;
      // UTC and the C locale, or two processes would read two texts for one start time.
      const env = { LC_ALL: "C", TZ: "UTC" };
      const { status, stdout } = spawnSync("/bin/ps", args, { env, encoding: "utf8" });
      return status === 0 ? stdout : undefined;
    },
  };
}

function identify(runtime: Runtime, calls: Calls | undefined, reader: Reader, pid: number): Identity {
  const { startTime, command } = look(process.platform, pid, reader) ?? {};
  const [program, ...args] = process.argv;
  return {
    pid,
    startTime,
    ...surroundings(reader),
    host: (calls ? calls.hostname() : runtime.may.hostname ? attempt(hostname) : undefined) || undefined,
    uid: calls ? calls.uid() : runtime.may.uid ? attempt(() => process.getuid?.()) : undefined,
    command: command ?? [basename(program), ...args].join(" "),
    runtime: runtime.name,
  };
}

function nonce(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Windows: the kernel's lock is `LockFileEx` on one byte far beyond the content
 * of the lock file, by FFI; or, in a Deno without FFI, on all of the file. The
 * two exclude each other, and every program that locks the file as a whole.
 *
 * The record is in the lock file either way. While a Deno without FFI holds the
 * lock, no other process can read it, nor can this one by another handle: "If
 * the locking process opens the file a second time, it cannot access the
 * specified region through this second handle" (LockFileEx; not so in Wine 8).
 * It is for the next holder: a lock ends with its process, so the record of one
 * that died can be read.
 *
 * The back end above is the one of `flock(2)`, for the same holds: the lock
 * belongs to an open file, and is gone with its process: "If a process
 * terminates with a portion of a file locked … the locks are unlocked by the
 * operating system" (LockFileEx).
 */
import { nodePath, os } from "./builtin.ts";
import { existence, killByRuntime } from "./calls.ts";
import { filesOf } from "./files.ts";
import { quote } from "./printable.ts";
import type { Runtime } from "./runtime.ts";
import { type FileSystem, type Identity, type OpenFile, type System, SystemError } from "./contract.ts";
import { windowsFiles } from "./windows/files.ts";
import { endTogether } from "./windows/job.ts";
import { bindKernel32, type Kernel32 } from "./windows/kernel32.ts";
import { patient } from "./windows/patience.ts";
import { filePath } from "./windows/paths.ts";
import { type WindowsProcesses, windowsProcesses } from "./windows/processes.ts";

/** The system of a process on Windows. */
export function windowsSystem(runtime: Runtime, nonce: () => string): System {
  const loaded = load(runtime);
  const kernel = typeof loaded === "string" ? undefined : loaded;
  const processes = kernel ? windowsProcesses(kernel) : runtimeProcesses(runtime);
  const fallback = "openLock" in runtime.fallback();
  // Not by FFI in a Worker, where that can be helped: what kernel32 opened stays open when the Worker is terminated.
  const files = runtime.isMainThread() || !fallback ? kernel : undefined;
  const because = typeof loaded === "string" ? loaded : "a Worker's files are to be closed when it is terminated";
  let self: Identity | undefined;
  // Not Node's fallback, the flock(1) command: what a Cygwin on the PATH has is another lock.
  const way = files ? "ffi" : fallback ? "FsFile" : undefined;
  return {
    ...disk(runtime, files),
    way,
    why: files
      ? "LockFileEx through the runtime's FFI"
      : `${way ? `LockFileEx through ${way}, because ` : "there is no LockFileEx: "}${because}`,
    nonce,
    wallClock: () => new Date().toISOString(),
    self: () => self ??= identify(runtime, processes),
    exists: processes.exists,
    processInfo: processes.processInfo,
    signal: processes.signal,
    resolveParents: filePath,
    // There is no documented way to learn which process has a lock, or a file open, but to try.
    own: () => undefined,
    mounts: () => undefined,
    fileSystem: () => undefined,
    kernelLocks: () => undefined,
    descriptorLocks: () => undefined,
    descriptorStat: () => undefined,
    readLink: () => undefined,
    all: () => undefined,
    hasThread: () => undefined,
    thread: () => undefined,
  };
}

/** See `windows/job.ts`; undefined without FFI. */
export function endTogetherOnWindows(runtime: Runtime): (() => void) | undefined {
  const ffi = runtime.ffi();
  return "unavailable" in ffi ? undefined : endTogether(ffi.library, ffi.bind);
}

/** kernel32 through FFI, or why not. */
function load(runtime: Runtime): Kernel32 | string {
  try {
    const ffi = runtime.ffi();
    return "unavailable" in ffi ? ffi.unavailable : bindKernel32(ffi.library, ffi.bind);
  } catch (error) {
    return `kernel32.dll could not be loaded: ${error instanceof Error ? error.message : error}`;
  }
}

function disk(runtime: Runtime, kernel: Kernel32 | undefined): FileSystem {
  const { permits } = runtime;
  const none = () => {
    throw new SystemError("ENOSYS", "this runtime has no LockFileEx");
  };
  const plain = filesOf(none, permits, runtime.resolvesLinks);
  const base = kernel ? windowsFiles(kernel, permits) : withoutFfi(runtime) ?? plain;
  return {
    ...plain,
    link: patient(plain.link),
    rename: patient(plain.rename),
    // Not unlink: by the next try another's file may have that name.
    stat: base.stat,
    openLock: (path, access, mode) => {
      const file = base.openLock(path, access, mode);
      return { ...file, close: () => unlockAndClose(file) };
    },
    openRead: base.openRead,
  };
}

/** The files of a Deno without FFI; undefined where there is no such thing. */
function withoutFfi(runtime: Runtime): Pick<FileSystem, "openLock" | "openRead" | "stat"> | undefined {
  const fallback = runtime.fallback();
  if (!("openLock" in fallback)) return undefined;
  const stat = (path: string) => {
    if (runtime.permits("read", path)) return fallback.stat(path);
    throw new SystemError(
      "EACCES",
      `this process has no read permission for ${quote(path)}: --allow-read=DIR`,
    );
  };
  return {
    stat,
    openLock: fallback.openLock,
    openRead(path) {
      if (!stat(path)) return undefined; // nearly always, and an error costs more
      try {
        return fallback.openLock(path, "read", 0);
      } catch (error) {
        if (error instanceof SystemError && error.code === "ENOENT") return undefined; // gone since
        throw error;
      }
    },
  };
}

/**
 * "…the time it takes for the operating system to unlock these locks depends
 * upon available system resources. Therefore, it is recommended that your
 * process explicitly unlock all files" (LockFileEx).
 */
function unlockAndClose(file: OpenFile): void {
  try {
    file.unlock?.();
  } catch {
    // Nothing was locked. Or it is Wine 8: Deno unlocks until there is nothing left ("ERROR_NOT_LOCKED", 158, System
    // Error Codes), and Wine says that as ERROR_LOCK_VIOLATION (33). The close does the same.
  }
  file.close();
}

/** Without FFI: what the runtime itself says of other processes, which is less. */
function runtimeProcesses({ may }: Runtime): WindowsProcesses {
  const ask = <T>(pid: number, signal: string | 0, done: T): T | "gone" | SystemError => {
    if (!may.kill()) {
      return new SystemError("EACCES", "this process may not ask whether another one lives (it takes --allow-ffi)");
    }
    const code = killByRuntime(pid, signal);
    if (code === undefined) return done;
    const answer = existence(code === "EACCES" ? "EPERM" : code); // which of the two is up to the runtime
    return answer === "exists" ? new SystemError("EPERM", `process ${pid} may not be ended`) : answer;
  };
  return {
    exists(pid) {
      const answer = ask(pid, 0, "exists" as const);
      return answer instanceof SystemError && answer.code === "EPERM" ? "exists" : answer; // access denied: it is there
    },
    processInfo: () => undefined,
    signal: (pid, name) => ask(pid, name, "sent" as const),
    hostname: () => may.hostname() ? os().hostname() || undefined : undefined,
  };
}

function identify(runtime: Runtime, processes: WindowsProcesses): Identity {
  const { pid } = process;
  const [program, ...args] = process.argv;
  return {
    pid,
    startTime: processes.processInfo(pid)?.startTime,
    // A Linux in WSL has the same host name, the same files under /mnt/c, and other processes under these numbers.
    pidNamespace: "windows",
    host: processes.hostname(),
    command: [nodePath().basename(program), ...args].join(" "),
    runtime: runtime.name,
  };
}

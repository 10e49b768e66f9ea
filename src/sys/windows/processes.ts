/** Processes on Windows. The quotations are from the pages named after the functions. */
import { type ProcessInfo, SystemError } from "../contract.ts";
import { ERROR_ACCESS_DENIED, ERROR_GEN_FAILURE, ERROR_INVALID_PARAMETER } from "./errors.ts";
import { type Kernel32, Win32Failure } from "./kernel32.ts";

const PROCESS_TERMINATE = 1, PROCESS_QUERY_LIMITED_INFORMATION = 0x1000, SYNCHRONIZE = 0x10_0000;
const WAIT_OBJECT_0 = 0;
/** COMPUTER_NAME_FORMAT: what `os.hostname()` is too. */
const ComputerNamePhysicalDnsHostname = 5;

/** The signals that mean an end, and so are what `TerminateProcess` does. */
const ENDING = new Set(["SIGTERM", "SIGKILL", "SIGINT", "SIGQUIT", "SIGABRT"]);

/** What {@linkcode windowsProcesses} gives. */
export interface WindowsProcesses {
  exists(pid: number): "exists" | "gone" | SystemError;
  processInfo(pid: number): ProcessInfo | undefined;
  signal(pid: number, name: string): "sent" | "gone" | SystemError;
  hostname(): string | undefined;
}

/** The processes of this machine. */
export function windowsProcesses(kernel: Kernel32): WindowsProcesses {
  const { bool, raw } = kernel;

  /** A handle while `use` runs; or why there is none. */
  const withProcess = <T>(pid: number, rights: number, use: (handle: number) => T): T | Win32Failure => {
    const handle = kernel.handle("OpenProcess", rights, 0, pid);
    if (handle instanceof Win32Failure) return handle;
    try {
      // Windows has opened 4712 for 4713: ids are multiples of four, and it drops the rest without a word.
      // "If the function fails, the return value is zero" (GetProcessId): that is no other process, but enough for no end.
      const opened = raw.GetProcessId(handle);
      if (opened === 0 && (rights & PROCESS_TERMINATE) !== 0) {
        return new Win32Failure("GetProcessId", ERROR_GEN_FAILURE);
      }
      if (opened !== 0 && opened !== pid) return new Win32Failure("GetProcessId", ERROR_INVALID_PARAMETER);
      return use(handle);
    } finally {
      raw.CloseHandle(handle);
    }
  };

  /**
   * A handle to a process keeps its id alive beyond its end, so that it can be
   * opened says little. Not GetExitCodeProcess: STILL_ACTIVE, 259, may
   * be an exit code. A process object is signaled when the process has ended; any other answer, WAIT_FAILED too, is no
   * proof of that.
   */
  const runs = (handle: number) => raw.WaitForSingleObject(handle, 0) !== WAIT_OBJECT_0;

  const absent = (failure: Win32Failure): "exists" | "gone" | SystemError => {
    // The page says so of id 0 only, but it is what Windows answers for an id that no process has.
    if (failure.number === ERROR_INVALID_PARAMETER) return "gone";
    // "If the specified process is the System process or one of the Client Server Run-Time Subsystem (CSRSS) processes,
    // … ERROR_ACCESS_DENIED"; and so for another user's: it is there.
    return failure.number === ERROR_ACCESS_DENIED ? "exists" : failure.toError();
  };

  return {
    exists(pid) {
      const found = withProcess(pid, PROCESS_QUERY_LIMITED_INFORMATION | SYNCHRONIZE, runs);
      return found instanceof Win32Failure ? absent(found) : found ? "exists" : "gone";
    },
    processInfo(pid) {
      const found = withProcess(pid, PROCESS_QUERY_LIMITED_INFORMATION | SYNCHRONIZE, (handle): ProcessInfo => {
        const [creation, exit, inKernel, user] = Array.from({ length: 4 }, () => new Uint8Array(8)); // FILETIME
        const told = bool("GetProcessTimes", handle, creation, exit, inKernel, user) === true;
        const startTime = told ? String(new DataView(creation.buffer).getBigUint64(0, true)) : undefined;
        return { startTime, state: runs(handle) ? "R" : "X" };
      });
      return found instanceof Win32Failure ? undefined : found;
    },
    signal(pid, name) {
      if (!ENDING.has(name)) return new SystemError("ENOTSUP", `Windows cannot send ${name} to another process`);
      const ended = withProcess(
        pid,
        PROCESS_TERMINATE | PROCESS_QUERY_LIMITED_INFORMATION | SYNCHRONIZE,
        (handle) => runs(handle) ? bool("TerminateProcess", handle, 1) : "gone",
      );
      if (ended === true) return "sent";
      if (ended === "gone") return "gone";
      return ended.number === ERROR_INVALID_PARAMETER ? "gone" : ended.toError();
    },
    hostname() {
      const name = new Uint16Array(256), size = new Uint32Array([256]);
      const format = ComputerNamePhysicalDnsHostname;
      if (bool("GetComputerNameExW", format, new Uint8Array(name.buffer), new Uint8Array(size.buffer)) !== true) {
        return undefined;
      }
      return String.fromCharCode(...name.subarray(0, size[0]));
    },
  };
}

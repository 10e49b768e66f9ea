/**
 * A lock on Windows belongs to its process alone: no child can have it too. So
 * a command that runs under it has to end with us, however we end, or it would
 * run on without. A job object sees to that.
 */
import type { Bind } from "../abi.ts";
import type { Signature } from "../abi.ts";

const SYMBOLS = {
  CreateJobObjectW: { parameters: ["usize", "usize"], result: "usize" }, // LPSECURITY_ATTRIBUTES, LPCWSTR: both NULL
  SetInformationJobObject: { parameters: ["usize", "i32", "buffer", "u32"], result: "i32" },
  AssignProcessToJobObject: { parameters: ["usize", "usize"], result: "i32" },
  OpenProcess: { parameters: ["u32", "i32", "u32"], result: "usize" },
  CloseHandle: { parameters: ["usize"], result: "i32" },
} as const satisfies Record<string, Signature>;

const JobObjectExtendedLimitInformation = 9, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE = 0x2000;
/** JOBOBJECT_EXTENDED_LIMIT_INFORMATION on 64 bits, and where in it the LimitFlags are. */
const LIMITS_SIZE = 144, LIMIT_FLAGS = 16;
const PROCESS_TERMINATE = 1, PROCESS_SET_QUOTA = 0x100;

/**
 * From now on every process that this one starts ends with it: "Causes all
 * processes associated with the job to terminate when the last handle to the
 * job is closed" (JOBOBJECT_BASIC_LIMIT_INFORMATION), and the system closes ours
 * when we are gone. "…any child processes it creates using CreateProcess are also associated
 * with the job" (Job Objects). The returned function lifts that again, for a normal
 * end: what a command leaves running is none of ours. undefined: it cannot be had.
 */
export function endTogether(library: string, bind: Bind): (() => void) | undefined {
  const kernel = bind(library, SYMBOLS);
  const job = Number(kernel.CreateJobObjectW(0, 0)); // a handle is a small number, see kernel32.ts
  if (job === 0) return undefined;
  const limit = (flags: number): boolean => {
    const limits = new Uint8Array(LIMITS_SIZE);
    new DataView(limits.buffer).setUint32(LIMIT_FLAGS, flags, true);
    return kernel.SetInformationJobObject(job, JobObjectExtendedLimitInformation, limits, LIMITS_SIZE) !== 0;
  };
  const self = Number(kernel.OpenProcess(PROCESS_TERMINATE | PROCESS_SET_QUOTA, 0, process.pid));
  const assigned = self !== 0 && limit(JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE) &&
    kernel.AssignProcessToJobObject(job, self) !== 0;
  if (self !== 0) kernel.CloseHandle(self);
  if (assigned) return () => void limit(0);
  kernel.CloseHandle(job);
  return undefined;
}

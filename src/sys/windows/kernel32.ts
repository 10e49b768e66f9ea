/**
 * The functions of kernel32.dll that we call, the same in every runtime once
 * its FFI has bound them. Win32's error numbers become names here. The pages of
 * the Win32 documentation are named after the functions.
 *
 * A HANDLE is a pointer that is a number: "64-bit versions of Windows use
 * 32-bit handles for interoperability" ("Interprocess Communication Between
 * 32-bit and 64-bit Applications"), so it goes through a double unharmed.
 */
import type { Bind } from "../abi.ts";
import type { Signature } from "../abi.ts";
import { SystemError } from "../contract.ts";
import { windowsErrorName } from "./errors.ts";

/** DWORD is u32, BOOL i32; HANDLE, LARGE_INTEGER and a pointer that is NULL are usize. */
const SYMBOLS = {
  // LPCWSTR name, DWORD access, DWORD share, LPSECURITY_ATTRIBUTES, DWORD disposition, DWORD flags, HANDLE template
  CreateFileW: { parameters: ["buffer", "u32", "u32", "usize", "u32", "u32", "usize"], result: "usize" },
  CloseHandle: { parameters: ["usize"], result: "i32" },
  // HANDLE, DWORD flags, DWORD reserved, DWORD lengthLow, DWORD lengthHigh, LPOVERLAPPED
  LockFileEx: { parameters: ["usize", "u32", "u32", "u32", "u32", "buffer"], result: "i32" },
  UnlockFileEx: { parameters: ["usize", "u32", "u32", "u32", "buffer"], result: "i32" },
  // HANDLE, LPVOID, DWORD length, LPDWORD done, LPOVERLAPPED
  ReadFile: { parameters: ["usize", "buffer", "u32", "buffer", "buffer"], result: "i32" },
  WriteFile: { parameters: ["usize", "buffer", "u32", "buffer", "buffer"], result: "i32" },
  SetFilePointerEx: { parameters: ["usize", "usize", "usize", "u32"], result: "i32" },
  SetEndOfFile: { parameters: ["usize"], result: "i32" },
  GetFileInformationByHandle: { parameters: ["usize", "buffer"], result: "i32" },
  GetFileInformationByHandleEx: { parameters: ["usize", "i32", "buffer", "u32"], result: "i32" },
  GetFileType: { parameters: ["usize"], result: "u32" },
  GetLastError: { parameters: [], result: "u32" },
  OpenProcess: { parameters: ["u32", "i32", "u32"], result: "usize" },
  GetProcessId: { parameters: ["usize"], result: "u32" },
  WaitForSingleObject: { parameters: ["usize", "u32"], result: "u32" },
  GetProcessTimes: { parameters: ["usize", "buffer", "buffer", "buffer", "buffer"], result: "i32" },
  TerminateProcess: { parameters: ["usize", "u32"], result: "i32" },
  GetComputerNameExW: { parameters: ["i32", "buffer", "buffer"], result: "i32" },
} as const satisfies Record<string, Signature>;

/** Which library, and where it may lie for a Deno whose `--allow-ffi` names paths; see {@linkcode libraryOf}. */
export const KERNEL32 = {
  // A bare name, and no guess: a module of that name that the process has loaded already is what it means, and that is
  // looked for before any directory ("Dynamic-link library search order"). Every process has this one.
  library: "kernel32.dll",
  paths: ["C:\\Windows\\System32\\kernel32.dll"],
};

/** A call that failed: by number, where the caller tells some apart. */
export class Win32Failure {
  readonly number: number;
  readonly #call: string;

  constructor(call: string, number: number) {
    this.#call = call;
    this.number = number;
  }

  /** For the rest of the library. */
  toError(words = ""): SystemError {
    const name = windowsErrorName(this.number);
    return new SystemError(name, `${this.#call} answered ${name} (Win32 error ${this.number})${words && `: ${words}`}`);
  }
}

/** The functions, and how one is called. */
export interface Kernel32 {
  /** Unguarded: of those whose failure needs no number. */
  readonly raw: Record<keyof typeof SYMBOLS, (...values: unknown[]) => unknown>;
  /** One that returns a BOOL. */
  bool(name: keyof typeof SYMBOLS, ...values: unknown[]): true | Win32Failure;
  /** One that returns a HANDLE. */
  handle(name: "CreateFileW" | "OpenProcess", ...values: unknown[]): number | Win32Failure;
}

/** The last error got lost so often before it is believed that there was none. */
const TRIES = 3;

/** Binds kernel32. Throws what the runtime's FFI throws. */
export function bindKernel32(library: string, bind: Bind): Kernel32 {
  const raw = bind(library, SYMBOLS);
  const lastError: () => number = raw.GetLastError;
  lastError(); // the first call may compile its trampoline, and that makes system calls

  /**
   * "…call GetLastError immediately when a function's return value indicates that such a call will return useful
   * data": it is the very next operation, and the runtime may still have been faster. 0 is no failure's number, so
   * the call is made again, which is harmless for all of these: each failed, and none waits.
   */
  const retry = <T>(name: string, call: () => T | undefined): T | Win32Failure => {
    let number = 0;
    for (let tries = 0; tries < TRIES && number === 0; tries++) {
      const result = call();
      if (result !== undefined) return result;
      number = lastError();
    }
    return new Win32Failure(name, number);
  };
  return {
    raw,
    bool(name, ...values) {
      const call = raw[name];
      return retry(name, () => call(...values) !== 0 || undefined);
    },
    handle(name, ...values) {
      const call = raw[name];
      return retry(name, () => {
        const handle = BigInt.asIntN(64, BigInt(call(...values)));
        // INVALID_HANDLE_VALUE of CreateFileW, NULL of OpenProcess
        return handle === -1n || handle === 0n ? undefined : Number(handle);
      });
    },
  };
}

/** A string for a parameter of type LPCWSTR: UTF-16, with its NUL. */
export function wide(text: string): Uint8Array {
  const units = new Uint16Array(text.length + 1);
  for (let i = 0; i < text.length; i++) units[i] = text.charCodeAt(i);
  return new Uint8Array(units.buffer);
}

/** An OVERLAPPED for one call on a handle that is not asynchronous: where in the file, in bytes. */
export function overlapped(offset: bigint): Uint8Array {
  const bytes = new Uint8Array(32); // Internal, InternalHigh, Offset, OffsetHigh, hEvent
  new DataView(bytes.buffer).setBigUint64(16, offset, true);
  return bytes;
}

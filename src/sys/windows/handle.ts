/** An open file on Windows: read, written and locked by its handle. The quotations are from the functions' pages. */
import type { FileStat, OpenFile } from "../contract.ts";
import { ERROR_HANDLE_EOF, ERROR_IO_PENDING, ERROR_LOCK_VIOLATION } from "./errors.ts";
import { type Kernel32, overlapped, Win32Failure } from "./kernel32.ts";

const LOCKFILE_FAIL_IMMEDIATELY = 1, LOCKFILE_EXCLUSIVE_LOCK = 2;

/**
 * The one byte that is locked: 2^62, beyond all content, for what is locked
 * others can neither read nor write ("Locking and Unlocking Byte Ranges in
 * Files"; not so in Wine 8, which lets them). "Locking a region that goes beyond
 * the current end-of-file position is not an error" (LockFileEx). A program that
 * locks a file as a whole (Rust, Go, a Deno without FFI) locks this byte too.
 */
export const LOCKED_BYTE = 2n ** 62n;

/** The file behind a handle. */
export function openFile({ bool, raw }: Kernel32, handle: number, stat: () => FileStat): OpenFile {
  let locked = false;
  const done = new Uint32Array(1);
  const transfer = (name: "ReadFile" | "WriteFile", bytes: Uint8Array, offset: number): number => {
    const result = bool(name, handle, bytes, bytes.length, new Uint8Array(done.buffer), overlapped(BigInt(offset)));
    if (result === true) return done[0];
    // "If lpOverlapped is not NULL, then when a synchronous read operation reaches the end of a file, ReadFile returns
    // FALSE and GetLastError returns ERROR_HANDLE_EOF" (ReadFile).
    if (name === "ReadFile" && result.number === ERROR_HANDLE_EOF) return 0;
    throw result.toError(result.number === ERROR_LOCK_VIOLATION ? "another process has locked its content" : "");
  };
  const must = (result: true | Win32Failure): void => {
    if (result instanceof Win32Failure) throw result.toError();
  };
  return {
    // No number for a child: "If the file handle is inherited by a process created by the locking process, the child
    // process is not granted access to the locked region" (LockFileEx).
    fd: undefined,
    stat,
    read(limit) {
      const buffer = new Uint8Array(limit);
      let length = 0;
      while (length < limit) {
        const more = transfer("ReadFile", buffer.subarray(length), length);
        if (more === 0) break;
        length += more;
      }
      return buffer.subarray(0, length);
    },
    write(bytes) {
      let written = 0;
      while (written < bytes.length) written += transfer("WriteFile", bytes.subarray(written), written);
    },
    empty() {
      must(bool("SetFilePointerEx", handle, 0, 0, 0)); // FILE_BEGIN: the calls above move it
      must(bool("SetEndOfFile", handle));
    },
    flock(mode) {
      const flags = LOCKFILE_FAIL_IMMEDIATELY | (mode === "exclusive" ? LOCKFILE_EXCLUSIVE_LOCK : 0);
      const result = bool("LockFileEx", handle, flags, 0, 1, 0, overlapped(LOCKED_BYTE));
      if (result === true) {
        locked = true;
        return "locked";
      }
      // "If an exclusive lock is requested for a range of a file that already has a shared or exclusive lock, the function
      // returns the error ERROR_IO_PENDING" (LockFileEx); Windows says so of an asynchronous handle, and the other of ours.
      if (result.number === ERROR_LOCK_VIOLATION || result.number === ERROR_IO_PENDING) return "held";
      throw result.toError();
    },
    unlock: () => locked && raw.UnlockFileEx(handle, 0, 1, 0, overlapped(LOCKED_BYTE)),
    close: () => raw.CloseHandle(handle),
  };
}

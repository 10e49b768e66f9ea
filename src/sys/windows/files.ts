/**
 * Files on Windows, by handles of kernel32: a lock belongs to a handle, and no
 * runtime's own file shows its. Each call is named after its page in the Win32
 * documentation, which the quotations are from.
 */
import type { Permits } from "../primitives.ts";
import { quote } from "../printable.ts";
import { type Access, type FileStat, type OpenFile, SystemError } from "../contract.ts";
import {
  ERROR_ACCESS_DENIED,
  ERROR_DELETE_PENDING,
  ERROR_FILE_NOT_FOUND,
  ERROR_PATH_NOT_FOUND,
  ERROR_SHARING_VIOLATION,
} from "./errors.ts";
import { openFile } from "./handle.ts";
import { type Kernel32, wide, Win32Failure } from "./kernel32.ts";
import { patiently } from "./patience.ts";
import { extended } from "./paths.ts";

const GENERIC_READ = 0x8000_0000, GENERIC_WRITE = 0x4000_0000, FILE_READ_ATTRIBUTES = 0x80;
const FILE_SHARE_READ = 1, FILE_SHARE_WRITE = 2, FILE_SHARE_DELETE = 4;
const CREATE_NEW = 1, OPEN_EXISTING = 3, OPEN_ALWAYS = 4;
/** BACKUP_SEMANTICS: "You must set this flag to obtain a handle to a directory". */
const FILE_FLAG_BACKUP_SEMANTICS = 0x0200_0000, FILE_FLAG_OPEN_REPARSE_POINT = 0x0020_0000;
const FILE_ATTRIBUTE_DIRECTORY = 0x10, FILE_ATTRIBUTE_REPARSE_POINT = 0x400;
const FILE_TYPE_DISK = 1, FILE_TYPE_PIPE = 3;
/** Of GetFileInformationByHandleEx. */
const FileBasicInfo = 0, FileIdInfo = 18;

const DISPOSITION: Record<Access, number> = {
  make: CREATE_NEW,
  create: OPEN_ALWAYS,
  write: OPEN_EXISTING,
  read: OPEN_EXISTING,
};

/** What {@linkcode windowsFiles} gives. */
export interface WindowsFiles {
  openLock(path: string, access: Access): OpenFile;
  openRead(path: string): OpenFile | undefined;
  stat(path: string): FileStat | undefined;
}

/** The files of this machine, seen through what this process may do. */
export function windowsFiles(kernel: Kernel32, permits: Permits): WindowsFiles {
  const { bool, raw } = kernel;

  const must = (result: true | Win32Failure): void => {
    if (result instanceof Win32Failure) throw result.toError();
  };

  /**
   * FILE_FLAG_OPEN_REPARSE_POINT: a symlink, a junction or any other reparse
   * point is opened itself, and refused by its attribute then ("Normal reparse
   * point processing will not occur; CreateFile will attempt to open the reparse
   * point", CreateFileW; not so in Wine 8, which follows symlinks of the Unix
   * below it). All of them: what stands for another file is not the file that
   * others lock.
   */
  const create = (path: string, rights: number, share: number, disposition: number, flags = 0) =>
    kernel.handle(
      "CreateFileW",
      wide(extended(path)),
      rights,
      share,
      0,
      disposition,
      FILE_FLAG_OPEN_REPARSE_POINT | flags,
      0,
    );

  const all = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

  /**
   * Without FILE_SHARE_DELETE, so that no process deletes or renames the file while
   * it is held or waited for: "…other processes cannot open the file or device
   * if they request delete access" (CreateFileW). A program that has it open
   * like that already (a scanner, FILE_FLAG_DELETE_ON_CLOSE) is let be.
   */
  const openForLock = (path: string, rights: number, disposition: number): number | Win32Failure => {
    const handle = create(path, rights, FILE_SHARE_READ | FILE_SHARE_WRITE, disposition);
    return handle instanceof Win32Failure && handle.number === ERROR_SHARING_VIOLATION
      ? create(path, rights, all, disposition)
      : handle;
  };

  /** FILE_BASIC_INFO has it, by the file system's clock, in 100 ns since 1601. */
  const changed = (handle: number): number => {
    const info = new DataView(new ArrayBuffer(40)); // its fourth is the ChangeTime
    const told = bool("GetFileInformationByHandleEx", handle, FileBasicInfo, new Uint8Array(info.buffer), 40) === true;
    const sinceUnix = info.getBigInt64(24, true) - 116_444_736_000_000_000n; // 1970, as the other systems count
    return told ? Number(sinceUnix / 10_000_000n) : 0;
  };

  /** `ages`: whether its age may be asked for, which is another call. */
  const describe = (handle: number, path: string, ages: boolean): FileStat => {
    const info = new DataView(new ArrayBuffer(52)); // BY_HANDLE_FILE_INFORMATION
    must(bool("GetFileInformationByHandle", handle, new Uint8Array(info.buffer)));
    const attributes = info.getUint32(0, true);
    const index = (BigInt(info.getUint32(44, true)) << 32n) | BigInt(info.getUint32(48, true));
    // "The 64-bit identifier in this structure is not guaranteed to be unique on ReFS": there is one of 128 bits, but
    // not on every file system. Some servers have neither: there a file is what its path says.
    const id = new Uint8Array(24); // FILE_ID_INFO
    const whole = bool("GetFileInformationByHandleEx", handle, FileIdInfo, id, id.length) === true
      ? [...id].map((byte) => byte.toString(16).padStart(2, "0")).join("")
      : index === 0n
      ? extended(path).toLowerCase()
      : "";
    return {
      kind: kindOf(handle, attributes),
      identity: `${info.getUint32(28, true)}:${index}:${whole}`,
      inode: String(BigInt(Number(index))),
      size: info.getUint32(32, true) * 2 ** 32 + info.getUint32(36, true),
      changed: ages ? changed(handle) : 0,
    };
  };

  const kindOf = (handle: number, attributes: number): FileStat["kind"] => {
    if (attributes & FILE_ATTRIBUTE_REPARSE_POINT) return "symlink";
    if (attributes & FILE_ATTRIBUTE_DIRECTORY) return "directory";
    const type = raw.GetFileType(handle);
    return type === FILE_TYPE_DISK ? "file" : type === FILE_TYPE_PIPE ? "fifo" : "device";
  };

  const look = (path: string) => create(path, FILE_READ_ATTRIBUTES, all, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS);

  /** What is there for a moment only: a file that is being deleted, which may not even be looked at; see `patience.ts`. */
  const passes = ({ number }: Win32Failure, path: string): boolean => {
    if (number !== ERROR_ACCESS_DENIED) return number === ERROR_DELETE_PENDING;
    const looked = look(path);
    if (looked instanceof Win32Failure) return true; // or gone by now
    raw.CloseHandle(looked);
    return false;
  };
  const opened = (path: string, open: () => number | Win32Failure): number | Win32Failure =>
    patiently(open, (result) => result instanceof Win32Failure && passes(result, path));

  const stat = (path: string): FileStat | undefined => {
    allow("read", path);
    return see(path, opened(path, () => look(path)));
  };

  /** What a handle that was opened to look is of. */
  const see = (path: string, handle: number | Win32Failure): FileStat | undefined => {
    if (handle instanceof Win32Failure) {
      if (isMissing(handle)) return undefined;
      throw handle.toError();
    }
    try {
      return describe(handle, path, true);
    } finally {
      raw.CloseHandle(handle);
    }
  };

  const allow = (kind: "read" | "write", path: string) => {
    if (permits(kind, path)) return;
    const needed = "its directory is what the lock needs: --allow-read=DIR --allow-write=DIR";
    throw new SystemError("EACCES", `this process has no ${kind} permission for ${quote(path)}; ${needed}`);
  };

  /** What stands there, where access to it is denied: without FILE_FLAG_BACKUP_SEMANTICS it is to a directory. */
  const denied = ({ number }: Win32Failure, path: string) =>
    number === ERROR_ACCESS_DENIED ? see(path, look(path))?.kind : undefined;

  /** What was opened, if it is a plain file; the device behind a name would have been refused by its name. */
  const plain = (handle: number, path: string, ages: boolean): OpenFile => {
    let first: FileStat | undefined;
    const file = openFile(kernel, handle, () => {
      const stat = first ?? describe(handle, path, ages);
      first = undefined; // it grows, so that is good for one answer
      return stat;
    });
    try {
      const stat = file.stat(), { kind } = stat;
      first = stat;
      if (kind === "symlink") throw isReparsePoint(path);
      if (kind !== "file") throw new SystemError("EINVAL", `${quote(path)} is a ${kind}, not a file`);
      return file;
    } catch (error) {
      file.close();
      throw error;
    }
  };

  return {
    openLock(path, access) {
      allow("read", path);
      if (access !== "read") allow("write", path);
      const rights = access === "read" ? GENERIC_READ : GENERIC_READ + GENERIC_WRITE;
      const open = () => openForLock(path, rights, DISPOSITION[access]);
      // What is denied is tried in other ways next, and those need not wait again.
      const handle = access === "create" ? opened(path, open) : open();
      if (!(handle instanceof Win32Failure)) return plain(handle, path, false);
      const kind = denied(handle, path);
      if (kind === "symlink") throw isReparsePoint(path);
      if (kind === "directory") throw new SystemError("EISDIR", `${quote(path)} is a directory`);
      const violated = handle.number === ERROR_SHARING_VIOLATION;
      throw handle.toError(violated ? "another program has it open and does not share it" : "");
    },
    openRead(path) {
      allow("read", path);
      const handle = opened(path, () => create(path, GENERIC_READ, all, OPEN_EXISTING));
      if (!(handle instanceof Win32Failure)) return plain(handle, path, true);
      if (isMissing(handle)) return undefined;
      const kind = denied(handle, path);
      if (kind === "symlink") throw isReparsePoint(path);
      if (kind === "directory") throw new SystemError("EINVAL", `${quote(path)} is a directory, not a file`);
      throw handle.toError();
    },
    stat,
  };
}

const isReparsePoint = (path: string) =>
  new SystemError("ELOOP", `${quote(path)} is a symlink or another reparse point`);
const isMissing = ({ number }: Win32Failure) => number === ERROR_FILE_NOT_FOUND || number === ERROR_PATH_NOT_FOUND;

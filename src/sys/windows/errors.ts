/**
 * Windows' error numbers to the names that the rest of the library knows, from
 * "System Error Codes" (winerror.h). Where several say the same to a user of a
 * lock they share a name.
 */
export const WINDOWS: Record<number, string> = {
  1: "ENOSYS", // ERROR_INVALID_FUNCTION: what a file system answers that has no such call (LockFileEx on \\\\wsl$: WSL#5762)
  2: "ENOENT", // ERROR_FILE_NOT_FOUND
  3: "ENOENT", // ERROR_PATH_NOT_FOUND: a directory on the way is missing, or is none
  4: "EMFILE", // ERROR_TOO_MANY_OPEN_FILES
  5: "EACCES", // ERROR_ACCESS_DENIED; also for a directory, and for a file whose deletion is pending
  6: "EBADF", // ERROR_INVALID_HANDLE
  8: "ENOMEM", // ERROR_NOT_ENOUGH_MEMORY
  14: "ENOMEM", // ERROR_OUTOFMEMORY
  19: "EROFS", // ERROR_WRITE_PROTECT
  20: "ENXIO", // ERROR_BAD_UNIT
  21: "EBUSY", // ERROR_NOT_READY: a drive without a disk
  31: "EIO", // ERROR_GEN_FAILURE
  32: "EBUSY", // ERROR_SHARING_VIOLATION
  33: "EBUSY", // ERROR_LOCK_VIOLATION; of LockFileEx it is contention, and known there by its number
  36: "ENOLCK", // ERROR_SHARING_BUFFER_EXCEEDED
  39: "ENOSPC", // ERROR_HANDLE_DISK_FULL
  50: "ENOTSUP", // ERROR_NOT_SUPPORTED: a file system, or a server, without byte-range locks
  53: "ENOENT", // ERROR_BAD_NETPATH
  65: "EACCES", // ERROR_NETWORK_ACCESS_DENIED
  67: "ENOENT", // ERROR_BAD_NET_NAME
  80: "EEXIST", // ERROR_FILE_EXISTS
  87: "EINVAL", // ERROR_INVALID_PARAMETER
  112: "ENOSPC", // ERROR_DISK_FULL
  123: "EINVAL", // ERROR_INVALID_NAME
  145: "ENOTEMPTY", // ERROR_DIR_NOT_EMPTY
  161: "EINVAL", // ERROR_BAD_PATHNAME
  183: "EEXIST", // ERROR_ALREADY_EXISTS
  206: "ENAMETOOLONG", // ERROR_FILENAME_EXCED_RANGE
  223: "EFBIG", // ERROR_FILE_TOO_LARGE
  267: "ENOTDIR", // ERROR_DIRECTORY
  303: "EBUSY", // ERROR_DELETE_PENDING
  1314: "EPERM", // ERROR_PRIVILEGE_NOT_HELD
  1392: "EIO", // ERROR_FILE_CORRUPT
  1450: "ENOMEM", // ERROR_NO_SYSTEM_RESOURCES
  1816: "EDQUOT", // ERROR_NOT_ENOUGH_QUOTA
  1920: "EACCES", // ERROR_CANT_ACCESS_FILE: a reparse point that cannot be followed
  1921: "ELOOP", // ERROR_CANT_RESOLVE_FILENAME
};

/** Those that are compared by number, because their name says too little. */
export const ERROR_FILE_NOT_FOUND = 2,
  ERROR_PATH_NOT_FOUND = 3,
  ERROR_ACCESS_DENIED = 5,
  ERROR_GEN_FAILURE = 31,
  ERROR_SHARING_VIOLATION = 32,
  ERROR_LOCK_VIOLATION = 33,
  ERROR_HANDLE_EOF = 38,
  ERROR_INVALID_PARAMETER = 87,
  ERROR_DELETE_PENDING = 303,
  ERROR_IO_PENDING = 997;

/** The name of an error number; `errno 71` where it has none here. */
export const windowsErrorName = (number: number): string => WINDOWS[number] ?? `errno ${number}`;

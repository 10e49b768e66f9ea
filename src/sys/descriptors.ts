/**
 * Which descriptors this process was started with, and which the runtime has
 * opened for itself: a lock on one of those would be none, and a command must
 * not get them.
 */
import { readdirSync } from "node:fs";
import { resolve } from "node:path";
import { byteString, c, fromText } from "./bytes.ts";
import type { Bind } from "./abi.ts";
import { F_GETFD, F_GETFL, O_ACCMODE } from "./libc_command.ts";

/** What is known about descriptors. */
export interface Descriptors {
  inherited(fd: number): boolean;
  /** Makes the next program inherit those that `wanted` wants, where the runtime would have prevented it. */
  passOn(wanted: (fd: number) => boolean): void;
}

/** Binds them. `marks`: see `Runtime.marksInherited`. */
export function bindDescriptors(libc: ReturnType<Bind>, marks: boolean): Descriptors {
  const nothing = new Uint8Array(8);
  const flag = (fd: number): number => libc.fcntl(fd, F_GETFD, nothing);
  /** Whether it is to be read, written or both, as a number. */
  const access = (fd: number): number => libc.fcntl(fd, F_GETFL, nothing) & O_ACCMODE;

  /** What a descriptor of a process is, such as `pipe:[4711]`. */
  const target = (process: number | "self", fd: number): string | undefined => {
    const text = new Uint8Array(4096);
    const length = Number(libc.readlink(c(`/proc/${process}/fd/${fd}`), text, text.length));
    return length < 0 || length > text.length ? undefined : byteString(text.subarray(0, length));
  };
  /** The descriptors of a process. */
  const all = (process: number | "self"): number[] => {
    try {
      return readdirSync(`/proc/${process}/fd`).map(Number);
    } catch {
      return []; // no /proc, or another user's process: the caller goes by what it knows without
    }
  };

  /** A runtime that marks all as its own leaves only this to tell: what it opens is epoll and its like, and pipes. */
  const isOwn = (fd: number): boolean => {
    const name = target("self", fd);
    if (name === undefined || name.startsWith("anon_inode:")) return name !== undefined;
    const cache = process.env.NODE_COMPILE_CACHE; // Bun keeps the directory open
    if (!name.startsWith("pipe:")) return !!cache && name.startsWith(fromText(`${resolve(cache)}/`));
    const otherEnd = (other: number) => other > 2 && target("self", other) === name && access(other) !== access(fd);
    // Both ends, and not those of our parent: make's job server hands its children both.
    return all("self").some(otherEnd) && !all(process.ppid).some((theirs) => target(process.ppid, theirs) === name);
  };
  const inherited = (fd: number): boolean => {
    const flags = flag(fd);
    if (flags === -1) return false;
    return fd <= 2 || (marks ? !isOwn(fd) : flags === 0);
  };

  return {
    inherited,
    passOn(wanted) {
      if (!marks) return;
      for (const fd of all("self").filter((fd) => wanted(fd) && inherited(fd))) {
        const copy = libc.dup(fd);
        libc.dup2(copy, fd); // what dup2 makes has no close-on-exec
        libc.close(copy);
      }
    },
  };
}

/**
 * Other code in this process may close a descriptor that is ours: by a number that it has closed before, or in a loop
 * over all numbers. The lock is gone then, and the number is the next file's that is opened. That file is not ours to
 * lock, to write, or to close: once a `release()` closed a program's log.
 */
import { CLOSED } from "../record/messages.ts";
import { type OpenFile, type System, SystemError } from "../sys/contract.ts";

/** An open file, and which file it was when it was opened. */
interface Ours {
  readonly file: OpenFile;
  readonly token: string;
}

/** Why it is lost where the number is a descriptor of the lock file again, or still: it has no lock. */
export const UNLOCKED = `${CLOSED}, or unlocked`;

/** Whether a descriptor is still of the file that was opened. `true` too if the system does not say. */
export function isOurs({ file, token }: Ours): boolean {
  try {
    return file.stat().identity === token;
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
    return error.code !== "EBADF";
  }
}

/** Closes it, unless its number is another file's by now; whether it was ours. */
export function closeOurs(opened: Ours): boolean {
  const ours = isOurs(opened);
  if (ours) opened.file.close();
  return ours;
}

/**
 * Whether the kernel shows a lock on a descriptor of this process: `/proc/self/fdinfo` (proc(5)). undefined where there
 * is no such file. That it shows none proves something only if it has shown one: gVisor never does, nor does a FUSE
 * program that answers flock(2) itself. (On 9p it is one of fcntl(2).)
 */
export function showsLock(sys: System, { fd }: OpenFile): boolean | undefined {
  const text = fd === undefined ? undefined : sys.own(`fdinfo/${fd}`);
  return text === undefined ? undefined : /^lock:.*\s(?:FLOCK|POSIX)\s/m.test(text);
}

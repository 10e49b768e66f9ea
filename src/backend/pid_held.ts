/** A PID file that is held: watched over, and given up. */
import { type System, SystemError } from "../sys/contract.ts";
import { pidPath } from "./entry.ts";
import { abandon, drop } from "./ours.ts";
import { nonceAt } from "./publish.ts";

const LOST = "its PID file was deleted or replaced while it was held";

/** Releases; where that fails, the next try of this process does. */
export function releaseQuietly(sys: System, path: string, nonce: string): void {
  try {
    release(sys, path, nonce);
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
    abandon(nonce);
  }
}

/** A deleted PID file is not made again, as `P` is: another may have had the lock since, and its release left no trace. */
export function verify(sys: System, path: string, nonce: string): string | undefined {
  try {
    if (isOurs(sys, path, nonce)) return undefined;
    drop(nonce);
    return LOST;
  } catch (error) {
    if (error instanceof SystemError) return undefined; // it cannot be looked at; nothing says that it is lost
    throw error;
  }
}

/** Not where another kind of file took its place, or its directory did not stay one. */
function isOurs(sys: System, path: string, nonce: string): boolean {
  try {
    return sys.stat(pidPath(path))?.kind === "file" && nonceAt(sys, pidPath(path)) === nonce;
  } catch (error) {
    if (error instanceof SystemError && error.code === "ENOTDIR") return false;
    throw error;
  }
}

/** Gives it up, and removes it; else why it was lost. `beforeRelease` is called in between, while it is still held. */
export function release(sys: System, path: string, nonce: string, beforeRelease?: () => void): string | undefined {
  // Another's file is never touched (agent-device#2523).
  const ours = isOurs(sys, path, nonce);
  if (ours) {
    beforeRelease?.();
    sys.unlink(pidPath(path));
  }
  drop(nonce);
  return ours ? undefined : LOST;
}

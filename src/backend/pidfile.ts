/**
 * The PID-file back end, for where there is no kernel lock. A file that appears
 * complete or not at all (`link(2)`), and a takeover that only one process can
 * make: it is the one that creates the file named after the dead owner's nonce.
 *
 * "Dead, so unlink and create again" lets two processes in: both find it dead,
 * the first takes it, the second unlinks the first one's file. The labels are
 * the steps of docs/protocol.md; `tests/explore` tries every interleaving of this very code.
 */
import type { Attempt, Entry, Refusal, Request } from "./contract.ts";
import { judge } from "../record/owner.ts";
import type { LockHolder } from "../record/record.ts";
import { LockTable } from "../sys/locks.ts";
import { type OpenFile, type System, SystemError } from "../sys/contract.ts";
import {
  isKept,
  isLeased,
  linkPath,
  pidPath,
  pidRecordOf,
  readContent,
  readEntry,
  refusalBy,
  temporaryPath,
} from "./entry.ts";
import { isHeld } from "./open.ts";
import { hold, isAbandoned, removed } from "./ours.ts";
import { release, releaseQuietly, verify } from "./pid_held.ts";
import { discard, publish, sweep } from "./publish.ts";

/** More steps than other processes can cause by coming and going: a program plays with the files. */
export const STEPS_LIMIT = 10_000;

/** Maximum number of takeovers that died one after another. */
export const LONGEST_CHAIN = 100;

/** Where an attempt stands: a step of the protocol, and all that it knows there. */
export type Step =
  | { readonly at: "A1" | "A2" }
  /** `root`: the dead owner's nonce in `P.pid`; `cur`: the last one of the chain. */
  | { readonly at: "A3" | "A4" | "A5" | "A6"; readonly root: Entry; readonly cur: string; readonly hops: number }
  /** A takeover by `other` is under way, if `P.pid` still is what it takes over. */
  | { readonly at: "A4 again"; readonly root: Entry; readonly other: Entry }
  | { readonly at: "sweep" | "B"; readonly nonce: string; readonly stale?: LockHolder; readonly cur?: string };

/** One try, never waiting. Throws {@linkcode SystemError} for everything but contention. */
export function tryPidFile(sys: System, request: Request): Attempt {
  // Seen beforehand, it is refused without a trace; what cannot be seen is found in step B.
  const seen = kernelLocksSeen(sys, request.path);
  if (seen) return { refusal: seen };
  let step: Step = { at: "A2" }; // before A1, so that a refused try writes nothing
  for (let steps = 0; steps < STEPS_LIMIT; steps++) {
    const next = advance(sys, request, step);
    if (!("at" in next)) return next;
    step = next;
  }
  throw new SystemError("ESTALE", `${pidPath(request.path)} comes and goes again and again`);
}

function kernelLocksSeen(sys: System, path: string): Refusal | undefined {
  const kernelLocks = sys.kernelLocks();
  const stat = kernelLocks === undefined ? undefined : sys.stat(path);
  // Where the kernel can be asked, what /proc/locks shows only vaguely is left to that.
  if (!stat) return undefined;
  const table = new LockTable(kernelLocks ?? "", sys.mounts());
  if (table.flocks(stat, !sys.way).length === 0 && table.lessee(stat) === undefined) return undefined;
  return { token: stat.identity };
}

const isDead = ({ nonce, owner }: Entry, { declaredDead }: Request): boolean =>
  owner.state === "dead" || (owner.state === "unknown" && declaredDead?.has(nonce) === true);

/** One step. Nothing but what a {@linkcode Step} holds is carried from one to the next. */
export function advance(sys: System, request: Request, step: Step): Step | Attempt {
  const { path } = request;
  switch (step.at) {
    case "A1": {
      const nonce = sys.nonce();
      return publish(sys, request, pidPath(path), nonce) === "made" ? { at: "B", nonce } : { at: "A2" };
    }
    case "A2": {
      const root = readEntry(sys, path, pidPath(path));
      if (!root) return { at: "A1" };
      if (isAbandoned(root.nonce)) {
        sys.unlink(pidPath(path));
        removed(root.nonce);
        return { at: "A1" };
      }
      return isDead(root, request) ? { at: "A3", root, cur: root.nonce, hops: 0 } : { refusal: refusalBy(root) };
    }
    case "A3":
      return publish(sys, request, linkPath(path, step.cur), sys.nonce()) === "made"
        ? { ...step, at: "A5" }
        : { ...step, at: "A4" };
    case "A4": {
      const other = readEntry(sys, path, linkPath(path, step.cur));
      if (!other) return { at: "A2" };
      if (!isDead(other, request)) return { at: "A4 again", root: step.root, other };
      // Each hop is a takeover that died; links that lead in a circle were planted.
      if (step.hops === LONGEST_CHAIN) throw new SystemError("ELOOP", `the files beside ${pidPath(path)} form a loop`);
      return { ...step, at: "A3", cur: other.nonce, hops: step.hops + 1 };
    }
    case "A4 again":
      return readEntry(sys, path, pidPath(path))?.nonce === step.root.nonce
        ? { refusal: refusalBy(step.other, "it takes the lock over from an owner that died") }
        : { at: "A2" };
    case "A5":
      return withLink(sys, linkPath(path, step.cur), () => {
        const found = readEntry(sys, path, pidPath(path));
        return found?.nonce === step.root.nonce ? { ...step, at: "A6" } : undefined;
      }) ?? { at: "A2" };
    case "A6": {
      const nonce = sys.nonce();
      return withLink(sys, linkPath(path, step.cur), () => {
        replace(sys, request, nonce);
        return { at: "sweep", nonce, stale: step.root.stale, cur: step.cur };
      });
    }
    case "sweep":
      discard(sys, linkPath(path, step.cur ?? step.nonce)); // also where the directory cannot be listed
      sweep(sys, path, step.nonce);
      return { at: "B", nonce: step.nonce, stale: step.stale };
    case "B":
      return validateClaim(sys, request, step.nonce, step.stale);
  }
}

/** Calls with our link in place, which keeps every other process from taking over: it is removed if the call fails. */
function withLink<T extends Step | undefined>(sys: System, link: string, call: () => T): T {
  let next: T | undefined;
  try {
    return next = call();
  } finally {
    if (!next) discard(sys, link);
  }
}

/** A6. No other process replaces it: our link stands, and each one that comes later finds it. */
function replace(sys: System, request: Request, nonce: string): void {
  const temporary = temporaryPath(request.path, sys.self().pid, nonce);
  sys.create(temporary, pidRecordOf(sys, request, nonce), request.fileMode);
  try {
    sys.rename(temporary, pidPath(request.path));
  } catch (error) {
    discard(sys, temporary);
    throw error;
  }
}

/** B. The kernel's holders announce themselves before they look at `P.pid`, and we after: one sees the other. */
function validateClaim(sys: System, { path }: Request, nonce: string, stale: LockHolder | undefined): Attempt {
  let refusal: Refusal | undefined, held = false;
  try {
    refusal = kernelHolder(sys, path);
    held = refusal === undefined;
  } catch (error) {
    if (!isLeased(error) && !isKept(error)) throw error;
    refusal = { token: undefined };
  } finally {
    if (!held) releaseQuietly(sys, path, nonce);
  }
  if (refusal) return { refusal };
  hold(nonce);
  return {
    hold: {
      token: nonce,
      stale,
      fd: undefined,
      watched: pidPath(path),
      verify: () => verify(sys, path, nonce),
      release: (beforeRelease) => release(sys, path, nonce, beforeRelease),
      onExit: () => (releaseQuietly(sys, path, nonce), "released"),
    },
  };
}

function kernelHolder(sys: System, path: string): Refusal | undefined {
  // Exact, where records and /proc/locks are not: a shared holder has no record, a container hides its locks.
  const probed = sys.way ? probe(sys, path) : undefined;
  if (probed) return probed === "free" ? undefined : { token: probed.heldOn };
  const read = readContent(sys, path);
  if (!read) return undefined;
  const { content, stat } = read;
  const holder = content.kind === "record" ? content.holder : undefined;
  const recorded = holder !== undefined && judge(holder, sys, sys.fileSystem(path)).state !== "dead";
  return recorded ? { token: stat.identity } : kernelLocksSeen(sys, path);
}

/** Asks the kernel by a try. It refuses no process that would have got the lock, because our `P.pid` stands. */
function probe(sys: System, path: string): "free" | { heldOn: string } | undefined {
  let file: OpenFile | undefined;
  try {
    file = sys.openLock(path, "read", 0);
    const { kind, identity } = file.stat();
    if (kind !== "file") return undefined; // refused by the reading that follows
    return isHeld(sys, path, file.flock("exclusive")) ? { heldOn: identity } : "free";
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
    if (file && error.code === "EACCES") throw error; // denied to us only: others may have it
    return error.code === "ENOENT" ? "free" : undefined; // undefined: no kernel lock on this file system
  } finally {
    file?.close();
  }
}

/**
 * The PID-file back end, for where there is no kernel lock. A file that appears
 * complete or not at all (`link(2)`), and a takeover that only one process can
 * make: it is the one that creates the file named after the dead owner's nonce.
 *
 * "Dead, so unlink and create again" lets two processes in: both find it dead,
 * the first takes it, the second unlinks the first one's file. The labels are
 * the protocol's; `tests/explore` tries every interleaving of this very code.
 */
import { basename, dirname, join } from "node:path";
import type { Attempt, Refusal, Request } from "../backend.ts";
import type { Content, LockHolder } from "../record.ts";
import { flocksOn } from "../sys/locks.ts";
import { judge } from "../owner.ts";
import { type System, SystemError } from "../sys/sys.ts";
import {
  type Entry,
  linkPath,
  NO_HARD_LINKS,
  pidPath,
  readContent,
  readEntry,
  recordOf,
  refusalBy,
  temporaryPath,
} from "./entry.ts";

/** Where an attempt stands: a step of the protocol, and all that it knows there. */
export type Step =
  | { readonly at: "A1" | "A2" }
  /** `root`: the dead owner's nonce in `P.pid`; `cur`: the last one of the chain. */
  | { readonly at: "A3" | "A4" | "A5" | "A6"; readonly root: Entry; readonly cur: string }
  /** A takeover by `other` is under way, if `P.pid` still is what it takes over. */
  | { readonly at: "A4 again"; readonly root: Entry; readonly other: Entry }
  | { readonly at: "sweep" | "B"; readonly nonce: string; readonly stale?: LockHolder; readonly cur?: string };

/** One try, never waiting. Throws {@linkcode SystemError} for everything but contention. */
export function tryPidFile(sys: System, request: Request): Attempt {
  let step: Step = { at: "A2" }; // before A1, so that a refused try writes nothing
  for (;;) {
    const next = advance(sys, request, step);
    if (!("at" in next)) return next;
    step = next;
  }
}

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
      return root.owner.state === "dead" ? { at: "A3", root, cur: root.nonce } : { refusal: refusalBy(root) };
    }
    case "A3":
      return publish(sys, request, linkPath(path, step.cur), sys.nonce()) === "made"
        ? { ...step, at: "A5" }
        : { ...step, at: "A4" };
    case "A4": {
      const other = readEntry(sys, path, linkPath(path, step.cur));
      if (!other) return { at: "A2" };
      return other.owner.state === "dead"
        ? { ...step, at: "A3", cur: other.nonce }
        : { at: "A4 again", root: step.root, other };
    }
    case "A4 again":
      return readEntry(sys, path, pidPath(path))?.nonce === step.root.nonce
        ? { refusal: refusalBy(step.other) }
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
        return { at: "sweep", nonce, stale: step.root.holder, cur: step.cur };
      });
    }
    case "sweep":
      discard(sys, linkPath(path, step.cur ?? step.nonce)); // also where the directory cannot be listed
      sweep(sys, path, step.nonce);
      return { at: "B", nonce: step.nonce, stale: step.stale };
    case "B":
      return settle(sys, request, step.nonce, step.stale);
  }
}

/** While our link stands nobody else takes over, so it goes if this comes to nothing. */
function withLink<T extends Step | undefined>(sys: System, link: string, call: () => T): T {
  let next: T | undefined;
  try {
    return next = call();
  } finally {
    if (!next) discard(sys, link);
  }
}

/** A6. Nobody else may: our link stands, and everybody who comes later finds it. */
function replace(sys: System, request: Request, nonce: string): void {
  const temporary = temporaryPath(request.path, sys.self().pid, nonce);
  sys.create(temporary, recordOf(sys, request, nonce), request.fileMode);
  try {
    sys.rename(temporary, pidPath(request.path));
  } catch (error) {
    discard(sys, temporary);
    throw error;
  }
}

/** B. The kernel's holders announce themselves before they look at `P.pid`, and we after: one sees the other. */
function settle(sys: System, { path }: Request, nonce: string, stale: LockHolder | undefined): Attempt {
  let refusal: Refusal | undefined;
  try {
    refusal = kernelHolder(sys, path);
  } catch (error) {
    release(sys, path, nonce);
    throw error;
  }
  if (!refusal) return { hold: { token: nonce, stale, release: () => release(sys, path, nonce) } };
  release(sys, path, nonce);
  return { refusal };
}

function kernelHolder(sys: System, path: string): Refusal | undefined {
  const read = readContent(sys, path);
  if (!read) return undefined;
  const { content, stat } = read;
  const holder = content.kind === "record" ? content.holder : undefined;
  const verdict = holder && judge(holder, sys);
  if (verdict && verdict.state !== "dead") {
    return { token: stat.identity, reason: verdict.reason, holder: () => holder };
  }
  const locks = flocksOn(sys.kernelLocks() ?? "", stat);
  if (locks.length === 0) return undefined;
  const pids = locks.map(({ pid }) => pid).join(", ");
  return {
    token: stat.identity,
    reason: `the kernel shows a lock on it, taken by pid ${pids}`,
    holder: () => undefined,
  };
}

function release(sys: System, path: string, nonce: string): "released" | "lost" {
  // Another's file is never touched (agent-device#2523).
  if (nonceAt(sys, pidPath(path)) !== nonce) return "lost";
  sys.unlink(pidPath(path));
  return "released";
}

function nonceAt(sys: System, file: string): string | undefined {
  const content = readContent(sys, file)?.content;
  return content?.kind === "record" ? content.holder.nonce : undefined;
}

/** Makes `target` with a record of ours, complete or not at all, unless it exists. */
function publish(sys: System, request: Request, target: string, nonce: string): "made" | "exists" {
  const bytes = recordOf(sys, request, nonce);
  const temporary = temporaryPath(request.path, sys.self().pid, nonce);
  sys.create(temporary, bytes, request.fileMode);
  try {
    sys.link(temporary, target);
    return "made";
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
    // NFS may repeat a request whose answer was lost, and then say EEXIST of our own link (open(2), O_EXCL).
    if (error.code === "EEXIST") return nonceAt(sys, target) === nonce ? "made" : "exists";
    // A process on another host, to which our PID is nobody's, swept the temporary file.
    if (error.code === "ENOENT") return "exists";
    if (!NO_HARD_LINKS.has(error.code)) throw error;
  } finally {
    discard(sys, temporary);
  }
  return publishWithoutLinks(sys, request, target, nonce, bytes);
}

/** Others see it empty for a moment: where nobody has hard links, a damaged file is never taken over. */
function publishWithoutLinks(sys: System, { fileMode }: Request, target: string, nonce: string, bytes: Uint8Array) {
  try {
    sys.create(target, bytes, fileMode);
  } catch (error) {
    if (error instanceof SystemError && error.code === "EEXIST") return "exists";
    throw error;
  }
  // A process that may link, where we alone may not, takes a file that stays
  // empty for 2 s for a power cut's. If we were stopped that long, it is not ours.
  return nonceAt(sys, target) === nonce ? "made" : "exists";
}

/** Removes a file of ours; where that fails it is litter, which stops nobody once we are dead. */
function discard(sys: System, path: string): void {
  try {
    sys.unlink(path);
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
  }
}

/**
 * Removes what takeovers left: links, for whoever still stands on one fails at
 * A5; and temporary files of the dead. Nothing that has not exactly such a name.
 */
function sweep(sys: System, path: string, nonce: string): void {
  const directory = dirname(path);
  const prefix = `${basename(path)}.pid.`;
  let names: string[] = [];
  try {
    names = sys.list(directory);
  } catch (error) {
    // A directory that may be written but not read: the litter stays.
    if (!(error instanceof SystemError)) throw error;
  }
  for (const name of names) {
    if (!name.startsWith(prefix)) continue;
    const rest = name.slice(prefix.length);
    const file = join(directory, name);
    if (isNonce(rest) ? rest !== nonce : isDeadTemporary(sys, file, rest)) discard(sys, file);
  }
}

const isNonce = (name: string) => /^(?:[0-9a-f]{32}|ino-\d+-\d+(?:-\d+)?)$/.test(name);

function isDeadTemporary(sys: System, file: string, name: string): boolean {
  const pid = /^tmp-([1-9]\d{0,9})-[0-9a-f]{32}$/.exec(name)?.[1];
  if (!pid) return false;
  let content: Content | undefined;
  try {
    content = readContent(sys, file)?.content;
  } catch (error) {
    if (error instanceof SystemError) return false; // not a file, or not ours to read: left alone
    throw error;
  }
  // Its record says whose it is; a cut one has only the name's PID.
  return content?.kind === "record"
    ? judge(content.holder, sys).state === "dead"
    : Number(pid) < 2 ** 31 && sys.exists(Number(pid)) === "gone";
}

/**
 * How the PID-file back end makes its files, complete or not at all, and how it
 * cleans up after itself and after the dead.
 */
import { nodePath } from "../sys/builtin.ts";
import type { Request } from "./contract.ts";
import { judge } from "../record/owner.ts";
import type { Content } from "../record/record.ts";
import { type System, SystemError } from "../sys/contract.ts";
import { noHardLinks, pidRecordOf, readContent, temporaryPath } from "./entry.ts";

/** The nonce of the record in a file. */
export function nonceAt(sys: System, file: string): string | undefined {
  const content = readContent(sys, file)?.content;
  return content?.kind === "record" ? content.holder.nonce : undefined;
}

/** Makes `target` with a record of ours, complete or not at all, unless it exists. */
export function publish(sys: System, request: Request, target: string, nonce: string): "made" | "exists" {
  const bytes = pidRecordOf(sys, request, nonce);
  const temporary = temporaryPath(request.path, sys.self().pid, nonce);
  sys.create(temporary, bytes, request.fileMode);
  try {
    sys.link(temporary, target);
    return "made";
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
    // NFS may repeat a request whose answer was lost, and then say EEXIST of our own link (open(2), O_EXCL).
    if (error.code === "EEXIST") return nonceAt(sys, target) === nonce ? "made" : "exists";
    // A process on another host, where no process has our PID, swept the temporary file.
    if (error.code === "ENOENT") return "exists";
    if (!noHardLinks(error.code)) throw error;
  } finally {
    discard(sys, temporary);
  }
  return publishWithoutLinks(sys, request, target, nonce, bytes);
}

/** Others see it empty for a moment: without hard links, a damaged file is never taken over. */
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

/** Removes a file of ours. If that fails it is litter, and in no other's way once this process is dead. */
export function discard(sys: System, path: string): void {
  try {
    sys.unlink(path);
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
  }
}

/**
 * Removes what takeovers left: links, for a process that still stands on one fails at
 * A5; and temporary files of the dead. Nothing that has not exactly such a name.
 */
export function sweep(sys: System, path: string, nonce: string): void {
  const directory = nodePath().dirname(path);
  const prefix = `${nodePath().basename(path)}.pid.`;
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
    const file = nodePath().join(directory, name);
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
    ? judge(content.holder, sys, sys.fileSystem(file)).state === "dead"
    : Number(pid) < 2 ** 31 && sys.exists(Number(pid)) === "gone";
}

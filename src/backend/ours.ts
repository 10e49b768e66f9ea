/**
 * Which PID files are this thread's own: those that it holds, those that it could not remove, and those that an earlier
 * load of its program left. A watcher starts the next version in the same process (`bun --watch` by exec; `deno watch`
 * without a word to the program), so the owner that such a file names is alive, and is this thread: the program was
 * refused by itself, for good.
 *
 * Such a file differs from one that is held: the holder is still in the thread, and answers when it is asked. Every
 * copy of this library answers, and in every realm (a vm context, a test runner's).
 */
import { COMMAND_LIMIT, type HolderFields, type LockHolder } from "../record/record.ts";
import type { Processes, System } from "../sys/contract.ts";
import { isOfThisThread } from "../record/owner_thread.ts";
import { perThread } from "../sys/thread.ts";

/** Is the PID file with this nonce held? The holder sets `held`. */
interface Question {
  readonly nonce: string;
  held: boolean;
}

/** One for a thread: every copy and every realm can reach the channel of a name. */
const channel = () => process.getBuiltinModule("node:diagnostics_channel").channel("holdfast:pid-file:1");

/** The nonces of the PID files that this copy holds. */
const held = new Set<string>();
/** Kept, for Bun 1.4 collects a channel that is not, and its subscribers with it. */
let answering: ReturnType<typeof channel> | undefined;

/** Nonces of PID files of ours that could not be removed: they hold nothing, and the next try removes them. */
const abandoned = () => perThread("abandoned", () => new Set<string>());

/** Whether this thread released a PID file and could not remove it. */
export const isAbandoned = (nonce: string): boolean => abandoned().has(nonce);

/** Notes a PID file that is held no longer, and could not be removed. */
export function abandon(nonce: string): void {
  drop(nonce);
  abandoned().add(nonce);
}

/** Notes that such a PID file is removed. */
export const removed = (nonce: string): void => void abandoned().delete(nonce);

/** Notes that the PID file with that nonce is held from now on. */
export function hold(nonce: string): void {
  held.add(nonce);
  if (answering) return;
  answering = channel();
  answering.subscribe((message) => {
    const question = message as Question; // the cast: the channel's name is ours, and this file alone publishes there
    if (held.has(question.nonce)) question.held = true;
  });
}

/** Notes that it is held no longer. */
export const drop = (nonce: string): void => void held.delete(nonce);

/** Whether any copy of this library in this thread holds the PID file with that nonce. */
export function isHeldInThisThread(nonce: string): boolean {
  const question: Question = { nonce, held: held.has(nonce) };
  if (!question.held) channel().publish(question);
  return question.held;
}

/**
 * Whether a PID file was left by an earlier load of the program in this very thread. On a local disk only: elsewhere a
 * copy of this whole machine, made while it ran, may hold it under the same facts. Not in Electron, where several
 * programs run in one thread, each with a channel of its own.
 */
export const isLeftHere = (sys: System, file: string, holder: LockHolder): boolean =>
  holder.nonce !== undefined && isOfThisThread(holder, sys) && isOfThisCommand(sys, holder) &&
  process.versions.electron === undefined && !isHeldInThisThread(holder.nonce) && sys.fileSystem(file) === "local";

/**
 * Whether a record has this process's command line. A process that became another program has another one:
 * `holdfast run --no-fork` holds the lock for COMMAND, and COMMAND took it for a file that was left, so there were two
 * holders, and its release freed the lock of both.
 */
export const isOfThisCommand = (processes: Processes, { command }: HolderFields): boolean =>
  command !== undefined && command === processes.self().command?.slice(0, COMMAND_LIMIT);

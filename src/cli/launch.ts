/**
 * How `holdfast run` starts COMMAND. Through the C library, because each runtime's own way changes something: Deno grants
 * a Deno every permission, Bun drops variables, and in text that is not UTF-8 all change bytes. Without FFI, by the runtime.
 */
import type { StdioOptions } from "node:child_process";
import { byLibrary as canaryByLibrary, byRuntime as canaryByRuntime, type Hatch } from "./canary.ts";
import { childProcess, fs } from "../sys/builtin.ts";
import { fromText, isInexact, toText } from "../sys/bytes.ts";
import { type CommandCalls, commandCalls } from "../sys/command.ts";
import { reasonOf } from "../sys/errno.ts";
import { startedWith } from "../sys/environment.ts";
import { exactArguments } from "../sys/given.ts";
import { thisRuntime } from "../sys/mod.ts";
import { quote } from "../sys/printable.ts";
import { statFields } from "../sys/proc.ts";
import type { Runtime } from "../sys/runtime.ts";
import { SystemError } from "../sys/contract.ts";
import { exitStatus, startProgram } from "./program.ts";
import { STATUS } from "./version.ts";
import { signalStatus } from "./words.ts";

/** Its exit status, as a shell has it; or why it could not be started: an errno's name, or words. */
export type End = number | { readonly why: string };

/** COMMAND, started or not. */
export interface Launched {
  readonly pid?: number;
  readonly ended: Promise<End>;
  /** Whether it has ended, asked now where the runtime can: a signal to what has ended is as if it was sent. */
  over(): boolean;
  /** How a canary is started beside it; undefined where the runtime starts no child that only reads a pipe. */
  readonly hatch?: Hatch;
  /** Whether it has not left our process group, as far as that can be seen. */
  isInGroup?(): boolean;
}

/** Where COMMAND finds the lock. */
const LOCK_FD = 3;

/** Time after which an end is noticed whose SIGCHLD was missed, in milliseconds. */
const PAUSE = 1000;

/** Whether COMMAND can be started with the very arguments that were given. */
export function isExact(command: readonly string[]): boolean {
  if (!command.some(isInexact)) return true;
  const calls = commandCalls();
  if (typeof calls !== "string") return calls.exact(command) !== undefined;
  const bytes = exactArguments(startedWith("cmdline"), command);
  return bytes !== undefined && command.every((arg, i) => fromText(arg) === bytes[i]); // it passes text on
}

/** Starts COMMAND, with `fd` as its descriptor 3, and with these signals ignored, which are given by their numbers. */
export function launch(
  command: readonly string[],
  fd: number | undefined,
  ignored: readonly number[],
  files?: number,
): Launched {
  const calls = commandCalls();
  return typeof calls === "string" ? byRuntime(command, fd) : byLibrary(calls, command, fd, ignored, files);
}

function byLibrary(
  calls: CommandCalls,
  command: readonly string[],
  fd: number | undefined,
  ignored: readonly number[],
  files?: number,
): Launched {
  const argv = calls.exact(command);
  if (!argv) return failed("its arguments are not UTF-8, and are not known here");
  let look = () => {};
  const onChild = () => look();
  // Before the start: where our parent ignores SIGCHLD, the kernel would throw the status away.
  process.on("SIGCHLD", onChild);
  const pid = startProgram(calls, argv, { fd, at: fd === undefined ? undefined : LOCK_FD, ignored, files });
  if (pid instanceof SystemError) {
    process.off("SIGCHLD", onChild);
    return failed(pid.code);
  }
  let over = false;
  const ended = new Promise<End>((resolve) => {
    look = () => {
      const status = over ? undefined : calls.poll(pid);
      if (status === undefined) return;
      over = true;
      clearInterval(timer);
      process.off("SIGCHLD", onChild);
      resolve(status instanceof SystemError ? STATUS.system : exitStatus(status));
    };
    const timer = setInterval(look, PAUSE); // and it keeps this process alive
    look();
  });
  return {
    pid,
    ended,
    over: () => (look(), over),
    hatch: canaryByLibrary(calls),
    isInGroup: () => calls.isInGroup(pid),
  };
}

/** Known by what the runtime tells only. */
function told(pid: number | undefined, end: Promise<End>): Launched {
  let over = false;
  return { pid, ended: end.finally(() => over = true), over: () => over };
}

/** Only text is passed on, and a Node of that kind has forgotten which signals were ignored. */
function byRuntime(command: readonly string[], fd: number | undefined): Launched {
  const { start } = thisRuntime();
  if (start) return fd === undefined ? byStart(start, command) : failed("there is no way to give it the lock here");
  const lost = startedWith("environ")?.find((entry) => fromText(toText(entry)) !== entry);
  if (lost !== undefined) {
    const name = quote(toText(lost.split("=", 1)[0]));
    return failed(`the variable ${name} is not UTF-8, and this runtime cannot pass that on (it has no FFI)`);
  }
  const [file, ...args] = command;
  try {
    const stdio = ["inherit", "inherit", "inherit", ...(fd === undefined ? [] : [fd])] satisfies StdioOptions;
    const child = childProcess().spawn(file, args, { stdio });
    const ended = new Promise<End>((resolve) => {
      child.on("error", (error) => resolve({ why: reasonOf(error) }));
      child.on("exit", (code, signal) => resolve(signal ? signalStatus(signal) : code ?? STATUS.system));
    });
    const { pid } = child;
    return {
      ...told(pid, ended),
      hatch: canaryByRuntime,
      isInGroup: () => pid === undefined || groupOf(pid) === groupOf("self"),
    };
  } catch (error) {
    return failed(reasonOf(error));
  }
}

/** The process group, by field 5 of proc(5); undefined where there is no /proc. */
function groupOf(pid: number | "self"): string | undefined {
  try {
    return statFields(fs().readFileSync(`/proc/${pid}/stat`, "latin1"))[2];
  } catch {
    return undefined; // no /proc, or the process has ended
  }
}

function byStart(start: NonNullable<Runtime["start"]>, command: readonly string[]): Launched {
  try {
    const { pid, ended } = start(command);
    const status = ended.then(({ code, signal }) => signal ? signalStatus(signal) : code);
    const known = told(pid, status.catch(() => STATUS.system)); // Deno knows no name of a real-time signal, and throws
    const { may } = thisRuntime();
    return { ...known, ...(may.kill() && may.env() ? { hatch: canaryByRuntime } : {}) }; // another child without a question
  } catch (error) {
    const code = reasonOf(error);
    return code === "ENOEXEC" ? byStart(start, ["/bin/sh", "-c", 'exec "$0" "$@"', ...command]) : failed(code);
  }
}

const failed = (why: string): Launched => ({ ended: Promise.resolve({ why }), over: () => true });

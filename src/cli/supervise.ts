/**
 * COMMAND as a child: it gets the lock's own descriptor and every signal that
 * is sent to this process. So the lock lasts exactly as long as COMMAND runs,
 * even after `kill -9` of this process.
 */
import { reasonOf } from "../sys/errno.ts";
import { isWindows, signals, system } from "../sys/mod.ts";
import { shown } from "../sys/printable.ts";
import { Canary } from "./canary.ts";
import { type End, launch } from "./launch.ts";
import { say } from "./output.ts";
import { STATUS } from "./version.ts";

/** The signals that other processes send to a job to tell it something. Those of the terminal (TSTP, WINCH) come from the kernel to all. */
export const FORWARDED = [
  "SIGTERM",
  "SIGINT",
  "SIGHUP",
  "SIGQUIT",
  "SIGUSR1",
  "SIGUSR2",
  "SIGALRM",
] as const satisfies NodeJS.Signals[];

/**
 * What Windows sends instead: Ctrl-C, Ctrl-Break, and that the console is closed. All processes of the console get it
 * ("CTRL+C and CTRL+BREAK Signals"), so COMMAND has got it itself, and we wait for what it does.
 */
const CONSOLE = ["SIGINT", "SIGBREAK", "SIGHUP"] as const satisfies NodeJS.Signals[];

/** A child that runs. */
export interface Supervised {
  /** Sends it a signal. */
  signal(signal: NodeJS.Signals): void;
  /** Whether it has ended by now. */
  over(): boolean;
  /** Its exit status, as a shell has it, or why it could not be started. */
  readonly ended: Promise<End>;
  /** From now on a signal ends this process. Not before the lock is released, or it would leave its record. */
  leaveSignals(): void;
}

/** Starts COMMAND with `fd` as its descriptor 3. Never throws: see {@linkcode End}. */
export function supervise(command: readonly string[], fd: number | undefined, files?: number): Supervised {
  const ignored = ignoredSignals();
  // Before the start, so that no signal falls between the two. What our parent has had ignored (nohup, `&` in a
  // script) does not reach COMMAND, but has a handler too: Deno, once it has one, dies of the rest by default.
  const handlers = (isWindows() ? CONSOLE : FORWARDED).map((each) => ({
    each,
    handler: isWindows() || ignored.includes(each) ? () => {} : () => forward(each),
  }));
  for (const { each, handler } of handlers) process.on(each, handler);
  const { pid, ended, over, hatch, isInGroup } = launch(command, fd, ignored.map((name) => signals()[name]), files);
  const canary = pid !== undefined && hatch && !isWindows()
    ? new Canary(hatch, FORWARDED.map((name) => signals()[name]))
    : undefined;

  function forward(signal: NodeJS.Signals) {
    // What has left our group, such as timeout(1), was not in the group that got it.
    if (!canary || isInGroup?.() === false) return send(signal);
    canary.tell(signals()[signal], () => send(signal));
  }

  function send(signal: NodeJS.Signals) {
    if (pid === undefined || over()) return; // its number may be another's by then
    try {
      process.kill(pid, signal);
    } catch (error) {
      const reason = reasonOf(error); // without the right (setuid) it is not ours to end
      if (reason !== "ESRCH") say(`${signal} could not be sent to the command: ${reason}`);
    }
  }

  const leaveSignals = () => {
    canary?.end();
    for (const { each, handler } of handlers) process.off(each, handler);
  };
  return { signal: send, over, ended, leaveSignals };
}

/** Says so; 127 where there is no such file, else 126. `code`: an errno's name, or the reason in words. */
export function cannotExecute(file: string, code: string): number {
  const missing = code === "ENOENT" || file === "";
  const none = `there is no such command${file.startsWith("-") ? " (options go before LOCK)" : ""}`;
  const why = missing ? none : code === "EACCES" ? "it is not executable" : code;
  say(`cannot execute ${shown(file)}: ${why}`);
  return missing ? STATUS.notFound : STATUS.cannotExecute;
}

/** The signals that this process was started with as ignored. Node has forgotten them by now, and shows none. */
function ignoredSignals(): NodeJS.Signals[] {
  const digits = /^SigIgn:\s*([0-9a-f]+)$/m.exec(system().own("status") ?? "")?.[1];
  if (digits === undefined) return []; // not Linux
  const mask = BigInt(`0x${digits}`);
  return FORWARDED.filter((name) => mask >> BigInt(signals()[name] - 1) & 1n);
}

/**
 * COMMAND as a child: it gets the lock's own descriptor and every signal that
 * is sent to this process. So the lock lasts exactly as long as COMMAND runs,
 * even after `kill -9` of this process.
 */
import { isWindows, signals, system } from "../sys/mod.ts";
import { shown } from "../sys/printable.ts";
import { launch } from "./launch.ts";
import { isatty, say } from "./output.ts";
import { STATUS } from "./version.ts";

/** The signals that other processes send to a job to tell it something. Those of the terminal (TSTP, WINCH) come from the kernel to all. */
const FORWARDED = [
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
  /** Its exit status, as a shell has it. */
  readonly ended: Promise<number>;
}

/** Starts COMMAND with `fd` as its descriptor 3. Never throws: what cannot be started has ended, with 126 or 127. */
export function supervise(command: readonly string[], fd: number | undefined): Supervised {
  const ignored = ignoredSignals();
  // Before the start, so that no signal falls between the two. What our parent has had ignored (nohup, `&` in a
  // script) does not reach COMMAND, but has a handler too: Deno, once it has one, dies of the rest by default.
  const handlers = (isWindows() ? CONSOLE : FORWARDED).map((each) => ({
    each,
    handler: isWindows() || ignored.includes(each) ? () => {} : () => forward(each),
  }));
  for (const { each, handler } of handlers) process.on(each, handler);
  const { pid, ended, over } = launch(command, fd, ignored.map((name) => signals()[name]));

  function forward(signal: NodeJS.Signals) {
    if ((signal === "SIGINT" || signal === "SIGQUIT") && inForeground()) return; // it has got that itself
    send(signal);
  }

  function send(signal: NodeJS.Signals) {
    if (pid === undefined || over()) return; // its number may be another's by then
    try {
      process.kill(pid, signal);
    } catch (error) {
      // The cast: process.kill throws errors with a code. Without the right (setuid) it is not ours to end.
      const { code } = error as NodeJS.ErrnoException;
      if (code !== "ESRCH") say(`${signal} could not be sent to the command: ${code}`);
    }
  }

  const status = ended.then((end) => {
    for (const { each, handler } of handlers) process.off(each, handler);
    return typeof end === "number" ? end : cannotExecute(command[0], end.why);
  });
  return { signal: send, over, ended: status };
}

/** Says so; 127 where there is no such file, else 126. `code`: an errno's name, or the reason in words. */
export function cannotExecute(file: string, code: string | undefined): number {
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

/**
 * Whether our process group, which is COMMAND's too, has the terminal. Then the
 * kernel sends Ctrl-C to both of us, and a second one would mean "at once" to
 * many programs. A `kill -INT` looks the same: nothing names its sender.
 */
function inForeground(): boolean {
  const stat = system().own("stat");
  if (stat === undefined) return isatty(0) || isatty(2); // not Linux
  const [group, , terminal, foreground] = stat.slice(stat.lastIndexOf(")") + 2).split(" ").slice(2);
  return terminal !== "0" && group === foreground; // fields 5, 7 and 8 of proc(5)
}

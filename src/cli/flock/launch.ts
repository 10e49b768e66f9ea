/** Runs the command under the lock, or becomes it. */
import type { ByteString } from "../../sys/bytes.ts";
import type { CommandCalls } from "../../sys/command.ts";
import { SystemError } from "../../sys/sys.ts";
import { EX_OSERR, EX_UNAVAILABLE } from "./settings.ts";

/** Where the command finds the lock: the lowest number that was free, as if nothing but flock(1) had opened it. */
function lowestFree(calls: CommandCalls): number {
  let number = 0;
  while (calls.inherited(number)) number++;
  return number;
}

const cannotRun = (argv: readonly ByteString[], { code, message }: SystemError) => ({
  status: code === "ENOMEM" ? EX_OSERR : EX_UNAVAILABLE,
  message: `failed to execute ${argv[0]}: ${message}`,
});

/** Where on the PATH a program is. */
function find(calls: CommandCalls, name: ByteString): ByteString {
  if (name.includes("/")) return name;
  const directories = variable(calls, "PATH")?.split(":") ?? [];
  return directories.map((directory) => `${directory || "."}/${name}`).find((path) => calls.access(path, "run")) ??
    name;
}

/** A variable of the environment. */
export function variable(calls: CommandCalls, name: string): ByteString | undefined {
  return calls.environment().find((entry) => entry.startsWith(`${name}=`))?.slice(name.length + 1);
}

/** What it ended with. */
export interface Ended {
  readonly status: number;
  readonly message?: string;
}

/** Starts the command and waits for it. Whoever kills us with SIGKILL leaves it the lock, unless `close`. */
export function run(calls: CommandCalls, argv: readonly ByteString[], fd: number, close: boolean): Ended {
  calls.passOn();
  const start = (argv: readonly ByteString[]) => close ? calls.spawn(argv) : calls.spawn(argv, fd, lowestFree(calls));
  let pid = start(argv);
  // A script without `#!`: execvp(3) gives it to the shell, posix_spawnp(3) does not.
  if (pid instanceof SystemError && pid.code === "ENOEXEC") {
    pid = start(["/bin/sh", find(calls, argv[0]), ...argv.slice(1)]);
  }
  if (pid instanceof SystemError) return cannotRun(argv, pid);
  const ended = calls.wait(pid);
  if (ended instanceof SystemError) return { status: 1, message: `waitpid failed: ${ended.message}` };
  const signal = ended & 0x7f; // WTERMSIG
  return { status: signal === 0 ? ended >> 8 & 0xff : 128 + signal };
}

/** Becomes the command, or says why not and ends: this process is no longer fit to go on. */
export function become(
  calls: CommandCalls,
  argv: readonly ByteString[],
  fd: number,
  say: (text: string) => void,
): never {
  calls.passOn();
  const { status, message } = cannotRun(argv, calls.exec(argv, fd, lowestFree(calls)));
  say(message);
  return calls.exit(status);
}

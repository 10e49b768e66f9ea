/** Runs the command under the lock, or becomes it. */
import type { ByteString } from "../../sys/bytes.ts";
import type { CommandCalls } from "../../sys/command.ts";
import { SystemError } from "../../sys/contract.ts";
import { exitStatus, startProgram } from "../program.ts";
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

/** What it ended with. */
export interface Ended {
  readonly status: number;
  readonly message?: string;
}

/** Starts the command and waits for it. A SIGKILL of this process leaves the command the lock, unless `close`. */
export function run(calls: CommandCalls, argv: readonly ByteString[], fd: number, close: boolean): Ended {
  calls.passOn();
  const pid = startProgram(calls, argv, close ? {} : { fd, at: lowestFree(calls) });
  if (pid instanceof SystemError) return cannotRun(argv, pid);
  const ended = calls.wait(pid);
  if (ended instanceof SystemError) return { status: 1, message: `waitpid failed: ${ended.message}` };
  return { status: exitStatus(ended) };
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

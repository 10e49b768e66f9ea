/** A program that the C library starts: with the arguments and the environment that we were given, byte for byte. */
import type { ByteString } from "../sys/bytes.ts";
import type { CommandCalls, Given } from "../sys/command.ts";
import { SystemError } from "../sys/contract.ts";

/** A variable of the environment. */
export function variable(calls: CommandCalls, name: string): ByteString | undefined {
  return calls.environment().find((entry) => entry.startsWith(`${name}=`))?.slice(name.length + 1);
}

/** Where on the PATH a program is. */
function find(calls: CommandCalls, name: ByteString): ByteString {
  if (name.includes("/")) return name;
  const directories = variable(calls, "PATH")?.split(":") ?? [];
  return directories.map((directory) => `${directory || "."}/${name}`).find((path) => calls.access(path, "run")) ??
    name;
}

/** Starts it. */
export function startProgram(calls: CommandCalls, argv: readonly ByteString[], given?: Given): number | SystemError {
  const pid = calls.spawn(argv, given);
  if (!(pid instanceof SystemError) || pid.code !== "ENOEXEC") return pid;
  // A script without `#!`: execvp(3) gives it to the shell, posix_spawnp(3) does not.
  return calls.spawn(["/bin/sh", find(calls, argv[0]), ...argv.slice(1)], given);
}

/** The wait status of `waitpid(2)`, as a shell has it. */
export function exitStatus(ended: number): number {
  const signal = ended & 0x7f; // WTERMSIG
  return signal === 0 ? ended >> 8 & 0xff : 128 + signal;
}

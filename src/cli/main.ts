#!/usr/bin/env node
/**
 * The command line `holdfast`: flock(1), done better, for cron lines, shell
 * scripts and systemd units.
 *
 * ```sh
 * deno install -g -A --name holdfast jsr:@holdfast/lock/cli
 * holdfast run nightly -- backup.sh
 * ```
 *
 * Started as a program it runs; imported it does nothing.
 *
 * @module
 */
import { Asked, unknown, UsageError } from "./args.ts";
import { forgetFiles } from "../sys/environment.ts";
import { SystemError } from "../sys/contract.ts";
import { COMMANDS } from "./commands.ts";
import { say } from "./output.ts";
import { NAME, STATUS } from "./version.ts";

/**
 * Runs the command line.
 *
 * @param args The arguments, without the program's name.
 * @returns The exit status.
 */
export async function main(args: readonly string[]): Promise<number> {
  const [name = "", ...rest] = args;
  try {
    if (Object.hasOwn(COMMANDS, name)) return await (await COMMANDS[name]()).run(rest, COMMANDS);
    const { help, version } = await import("./help.ts");
    if (name === "-V" || name === "--version") return version.run([], COMMANDS);
    if (name === "-h" || name === "--help") return await help.run([], COMMANDS);
    if (name === "") throw new UsageError("it takes a command");
    const known = [...Object.keys(COMMANDS), "--help", "--version"];
    throw new UsageError(
      await misplaced(name, rest) ?? unknown(name.startsWith("-") ? "option" : "command", name, known),
    );
  } catch (error) {
    return await failed(error, Object.hasOwn(COMMANDS, name) ? name : undefined);
  }
}

/** Of a command's option that stands before the command: where it goes. */
async function misplaced(given: string, rest: readonly string[]): Promise<string | undefined> {
  const command = rest.find((each) => Object.hasOwn(COMMANDS, each));
  if (!given.startsWith("-") || command === undefined) return undefined;
  const [{ optionsOf }, loaded] = [await import("./command.ts"), await COMMANDS[command]()];
  const [flag] = given.split("=");
  const has = optionsOf(loaded).some(({ short, long }) => flag === `--${long}` || flag === `-${short}`);
  return has ? `option ${flag} goes after the command: ${NAME} ${command} ${flag}` : undefined;
}

/** Answers what was asked for, or says what went wrong. */
async function failed(error: unknown, name: string | undefined): Promise<number> {
  if (error instanceof Asked) {
    const { help, version } = await import("./help.ts");
    return error.what === "help" ? await help.run(name ? [name] : [], COMMANDS) : version.run([], COMMANDS);
  }
  const { failureStatus } = await import("./failure.ts");
  const status = failureStatus(error);
  if (status === undefined) throw error;
  const { message } = error as Error; // it was one of our own classes
  say(error instanceof UsageError && name ? `${name}: ${message}` : message);
  if (error instanceof UsageError) say(`"${NAME} ${name ? `${name} ` : ""}--help" shows what it takes`);
  return status;
}

/** Before anything looks at the environment. */
function forgetFilesOrEnd(): void {
  try {
    forgetFiles();
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
    say(error.message);
    process.exit(STATUS.usage);
  }
}

/** Whether this file is the program. */
function isProgram(): boolean {
  // The cast: Node 20 and 22 have no such property.
  const { main } = import.meta as { main?: boolean };
  if (main !== undefined) return main;
  try {
    // Not imports: only these versions need them.
    const [{ realpathSync }, { fileURLToPath }] = [
      process.getBuiltinModule("node:fs"),
      process.getBuiltinModule("node:url"),
    ];
    return realpathSync(process.argv[1]) === fileURLToPath(import.meta.url);
  } catch {
    return false; // there is no such file, as under `node -e`
  }
}

if (isProgram()) {
  // Node warns of its FFI on the standard error of every run: cron would mail it.
  process.removeAllListeners("warning");
  forgetFilesOrEnd();
  main(process.argv.slice(2)).then((status) => process.exit(status), (error) => {
    try {
      console.error(error); // a fault of ours: with its stack
    } finally {
      process.exit(STATUS.system); // Deno throws where standard error is a file on a full disk
    }
  });
}

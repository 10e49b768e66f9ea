/** A terminal of its own for a command: script(1) makes one. */
import { cliEnv } from "./cli.ts";
import type { Child, Place } from "./harness.ts";

const quote = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

/**
 * Starts a command on a terminal. "exec", because script(1) takes $SHELL: bash
 * becomes a lone command by itself, while dash (where nobody has set SHELL, as
 * in CI) stays, is in the foreground with it, and dies of its Ctrl-C.
 */
export function onTerminal(
  { child, dir }: Place,
  command: readonly string[],
  env: Record<string, string> = {},
): Child {
  return child("script", ["-qec", `exec ${command.map(quote).join(" ")}`, "/dev/null"], {
    cwd: dir,
    env: cliEnv(dir, { TERM: "xterm", ...env }),
  });
}

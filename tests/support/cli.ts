/** The command line as the tests start it: in each runtime, with a lock directory of its own. */
import { assertEquals } from "@std/assert";
import { finished } from "node:stream/promises";
import process from "node:process";
import { chmodSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Lock } from "../../mod.ts";
import { type Child, type Place, within } from "./harness.ts";
import { needs } from "./needs.ts";
import { packedModule } from "../../tasks/pack.ts";
import { deno, tool } from "./tools.ts";

const source = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));

/** The runtimes, and Node 20 on what npm users have. */
export const CLI = {
  deno: () => [deno(), "run", "--quiet", "--no-check", "-A", source],
  bun: () => [tool("bun"), source],
  node26: () => [tool("node26"), source],
  node20: () => [tool("node20"), join(dirname(packedModule()), "bin/main.js")],
} as const satisfies Record<string, () => string[]>;

export type CliKind = keyof typeof CLI;

/** Those that have a descriptor to give and a way to exec. */
export const FFI_KINDS = ["deno", "bun", "node26"] as const satisfies CliKind[];

/** What a command came to. */
export interface Outcome {
  readonly code: number | null;
  readonly signal: string | null;
  readonly out: string;
  readonly err: string;
}

export interface CliOptions {
  readonly env?: Record<string, string | undefined>;
  /** What it is run by: `setsid`, so that no terminal of ours is its own. */
  readonly by?: readonly string[];
  readonly cwd?: string;
  /** What it reads; unless given, nothing. */
  readonly input?: string;
}

/** The environment: colours, width and lock directory are the test's own. */
export const cliEnv = (dir: string, env: CliOptions["env"] = {}): Record<string, string | undefined> => ({
  ...process.env,
  NO_COLOR: undefined,
  FORCE_COLOR: undefined,
  COLUMNS: undefined,
  HOLDFAST_DIR: `${dir}/named`,
  ...env,
});

/** Starts `holdfast ARGS`; its lines are read with `.line()`. */
export function start({ child, dir }: Place, kind: CliKind, args: readonly string[], options: CliOptions = {}): Child {
  if (kind === "node20") needs("flock"); // it has no FFI, and locks by that
  const { env, by = ["setsid"], cwd = dir } = options;
  const [command, ...rest] = [...by, ...CLI[kind](), ...args];
  return child(command, rest, { cwd, env: cliEnv(dir, env) });
}

/** Asserts that a lock is held by a process which has inherited it. A machine under load may not find that one in time. */
export function assertKeeps(path: string, pid: number): void {
  const { state, holder, reason } = Lock.inspect(path);
  assertEquals(state, "held");
  if (!/not found in time/.test(reason)) assertEquals(holder?.pid, pid, reason);
}

/** Waits for the end, and for all that it said. */
export async function outcome(child: Child): Promise<Outcome> {
  let out = "";
  const { stdout, stderr } = child.process;
  if (!stdout || !stderr) throw new Error("a child has pipes");
  stdout.setEncoding("utf8").on("data", (text) => out += text);
  const ended = await within(20_000, child.ended);
  await Promise.all([stdout, stderr].map((each) => each.readableEnded ? undefined : finished(each)));
  return { ...ended, out, err: child.errors };
}

/** Runs `holdfast ARGS` in Bun to its end, as user 65534, who may look into the test's folder. */
export async function asNobody({ child, dir }: Place, args: readonly string[]): Promise<Outcome> {
  needs("root");
  chmodSync(dir, 0o755);
  const program = fileURLToPath(new URL("../fixtures/unprivileged.mjs", import.meta.url));
  const running = child(tool("bun"), [program, ...args], { cwd: dir, env: cliEnv(dir, { HOME: `${dir}/home` }) });
  running.close();
  return await outcome(running);
}

/** Runs `holdfast ARGS` to its end. */
export async function holdfast(
  place: Place,
  kind: CliKind,
  args: readonly string[],
  options: CliOptions = {},
): Promise<Outcome> {
  const child = start(place, kind, args, options);
  if (options.input !== undefined) child.write(options.input);
  child.close();
  return await outcome(child);
}

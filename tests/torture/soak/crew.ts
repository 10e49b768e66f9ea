/** Starts those who contend for one lock: our five ways to take it, flock(1), and Python. */
import process from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { Modules } from "../contention/modules.ts";
import { Child, type Kind } from "../../support/harness.ts";
import { deno, tool } from "../../support/tools.ts";
import { PYTHON } from "../../support/needs.ts";

const here = (file: string) => fileURLToPath(new URL(file, import.meta.url));

export type Contender = Kind | "flock(1)" | "python";

/** What one of them does, over and over. Times in milliseconds; probabilities from 0 to 1. */
export interface Job {
  readonly path: string;
  readonly pipe: string;
  /** The files guarded by the lock; absent where two may be inside after a deletion. */
  readonly counter?: string;
  readonly list?: string;
  /** How it acquires: one of these each time, for worker.mjs. */
  readonly styles: readonly ("acquire" | "sync" | "burst")[];
  /** At most so many tries of a burst. */
  readonly burst: number;
  /** Half of the holds last up to so long, the others no longer than they must. */
  readonly hold: number;
  /** It pauses up to so long in between. */
  readonly gap: number;
  /** How often it acquires shared. */
  readonly shared: number;
  readonly backend: "auto" | "flock" | "pidfile";
  /** How often an exclusive holder deletes the lock file itself. */
  readonly deletes: number;
  /** Whether locks may be lost here. */
  readonly losses: boolean;
}

/** A place in the crew. */
export interface Post {
  readonly kind: Contender;
  readonly job: Job;
  readonly modules: Modules;
  /** Whether it may be killed; whoever takes its place is another. */
  readonly mortal: boolean;
  /** A command that it is run by, such as strace with its options; for one that is not killed. */
  readonly by?: readonly string[];
}

/** Starts one. `id` is its own, also where its PID was another's before. */
export function start({ kind, job, modules, by = [] }: Post, id: number, seed: number, dir: string): Child {
  const own = JSON.stringify({ ...job, id, seed });
  const module = () => {
    const file = modules.file(kind as Kind); // the cast: asked only for our own kinds
    if (!file) throw new Error(`${modules.lock} has no file for ${kind}`);
    return [here("worker.mjs"), pathToFileURL(file).href, own];
  };
  const readable = [dir, fileURLToPath(new URL("../../..", import.meta.url)), modules.folder].join(",");
  const commands: Record<Contender, () => string[]> = {
    deno: () => [deno(), "run", "--quiet", "--no-prompt", "--no-check", "-A", ...module()],
    "deno-no-ffi": () => [
      ...[deno(), "run", "--quiet", "--no-prompt", "--no-check"],
      ...[`--allow-read=${readable}`, `--allow-write=${dir}`, ...module()],
    ],
    bun: () => [tool("bun"), "run", ...module()],
    node26: () => [tool("node26"), "--disable-warning=ExperimentalWarning", ...module()],
    node20: () => [tool("node20"), ...module()],
    python: () => [PYTHON, here("worker.py"), own],
    "flock(1)": () => [
      ...["bash", here("worker.sh"), String(id), String(seed % 32768), job.path, job.pipe],
      ...[job.counter ?? "/dev/null", job.list ?? "/dev/null", String(Math.round(job.shared * 100))],
    ],
  };
  const [command, ...args] = [...by, ...commands[kind]()];
  return new Child(command, args, { cwd: dir, env: { ...process.env, NO_COLOR: "1" } });
}

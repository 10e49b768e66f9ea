/** The processes of the benchmark: ours in each runtime, and the peers'; each answers a command a line. */
import process from "node:process";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { Modules } from "../tests/torture/contention/modules.ts";
import { Child } from "../tests/support/harness.ts";
import { deno, tool } from "../tests/support/tools.ts";
import { debianPeers, floor, NPM, npmPeers, PYTHON, PYTHON_KINDS } from "./peers.ts";

const here = (file: string) => fileURLToPath(new URL(file, import.meta.url));

export const RUNTIMES = ["Deno", "Deno, no FFI", "Bun", "Node 26"] as const;
export type Runtime = typeof RUNTIMES[number];

export const command = (runtime: Runtime): string[] => ({
  Deno: [deno(), "run", "-A", "--quiet", "--no-check"],
  "Deno, no FFI": [deno(), "run", "--quiet", "--no-check", "--no-prompt", "--allow-read", "--allow-write"],
  Bun: [tool("bun")],
  "Node 26": [tool("node26"), "--disable-warning=ExperimentalWarning"],
}[runtime]);

/** Who is measured, and how its process is started. */
export interface Member {
  /** Such as `lockfile`. */
  readonly name: string;
  /** Where it runs: a runtime, or "C", "Python", "shell". */
  readonly where: string;
  readonly ours: boolean;
  readonly argv: readonly string[];
}

/** Which of JavaScript's peers run where; `Deno, no FFI` is the same Deno to them. */
const PEER_RUNTIMES: readonly Runtime[] = ["Deno", "Bun", "Node 26"];

/** Everybody. */
export class Crew {
  readonly floor: Member;
  /** open, flock, close: the least that anybody has to do. */
  readonly flock: Member;
  readonly ours: readonly Member[];
  readonly peers: readonly Member[];
  readonly #modules: Modules;

  /** Installs what is missing. `folder`: for what is compiled; `only` ours where no peer is wanted. */
  constructor(modules: Modules, folder: string, only = false) {
    this.#modules = modules;
    const binary = floor(folder);
    this.floor = { name: "floor", where: "C", ours: false, argv: [binary, "floor"] };
    this.flock = { name: "flock(2)", where: "C", ours: false, argv: [binary, "flock"] };
    this.ours = RUNTIMES.map((runtime) => ({
      name: "holdfast",
      where: runtime,
      ours: true,
      argv: [...command(runtime), here("worker.mjs"), "holdfast", this.module(runtime)],
    }));
    this.peers = only ? [] : [...npmMembers(), ...otherMembers()];
  }

  /** Our module for a runtime, as its users have it: JavaScript but in Deno. */
  module(runtime: Runtime): string {
    const file = this.#modules.file(runtime === "Bun" || runtime === "Node 26" ? "node26" : "deno");
    return pathToFileURL(file!).href; // `!`: ours has a file for each
  }
}

function npmMembers(): Member[] {
  const folder = npmPeers();
  return PEER_RUNTIMES.flatMap((where) =>
    Object.keys(NPM).map((name) => ({
      name,
      where,
      ours: false,
      argv: [...command(where), join(folder, "worker.mjs"), name, name],
    }))
  );
}

function otherMembers(): Member[] {
  debianPeers();
  return [
    {
      name: "Deno.FsFile",
      where: "Deno",
      ours: false,
      argv: [...command("Deno"), here("worker.mjs"), "Deno.FsFile", "none"],
    },
    { name: "flock(1)", where: "shell", ours: false, argv: ["bash", here("worker.sh")] },
    ...PYTHON_KINDS.map((name) => ({
      name,
      where: "Python",
      ours: false,
      argv: [PYTHON, here("worker.py"), name],
    })),
  ];
}

/** The one line of a crash that says why. */
function reason(errors: string): string {
  // deno-lint-ignore no-control-regex -- colours
  const lines = errors.replace(/\x1b\[\d*m/g, "").split("\n").map((line) => line.trim()).filter(Boolean);
  return (lines.find((line) => /panic: |symbol lookup error|^error: |Error: /.test(line)) ?? lines[0] ?? "it ended")
    .replace(/^.*?(symbol lookup error: )\S*\//, "$1").replace(/^error: (Uncaught )?(\(in promise\) )?/, "")
    .replace(/ at \/\S*\//, " at ").replace(/file:\/\/\S*\//g, "").replace(/(\w\w)\. .*/, "$1");
}

/** One process. */
export class Worker {
  readonly member: Member;
  readonly #child: Child;
  readonly #ready: Promise<string>;

  /** `by`: a command that it is run by, such as strace with its options. */
  constructor(member: Member, by: readonly string[] = []) {
    this.member = member;
    const [program, ...args] = [...by, ...member.argv];
    this.#child = new Child(program, args, { env: { ...process.env, NO_COLOR: "1" } });
    this.#ready = this.#child.line();
    this.#ready.catch(() => {}); // told by whoever asks
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** Sends a command. The answer comes parsed; an error of the worker's is thrown, as is its death. */
  async ask<T>(command: string, ...args: (string | number)[]): Promise<T> {
    return await this.tell(command, ...args)();
  }

  /** The same in two steps: sent now; call what is returned to wait for the answer. */
  tell(command: string, ...args: (string | number)[]): <T>() => Promise<T> {
    const sent = this.#line(this.#ready.then(() => this.#child.write(`${[command, ...args].join(" ")}\n`)));
    sent.catch(() => {}); // told by whoever waits for it
    return async () => {
      const answer = JSON.parse(await sent);
      if (answer?.error) throw new Error(answer.error);
      return answer;
    };
  }

  async #line(sent: Promise<void>): Promise<string> {
    try {
      await sent;
      return await this.#child.line();
    } catch {
      // Any error here means that the process is gone; what it wrote says more.
      await this.#child.ended;
      throw new Error(reason(this.#child.errors));
    }
  }

  async ready(): Promise<this> {
    try {
      await this.#ready;
    } catch {
      await this.#child.ended;
      throw new Error(reason(this.#child.errors));
    }
    return this;
  }

  /** Lets it end in order. */
  async end(): Promise<void> {
    this.#child.close();
    await this.#child.ended;
  }

  async kill(): Promise<void> {
    await this.#child.kill();
  }
}

/** Does something with workers and ends them all. */
export async function withWorkers<T>(members: readonly Member[], fn: (workers: Worker[]) => Promise<T>): Promise<T> {
  const workers = members.map((member) => new Worker(member));
  try {
    return await fn(workers);
  } finally {
    await Promise.all(workers.map((worker) => worker.kill()));
  }
}

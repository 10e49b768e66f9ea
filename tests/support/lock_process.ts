/** Processes that lock what they are told, in each runtime; and those of them that have nothing left to do. */
import type { SpawnOptions } from "node:child_process";
import { tmpdir } from "node:os";
import process from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";
import { packedModule } from "../../tasks/pack.ts";
import { Child } from "./child.ts";
import { needs } from "./needs.ts";
import { deno, tool } from "./tools.ts";

const here = (file: string) => fileURLToPath(new URL(file, import.meta.url));
const repository = here("../../");

/** The runtimes that an agent can run in. */
export const KINDS = ["deno", "deno-no-ffi", "bun", "node26", "node20"] as const;
export type Kind = typeof KINDS[number];

/** The runtime that runs this test. */
export const ownKind: Kind = process.versions.deno ? "deno" : process.versions.bun ? "bun" : "node26";

export interface AgentOptions {
  readonly env?: Record<string, string>;
  /** A command that the agent is run by, such as strace with its options. */
  readonly by?: readonly string[];
  /** The folder whose files it may use, where the runtime has permissions. */
  readonly allow?: string;
  /** Deno's permission flags instead of the kind's. */
  readonly flags?: readonly string[];
  readonly cwd?: string;
  /** What it locks with instead of our own code: the path of a module. */
  readonly module?: string;
}

/** What an agent answers instead of a value. */
export class AgentError extends Error {
  readonly code: string | undefined;
  readonly path: string | undefined;
  // deno-lint-ignore no-explicit-any -- JSON
  readonly holder: any;

  // deno-lint-ignore no-explicit-any -- JSON
  constructor(error: any) {
    super(error.message);
    this.name = error.name;
    this.code = error.code;
    this.path = error.path;
    this.holder = error.holder;
  }
}

/** Commands after which an agent is as it was, once its locks are released. Others may have changed its process. */
const TRACELESS = new Set([
  ...["new", "named", "try", "acquire", "acquireSync", "release", "reset", "held", "backend", "stale", "fd", "verify"],
  ...["inspect", "look", "looks", "scan", "scans", "history", "processState", "clock"],
  ...["tries", "loop", "churn", "count", "fight"],
]);

/** A process that locks what it is told; see fixtures/lock_process.mjs. */
export class Agent extends Child {
  readonly kind: Kind;
  #pid = 0;
  #id = 0;
  #unanswered = 0;
  #changed = false;

  private constructor(kind: Kind, command: string, args: readonly string[], options: SpawnOptions) {
    super(command, args, options);
    this.kind = kind;
  }

  static start(kind: Kind, { env, by = [], allow = tmpdir(), flags, cwd, module }: AgentOptions): Agent {
    const agent = here("../fixtures/lock_process.mjs");
    if (kind === "node20") needs("flock"); // it has no FFI, and locks by that
    module ??= kind === "node20" ? packedModule() : here("../../mod.ts");
    const commands: Record<Kind, () => string[]> = {
      deno: () => [deno(), "run", "--quiet", "--no-prompt", ...(flags ?? ["-A"])],
      "deno-no-ffi": () => [
        deno(),
        "run",
        "--quiet",
        "--no-prompt",
        ...(flags ?? [`--allow-read=${allow},${repository}`, `--allow-write=${allow}`]),
      ],
      bun: () => [tool("bun"), "run"],
      node26: () => [tool("node26"), "--disable-warning=ExperimentalWarning"],
      node20: () => [tool("node20")],
    };
    const [command, ...args] = [...by, ...commands[kind](), agent, pathToFileURL(module).href];
    return new Agent(kind, command, args, { cwd, env: { ...process.env, NO_COLOR: "1", ...env } });
  }

  async ready(): Promise<this> {
    this.#pid ||= JSON.parse(await this.line()).ready;
    return this;
  }

  /** The runtime's own PID, also where another command started it. */
  override get pid(): number {
    return this.#pid || super.pid;
  }

  /** Sends a command; the answer comes as the promise's value, or as {@linkcode AgentError}. */
  // deno-lint-ignore no-explicit-any -- JSON
  async call(command: string, args: Record<string, unknown> = {}): Promise<any> {
    const id = ++this.#id;
    if (!TRACELESS.has(command)) this.#changed = true;
    this.#unanswered++;
    this.write(`${JSON.stringify({ id, command, ...args })}\n`);
    for (;;) {
      const answer = JSON.parse(await this.line());
      if (answer.id !== id) throw new Error(`the agent answered ${JSON.stringify(answer)} to ${command}`);
      this.#unanswered--;
      if (answer.error) throw new AgentError(answer.error);
      return answer.value;
    }
  }

  /** Has it release what it holds; whether it is as good as new then. */
  async reset(): Promise<boolean> {
    if (this.hasEnded || this.wasSignalled || this.#changed || this.#unanswered > 0 || this.errors !== "") return false;
    return await this.call("reset").then(() => true, () => false);
  }

  /** Names a lock; `name` is `"lock"` unless given. */
  async lock(path: string, options: object = {}, name = "lock"): Promise<void> {
    await this.call("new", { name, path, options });
  }

  tryAcquire(name = "lock"): Promise<boolean> {
    return this.call("try", { name });
  }

  async release(name = "lock"): Promise<void> {
    await this.call("release", { name });
  }

  /** Tells it to end in this way and waits for that. */
  async die(how: string): Promise<{ code: number | null; signal: string | null }> {
    this.write(`${JSON.stringify({ id: ++this.#id, command: "die", how })}\n`);
    return await this.ended;
  }
}

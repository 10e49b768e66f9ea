/**
 * What the tests are written with: a test with a folder of its own, agents
 * (processes that lock what they are told), and helpers that reap every child
 * by its PID.
 */
import { type ChildProcess, spawn, type SpawnOptions, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { test as nodeTest } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { Missing, needs, needsFor } from "./needs.ts";
import { packedModule } from "../tasks/pack.ts";
import { deno, tool } from "./tools.ts";

const here = (file: string) => fileURLToPath(new URL(file, import.meta.url));
const repository = here("../");

/** The runtimes that an agent can run in. */
export const KINDS = ["deno", "deno-no-ffi", "bun", "node26", "node20"] as const;
export type Kind = typeof KINDS[number];

/** The runtime that runs this test. */
export const ownKind: Kind = process.versions.deno ? "deno" : process.versions.bun ? "bun" : "node26";

/** What a test is given. */
export interface Place {
  /** A folder that is removed afterwards. */
  readonly dir: string;
  /** A path in it. */
  readonly path: (name?: string) => string;
  /** Starts an agent; it ends with the test. */
  readonly agent: (kind?: Kind, options?: AgentOptions) => Promise<Agent>;
  /** Starts a command; it ends with the test. */
  readonly child: (command: string, args: string[], options?: SpawnOptions) => Child;
}

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

/** How many times longer everything may take: an emulated processor is slow. */
export const SLOW = Number(process.env.HOLDFAST_TEST_SLOW ?? 1);

/** Parts of the names of tests that are left out: a place where they cannot be right; see runners.ts. */
const SKIP: readonly string[] = JSON.parse(process.env.HOLDFAST_TEST_SKIP || "[]");

/** What a test says that is skipped; runners.ts reads it. */
const skipLine = (name: string, { message }: Missing) => `\nskipped: ${name}: it needs ${message}`;

/** A test. It is skipped if it needs what is not there: see needs.ts. Its name is a sentence that begins with the symbol it is about. */
export function test(
  name: string,
  fn: (place: Place) => void | Promise<void>,
  options: { timeout?: number } = {},
): void {
  const skip = SKIP.some((part) => name.includes(part));
  nodeTest(name, { skip, timeout: (options.timeout ?? 120_000) * SLOW }, async (t) => {
    const dir = mkdtempSync(join(process.env.HOLDFAST_TEST_DIR ?? tmpdir(), "holdfast-test-"));
    const children: Child[] = [];
    const keep = <T extends Child>(child: T): T => (children.push(child), child);
    try {
      await fn({
        dir,
        path: (name = "a.lock") => join(dir, name),
        child: (command, args, options) => keep(new Child(command, args, options)),
        agent: async (kind = ownKind, options = {}) =>
          await keep(Agent.start(kind, { allow: dir, ...options })).ready(),
      });
    } catch (error) {
      if (!(error instanceof Missing)) throw error;
      console.log(skipLine(name, error)); // Deno counts a test that is skipped while it runs as passed
      t.skip(error.message);
    } finally {
      for (const child of children) await child.kill();
      remove(dir);
    }
  });
}

/** Where the place is another's the folder goes with it, whatever is left in it. */
function remove(dir: string): void {
  if (!process.env.HOLDFAST_TEST_DIR) return rmSync(dir, { recursive: true, force: true });
  // By FUSE a file that is deleted while it is open is there until it is closed, as `.fuse_hidden…`: rmSync of Bun 1.4
  // tries for ever, and the others' throw.
  spawnSync("rm", ["-rf", dir], { stdio: "ignore" });
}

/** A child process whose output is read line by line. */
export class Child {
  readonly process: ChildProcess;
  /** Everything it wrote to standard error. */
  errors = "";
  readonly ended: Promise<{ code: number | null; signal: string | null }>;
  readonly #lines: string[] = [];
  #arrived = () => {};
  #over = false;
  #ended = false;

  constructor(command: string, args: readonly string[], options: SpawnOptions = {}) {
    needsFor(command, args);
    this.process = spawn(command, args, { ...options, stdio: ["pipe", "pipe", "pipe"] });
    this.process.stdin!.on("error", () => {}); // `!` here and below: all three are pipes. It may end before it reads
    this.process.stderr!.setEncoding("utf8").on("data", (text) => this.errors += text);
    const output = createInterface({ input: this.process.stdout! });
    output.on("line", (line) => (this.#lines.push(line), this.#arrived()));
    output.on("close", () => (this.#over = true, this.#arrived()));
    this.ended = new Promise((resolve) => {
      this.process.on(
        "error",
        (error) => (this.errors += error, this.#over = true, this.#arrived(), resolve({ code: 127, signal: null })),
      );
      this.process.on("exit", (code, signal) => resolve({ code, signal }));
    });
    this.ended.then(() => this.#ended = true);
  }

  get pid(): number {
    return this.process.pid ?? 0;
  }

  /** The next line that it prints. */
  async line(): Promise<string> {
    while (this.#lines.length === 0) {
      if (this.#over) throw new Error(`${this.process.spawnargs.join(" ")} ended without a line: ${this.errors}`);
      await new Promise<void>((resolve) => this.#arrived = resolve);
    }
    return this.#lines.shift()!; // `!`: there is one
  }

  write(text: string): void {
    this.process.stdin!.write(text);
  }

  /** Closes its standard input. */
  close(): void {
    this.process.stdin!.end();
  }

  /** Sends a signal to this very process and, if it is one that kills, waits for the end. */
  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    // Not ChildProcess.kill(): Deno closes the child's pipes before it signals, so that the child may end in
    // order first; and takes it for dead after any signal, so that a stopped one is never killed.
    try {
      if (!this.#ended && this.pid > 0) process.kill(this.pid, signal);
    } catch (error) {
      // The cast: process.kill throws errors with a code. It ended a moment ago.
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
    if (signal === "SIGKILL") await this.ended;
  }
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

/** A process that locks what it is told; see fixtures/agent.mjs. */
export class Agent extends Child {
  readonly kind: Kind;
  #pid = 0;
  #id = 0;

  private constructor(kind: Kind, command: string, args: readonly string[], options: SpawnOptions) {
    super(command, args, options);
    this.kind = kind;
  }

  static start(kind: Kind, { env, by = [], allow = tmpdir(), flags, cwd, module }: AgentOptions): Agent {
    const agent = here("fixtures/agent.mjs");
    if (kind === "node20") needs("flock"); // it has no FFI, and locks by that
    module ??= kind === "node20" ? packedModule() : here("../mod.ts");
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
    this.#pid = JSON.parse(await this.line()).ready;
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
    this.write(`${JSON.stringify({ id, command, ...args })}\n`);
    for (;;) {
      const answer = JSON.parse(await this.line());
      if (answer.id !== id) throw new Error(`the agent answered ${JSON.stringify(answer)} to ${command}`);
      if (answer.error) throw new AgentError(answer.error);
      return answer.value;
    }
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

/** Asserts that something is still waiting after 20 ms; the result is awaited with `.done()`. */
export async function mustBlock<T>(promise: Promise<T>): Promise<{ done: () => Promise<T> }> {
  const state = await Promise.race([
    promise.then(() => "ended", () => "ended"),
    new Promise<string>((resolve) => setTimeout(resolve, 20, "waits")),
  ]);
  if (state !== "waits") throw new Error("it should have waited, and did not");
  return { done: () => within(10_000, promise) };
}

/** Fails if it takes longer. */
export async function within<T>(milliseconds: number, promise: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done within ${milliseconds} ms`)), milliseconds * SLOW);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** A child process of a test, whose output is read line by line. */
import { type ChildProcess, spawn, type SpawnOptions } from "node:child_process";
import process from "node:process";
import { createInterface } from "node:readline";
import { needsFor } from "./needs.ts";

type Refable = Pick<ChildProcess, "ref" | "unref">;

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
  #signalled = false;

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

  get hasEnded(): boolean {
    return this.#ended;
  }

  /** Whether it was sent a signal, or its standard input was closed. */
  get wasSignalled(): boolean {
    return this.#signalled;
  }

  /** Whether this process stays because of it. */
  keepsAlive(yes: boolean): void {
    const { stdin, stdout, stderr } = this.process;
    for (const each of [this.process, stdin, stdout, stderr] as Partial<Refable>[]) { // the cast: pipes are sockets
      if (yes) each.ref?.();
      else each.unref?.();
    }
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
    this.#signalled = true;
    this.process.stdin!.end();
  }

  /** Sends a signal to this very process and, if it is one that kills, waits for the end. */
  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    this.#signalled = true;
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

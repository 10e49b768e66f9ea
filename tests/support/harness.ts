/**
 * What the tests are written with: a test with a folder of its own, agents
 * (processes that lock what they are told), and helpers that reap every child
 * by its PID.
 */
import { type SpawnOptions, spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, test as nodeTest } from "node:test";
import { Agent, type AgentOptions, type Kind, ownKind } from "./lock_process.ts";
import { Child } from "./child.ts";
import { Missing } from "./needs.ts";
import { AgentPool } from "./pool.ts";

export { Agent, AgentError, type AgentOptions, type Kind, KINDS, ownKind } from "./lock_process.ts";
export { Child } from "./child.ts";

/** What a test is given. */
export interface Place {
  /** A folder that is removed afterwards. */
  readonly dir: string;
  /** A path in it. */
  readonly path: (name?: string) => string;
  /** An agent. Without options it may be one that another test is done with; it is not used again if it has changed. */
  readonly agent: (kind?: Kind, options?: AgentOptions) => Promise<Agent>;
  /** Starts an agent, for what may depend on what its process did before: a first lock, a death. It ends with the test. */
  readonly freshAgent: (kind?: Kind, options?: AgentOptions) => Promise<Agent>;
  /** Starts a command; it ends with the test. */
  readonly child: (command: string, args: string[], options?: SpawnOptions) => Child;
}

/** How many times longer everything may take: an emulated processor is slow. */
export const SLOW = Number(process.env.HOLDFAST_TEST_SLOW ?? 1);

/** Parts of the names of tests that are left out: a place where they cannot be right; see runners.ts. */
const SKIP: readonly string[] = JSON.parse(process.env.HOLDFAST_TEST_SKIP || "[]");

/** The folder of this process's tests; what agents of more than one test may use. */
let folder: string | undefined;

function testFolder(): string {
  if (folder === undefined) {
    folder = mkdtempSync(join(process.env.HOLDFAST_TEST_DIR ?? tmpdir(), "holdfast-test-"));
    chmodSync(folder, 0o711); // a test may let another user into its own
  }
  return folder;
}

const pool = new AgentPool(testFolder);

// Bun has it after the first file, and goes on with another folder.
after(async () => {
  await pool.end();
  if (folder !== undefined) remove(folder);
  folder = undefined;
});

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
    const dir = mkdtempSync(join(testFolder(), "t-"));
    const children: Child[] = [];
    const borrowed: Agent[] = [];
    const keep = <T extends Child>(child: T): T => (children.push(child), child);
    const freshAgent: Place["freshAgent"] = async (kind = ownKind, options = {}) =>
      await keep(Agent.start(kind, { allow: dir, ...options })).ready();
    let passed = false;
    try {
      await fn({
        dir,
        path: (name = "a.lock") => join(dir, name),
        child: (command, args, options) => keep(new Child(command, args, options)),
        freshAgent,
        agent: async (kind = ownKind, options) => {
          if (options !== undefined) return await freshAgent(kind, options);
          const agent = pool.take(kind);
          borrowed.push(agent);
          return await agent.ready();
        },
      });
      passed = true;
    } catch (error) {
      if (!(error instanceof Missing)) throw error;
      console.log(skipLine(name, error)); // Deno counts a test that is skipped while it runs as passed
      t.skip(error.message);
    } finally {
      for (const child of children) await child.kill();
      for (const agent of borrowed) await (passed ? pool.giveBack(agent) : agent.kill());
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

/** Asserts that something is still waiting after 20 ms; the result is awaited with `.done()`. */
export async function mustBlock<T>(promise: Promise<T>): Promise<{ done: () => Promise<T> }> {
  const state = await Promise.race([
    promise.then(() => "ended", () => "ended"),
    new Promise<string>((resolve) => setTimeout(resolve, 20, "waits")),
  ]);
  if (state !== "waits") throw new Error("it should have waited, and did not");
  return { done: () => within(60_000, promise) };
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

/** Agents that have nothing left to do: one that is there needs no start, which takes longer than most tests. */
import process from "node:process";
import { Agent, type Kind } from "./lock_process.ts";

/** What a new process has from this one. */
const circumstances = () => JSON.stringify([process.cwd(), process.env]);

export class AgentPool {
  /** What agents of more than one test may use. */
  readonly #folder: () => string;
  readonly #idle: Agent[] = [];
  readonly #began = circumstances();

  constructor(folder: () => string) {
    this.#folder = folder;
    // Where the tests end without end(). In Deno, which has no such event here, their standard input ends with this process.
    process.on("exit", () => this.#idle.forEach(({ pid }) => process.kill(pid, "SIGKILL")));
  }

  /** One that has nothing to do, or a new one, which is not ready yet. */
  take(kind: Kind): Agent {
    // A test that has changed the environment wants a process that has it so.
    const found = circumstances() === this.#began ? this.#idle.findIndex((each) => each.kind === kind) : -1;
    if (found < 0) return Agent.start(kind, { allow: this.#folder() });
    const [agent] = this.#idle.splice(found, 1);
    agent.keepsAlive(true);
    return agent;
  }

  /** A test is done with it. */
  async giveBack(agent: Agent): Promise<void> {
    if (circumstances() !== this.#began || !await agent.reset()) return await agent.kill();
    agent.keepsAlive(false);
    this.#idle.push(agent);
  }

  async end(): Promise<void> {
    for (const agent of this.#idle.splice(0)) await agent.kill();
  }
}

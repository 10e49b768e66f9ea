/** Workers of mixed runtimes that live through many rounds; only those that were killed are started anew. */
import { fileURLToPath, pathToFileURL } from "node:url";
import process from "node:process";
import { Child, type Kind, within } from "../../support/harness.ts";
import { deno, tool } from "../../support/tools.ts";
import type { Modules } from "./modules.ts";

const worker = fileURLToPath(new URL("worker.mjs", import.meta.url));

/** What a worker is made of. */
export interface Recruit {
  readonly kind: Kind;
  readonly modules: Modules;
  /** The folder that it may use, where the runtime has permissions. */
  readonly dir: string;
}

export class Worker extends Child {
  readonly recruit: Recruit;

  private constructor(recruit: Recruit, command: string, args: readonly string[]) {
    super(command, args, { env: { ...process.env, NO_COLOR: "1" } });
    this.recruit = recruit;
  }

  static async start(recruit: Recruit): Promise<Worker> {
    const { kind, modules, dir } = recruit;
    const readable = [dir, fileURLToPath(new URL("../../..", import.meta.url)), modules.folder].join(",");
    const commands: Record<Kind, () => string[]> = {
      deno: () => [deno(), "run", "--quiet", "--no-prompt", "--no-check", "-A"],
      "deno-no-ffi": () => [
        ...[deno(), "run", "--quiet", "--no-prompt", "--no-check"],
        `--allow-read=${readable}`,
        `--allow-write=${dir}`,
      ],
      bun: () => [tool("bun"), "run"],
      node26: () => [tool("node26"), "--disable-warning=ExperimentalWarning"],
      node20: () => [tool("node20")],
    };
    const file = modules.file(kind);
    const [command, ...args] = [...commands[kind](), worker, modules.lock, file ? pathToFileURL(file).href : "none"];
    const started = new Worker(recruit, command, args);
    try {
      await within(30_000, started.line());
    } catch (error) {
      await started.kill();
      throw error;
    }
    return started;
  }

  // deno-lint-ignore no-explicit-any -- JSON
  async call(command: string, args: object): Promise<any> {
    this.write(`${JSON.stringify({ command, ...args })}\n`);
    const answer = JSON.parse(await this.line());
    if (answer.error) throw new Error(`${this.recruit.kind} ${this.pid}, ${command}: ${answer.error}`);
    return answer.value;
  }
}

/** All of them. Each has its place, whichever process is there at the time. */
export class Crew {
  readonly #recruits: readonly Recruit[];
  readonly #coming = new Map<number, Promise<Worker>>();
  workers: Worker[] = [];

  private constructor(recruits: readonly Recruit[]) {
    this.#recruits = recruits;
  }

  static async start(recruits: readonly Recruit[]): Promise<Crew> {
    const crew = new Crew(recruits);
    const started = await Promise.allSettled(recruits.map((recruit) => Worker.start(recruit)));
    crew.workers = started.flatMap((each) => each.status === "fulfilled" ? [each.value] : []);
    const failure = started.find((each) => each.status === "rejected");
    if (failure) {
      await crew.end();
      throw failure.reason;
    }
    return crew;
  }

  /** Kills the worker at a place with SIGKILL and reaps it; another begins to start at once. */
  async kill(place: number): Promise<void> {
    const another = Promise.withResolvers<Worker>();
    another.promise.catch(() => {}); // refill() and end() ask for it later
    this.#coming.set(place, another.promise);
    await this.workers[place].kill();
    Worker.start(this.#recruits[place]).then(another.resolve, another.reject);
  }

  /** Whether it was killed, and the one in its place has not been let in. */
  isDead(place: number): boolean {
    return this.#coming.has(place);
  }

  /** Lets in the one who takes the place of a killed one, as soon as it is ready. */
  async refill(place: number): Promise<void> {
    const coming = await this.#coming.get(place);
    if (!coming) return;
    this.workers[place] = coming;
    this.#coming.delete(place);
  }

  async refillAll(): Promise<void> {
    await Promise.all([...this.#coming.keys()].map((place) => this.refill(place)));
  }

  async end(): Promise<void> {
    const coming = await Promise.allSettled(this.#coming.values());
    const late = coming.flatMap((each) => each.status === "fulfilled" ? [each.value] : []);
    await Promise.all([...this.workers, ...late].map((each) => each.kill()));
  }
}

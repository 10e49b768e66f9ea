/** One place in one runtime: two agents that stay, those who know nothing of us, and what is wrong. */
import { chownSync, readdirSync, statSync, writeFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import type { LockOptions } from "../../../mod.ts";
import { Agent, type AgentError, type AgentOptions, Child, type Kind, within } from "../../support/harness.ts";
import { PYTHON } from "../../support/needs.ts";

export type Mode = "exclusive" | "shared";

/** Long enough for a machine that does much else, and an end all the same. */
const PATIENCE = 60_000;

/** Runs and is asked for so long at most. */
export const soon = <T>(promise: Promise<T>): Promise<T> => within(PATIENCE, promise);

/** Two agents of one runtime, started alike. They stay, from place to place. */
export class Crew {
  readonly kind: Kind;
  readonly options: AgentOptions;
  /** See {@linkcode python}. */
  python?: Child;
  readonly #children: Child[] = [];
  readonly #under: readonly string[];
  #names = 0;

  /** `under`: what the agents alone are run under, such as strace. */
  constructor(kind: Kind, options: AgentOptions, under: readonly string[] = []) {
    this.kind = kind;
    this.options = options;
    this.#under = under;
  }

  /** One more agent; it ends with the others. */
  async agent(): Promise<Agent> {
    const agent = Agent.start(this.kind, { ...this.options, by: [...this.options.by ?? [], ...this.#under] });
    this.#children.push(agent);
    return await soon(agent.ready());
  }

  /** A command that is started as the agents are. */
  child(command: string, args: readonly string[]): Child {
    const [first, ...rest] = [...this.options.by ?? [], command, ...args];
    const child = new Child(first, rest, { env: { ...process.env, ...this.options.env } });
    this.#children.push(child);
    return child;
  }

  /** A lock of an agent's. */
  async lock(agent: Agent, path: string, options: LockOptions = {}): Promise<Locked> {
    const name = `lock ${this.#names++}`;
    await soon(agent.lock(path, { backend: "flock", ...options }, name));
    return new Locked(agent, name);
  }

  /** Ends all but these. */
  async end(...stay: Child[]): Promise<void> {
    for (const child of this.#children) if (!stay.includes(child)) await child.kill();
    this.#children.splice(0, Infinity, ...stay);
    if (this.python && !stay.includes(this.python)) this.python = undefined;
  }
}

/** A lock of an agent's, and whoever else may have it: one try, and the release. */
export interface Contender {
  readonly who: string;
  take(mode: Mode): Promise<boolean>;
  release(): Promise<void>;
}

/** Ours. */
export class Locked {
  readonly agent: Agent;
  readonly #name: string;

  constructor(agent: Agent, name: string) {
    this.agent = agent;
    this.#name = name;
  }

  // deno-lint-ignore no-explicit-any -- JSON
  call(command: string, args: object = {}): Promise<any> {
    return soon(this.agent.call(command, { ...args, name: this.#name }));
  }

  try = (): Promise<boolean> => this.call("try");
  release = (): Promise<void> => this.call("release");
  verify = (): Promise<boolean> => this.call("verify");
  inspect = () => this.call("inspect");

  /** The code of the error that a try comes to, or what else it came to. */
  async failure(command = "try"): Promise<string> {
    try {
      return `${command} was ${await this.call(command)}`;
    } catch (error) {
      const { name, code } = error as AgentError; // an agent answers nothing else; a timeout has a name too
      return `${name} ${code}`;
    }
  }
}

/** With -F it becomes the command that it runs. */
const BY_PATH = 'exec flock -F -n -E 9 "--$1" "$0" sh -c "echo granted; exec cat"';
/** Opens it only to read, and makes nothing. */
const BY_DESCRIPTOR = 'exec 3<"$0"; flock -n -E 9 "--$1" 3 || exit; echo granted; exec cat';

/** flock(1). `there`: on a file that is there, and that may only be read. */
export function flock1(crew: Crew, path: string, there = false): Contender {
  let holder: Child | undefined;
  return {
    who: "flock(1)",
    async take(mode) {
      const child = crew.child("sh", ["-c", there ? BY_DESCRIPTOR : BY_PATH, path, mode]);
      const answer = await soon(Promise.race([child.line().catch(() => "ended"), child.ended.then(() => "ended")]));
      if (answer === "granted") {
        holder = child;
        return true;
      }
      const { code } = await soon(child.ended);
      if (code !== 9) throw new Error(`flock(1) ended with ${code}: ${child.errors.trim()}`);
      return false;
    },
    async release() {
      holder?.close();
      if (holder) await soon(holder.ended);
    },
  };
}

const SCRIPT = fileURLToPath(new URL("../../fixtures/contender.py", import.meta.url));

/** Python's fcntl.flock: one process a crew. */
export function python(crew: Crew, path: string): Contender {
  const child = crew.python ??= crew.child(PYTHON, [SCRIPT]);
  const ask = async (command: string) => {
    child.write(`${command}\n`);
    return await soon(child.line());
  };
  return {
    who: "Python",
    async take(mode) {
      return (await ask(`${mode} ${JSON.stringify(path)}`)) === "granted";
    },
    async release() {
      await ask("release");
    },
  };
}

/** What a trial is given: a crew in a folder. */
export interface Site {
  readonly crew: Crew;
  readonly a: Agent;
  readonly b: Agent;
  /** The folder as the crew sees it, and as we do. */
  readonly folder: string;
  readonly seen: string;
  /** The file system keeps its locks to itself: no /proc/locks shows them, and they are freed a moment after. */
  readonly remote?: boolean;
}

/** A try that must be granted now; where the locks are remote, soon. */
export async function granted({ remote }: Site, take: () => Promise<boolean>): Promise<boolean> {
  const end = performance.now() + 10_000;
  for (;;) {
    if (await take()) return true;
    if (!remote || performance.now() > end) return false;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** What it says is wrong, one sentence each. */
export class Wrong {
  readonly sentences: string[] = [];
  /** How much was looked at. */
  checks = 0;

  expect<T>(what: string, found: T, right: T): boolean {
    this.checks++;
    if (found === right) return true;
    this.sentences.push(`${what}: ${found} and not ${right}`);
    return false;
  }
}

/** A behaviour: what is wrong with it at a site. */
export type Trial = (site: Site, wrong: Wrong) => Promise<void>;

export const names = (folder: string): string => readdirSync(folder).sort().join(" ");

/** Makes a file as whoever the folder belongs to would. */
export function put(folder: string, name: string, text: string): void {
  writeFileSync(`${folder}/${name}`, text);
  const { uid, gid } = statSync(folder);
  chownSync(`${folder}/${name}`, uid, gid);
}

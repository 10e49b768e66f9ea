/**
 * A mount namespace of its own, and a PID namespace for whatever a mount needs
 * to run: when its first process is killed all of it is gone, also the loop
 * devices, whatever became of us.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Child } from "../../support/harness.ts";
import { soon } from "./site.ts";

const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

export class Keeper {
  readonly #dir: string;
  readonly #shell: Child;

  /** `dir`: for what its commands say. */
  constructor(dir: string) {
    this.#dir = dir;
    this.#shell = new Child("unshare", ["-m", "--propagation", "private", "-pf", "--kill-child", "sh"]);
  }

  /** What a command is to be started by, to be in there. */
  get by(): string[] {
    return ["nsenter", "-t", String(this.#shell.pid), "-m"];
  }

  /** A path in there, as this process can read it. */
  seen(path: string): string {
    return `/proc/${this.#shell.pid}/root${path}`;
  }

  /** Runs a script in there, with `$0` set; why it failed, or undefined. */
  async run(script: string, argument: string): Promise<string | undefined> {
    const log = join(this.#dir, "log");
    writeFileSync(log, "");
    this.#shell.write(`sh -euc ${quoted(script)} ${quoted(argument)} >${quoted(log)} 2>&1 </dev/null; echo "$?"\n`);
    const status = await soon(this.#shell.line());
    if (status === "0") return undefined;
    const words = readFileSync(log, "utf8").trim().split("\n").filter((line) => line && !/dmesg/.test(line));
    return words.at(-1)?.replaceAll(argument, "…") || `it ended with ${status}`;
  }

  async end(): Promise<void> {
    await this.#shell.kill();
  }
}

/** One case: the locks in it, the others who hold them or want them, and what is demanded of everybody. */
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Lock } from "../../../mod.ts";
import { encode } from "../../../src/record/record.ts";
import { type Agent, type Child, within } from "../../support/harness.ts";
import { openIn } from "../../support/lockers.ts";
import { deadOwner } from "../../support/pid_files.ts";
import { isLie, saysHeld, saysLeased } from "./errnos.ts";

export type Backend = "flock" | "pidfile";

/** What is done while calls fail. */
export const OPERATIONS = [
  "acquire",
  "release",
  "refused",
  "refused by the other",
  "takeover",
  "takeover of both",
  "wait",
  "inspect",
] as const;
export type Operation = typeof OPERATIONS[number];

/** A scene: an operation of a back end, and how its calls follow each other. */
export interface Scene {
  readonly operation: Operation;
  readonly backend: Backend;
}

/** The `nth` call of a name answers `errno`; it is the `when`th that the process makes, in the operation's step `step`. */
export interface Case extends Scene {
  readonly call: string;
  readonly errno: string;
  readonly nth: number;
  readonly when: number;
  readonly step: number;
}

/** What the victim says of one step. */
export interface Answer {
  // deno-lint-ignore no-explicit-any -- JSON
  readonly value?: any;
  readonly error?: { readonly name: string; readonly code?: string; readonly message: string; readonly path?: string };
}

/** What may be thrown: nothing that is a runtime's own, and no TypeError either, for every argument is right. */
const TYPED = new Set([
  "LockError",
  "LockHeldError",
  "LockTimeoutError",
  "LockNotHeldError",
  "LockLostError",
  "LockDeadlockError",
  "LockUnsupportedError",
]);

/** What must come to be so, does within so many milliseconds. */
const PATIENCE = 3_000;

/** How long the waiting operation waits, in milliseconds. */
const TIMEOUT = 40;

/** Who has never released it. */
let dead: Uint8Array | undefined;

/** One case's locks, and the others who hold them or want them. */
export class Stage {
  readonly failures: string[] = [];
  /** What was left behind. */
  left = "";
  readonly #agent: Agent;
  readonly #probe: Child;
  readonly #place: string;
  readonly #operation: Operation;
  readonly #backend: Backend;
  readonly #paths: string[];
  readonly #fault: Case | undefined;
  /** Of this process; for the operations that are refused. */
  readonly #holders = new Map<string, Lock>();

  constructor(
    agent: Agent,
    probe: Child,
    place: string,
    operation: Operation,
    backend: Backend,
    steps: number,
    fault: Case | undefined,
  ) {
    this.#agent = agent;
    this.#probe = probe;
    this.#place = place;
    this.#operation = operation;
    this.#backend = backend;
    this.#fault = fault;
    this.#paths = Array.from({ length: steps }, (_, i) => join(place, String(i)));
  }

  #names = () => this.#paths.map((_, i) => `lock ${i}`);

  #each = (command: string, args: object = {}, mark?: string): Promise<Answer[]> =>
    this.#agent.call("each", { mark, calls: this.#names().map((name) => ({ command, name, ...args })) });

  /** What stands there before. */
  async set(): Promise<void> {
    const operation = this.#operation;
    const other: Backend = this.#backend === "flock" ? "pidfile" : "flock";
    for (const path of this.#paths) {
      if (operation.startsWith("takeover")) {
        dead ??= encode(deadOwner());
        if (this.#backend === "flock" || operation === "takeover of both") writeFileSync(path, dead);
        if (this.#backend === "pidfile" || operation === "takeover of both") writeFileSync(`${path}.pid`, dead);
      }
      if (["refused", "refused by the other", "wait", "inspect"].includes(operation)) {
        const backend = operation === "refused by the other" ? other : this.#backend;
        this.#holders.set(path, new Lock(path, { backend, onStale() {} }).acquireSync({ timeout: 0 }));
      }
    }
    await this.#agent.call("each", {
      calls: this.#paths.map((path, i) => ({
        command: "new",
        name: `lock ${i}`,
        path,
        options: { backend: this.#backend },
      })),
    });
    if (operation !== "release") return;
    for (const { value } of await this.#each("try")) if (value !== true) throw new Error("it could not acquire before");
  }

  /** The operation, on one lock after the other. */
  act(marked: boolean): Promise<Answer[]> {
    const operation = this.#operation;
    const mark = marked ? this.#place : undefined;
    if (operation === "wait") return this.#each("acquire", { options: { timeout: TIMEOUT } }, mark);
    if (operation === "release" || operation === "inspect") return this.#each(operation, {}, mark);
    return this.#each("try", {}, mark);
  }

  /** What must be so now, and after everybody has released. `kept`: so many descriptors close(2) did not get to close. */
  async judge(answers: readonly Answer[], injected: number): Promise<void> {
    const kept = this.#fault?.call === "close" ? injected : 0;
    const held = new Set((await this.#each("held")).flatMap(({ value }, i) => value ? [this.#paths[i]] : []));
    for (const [i, path] of this.#paths.entries()) {
      this.#judgeAnswer(path, answers[i], held.has(path));
      if (held.has(path)) await this.#mustBeHeld(path);
    }
    await this.#descriptors("while held", this.#backend === "flock" ? held.size : 0, kept);
    for (const [path, lock] of this.#holders) {
      if (!this.#holds(lock)) this.#fail(`the lock that another process holds at ${path} was taken away`, true);
    }
    for (const [i, { error }] of (await this.#each("release")).entries()) {
      if (!held.has(this.#paths[i])) continue;
      if (error) this.#fail(`release() afterwards, without a fault, throws ${error.name}: ${error.message}`, true);
    }
    await this.#descriptors("after release", 0, kept);
    this.strike();
    // Where close(2) was not made, the kernel's lock is still there.
    if (kept === 0) { for (const [i, path] of this.#paths.entries()) await this.#mustBeFree(path, `lock ${i}`); }
    this.#litter();
  }

  /** Everybody gives up what is held. */
  async leave(): Promise<void> {
    await this.#each("release");
    this.strike();
  }

  /** Whoever of this process still holds, gives it up. */
  strike(): void {
    for (const lock of this.#holders.values()) {
      try {
        lock[Symbol.dispose]();
      } catch {
        // It was taken away, and that has been judged.
      }
    }
    this.#holders.clear();
  }

  #holds(lock: Lock): boolean {
    try {
      return lock.held;
    } catch {
      return false;
    }
  }

  #fail(what: string, excused = false): void {
    const { call = "", errno = "" } = this.#fault ?? {};
    if (excused && isLie(call, errno, this.#agent.kind)) {
      this.left ||= "a lie believed";
      return;
    }
    this.failures.push(what);
  }

  #judgeAnswer(path: string, { value, error }: Answer, held: boolean): void {
    const operation = this.#operation;
    const { call = "", errno = "" } = this.#fault ?? {};
    if (error && !(TYPED.has(error.name) && error.path === path && /^E[A-Z0-9]+$/.test(error.code ?? ""))) {
      this.#fail(`an error that is not typed: ${error.name} ${error.code}: ${error.message}`);
    }
    const expectHeld = operation === "release"
      ? error !== undefined && error.name !== "LockLostError"
      : operation !== "inspect" && value === true;
    if (held !== expectHeld) this.#fail(`it says ${JSON.stringify(value ?? error)}, and held is ${held}`);
    if (operation === "inspect" && !error && !["held", "unknown"].includes(value.state)) {
      this.#fail(`a held lock is ${value.state}: ${value.reason}`, true);
    }
    if (operation === "wait" && !error) this.#fail("it acquired what another holds", true);
    if (operation.startsWith("refused") && !error && value !== false) {
      this.#fail("it acquired what another holds", true);
    }
    const takes = operation === "acquire" || operation.startsWith("takeover");
    // What kill(2) cannot tell is unknown, and unknown is held (docs/protocol.md, rule 5).
    const unknown = operation !== "acquire" && call === "kill" && errno !== "ESRCH";
    const isHeld = saysHeld(call, errno, this.#agent.kind) || saysLeased(call, errno);
    if (takes && value === false && !isHeld && !unknown) {
      this.#fail("false, although nobody holds it");
    }
  }

  async #mustBeHeld(path: string): Promise<void> {
    for (const backend of ["flock", "pidfile"] as const) {
      const got = tryHere(path, backend);
      if (got !== "refused") this.#fail(`it holds ${path}, and another process (${backend}): ${got}`);
    }
    if (this.#backend === "flock" && await this.#flockFree(path)) this.#fail(`it holds ${path}, and flock(2) gets it`);
  }

  /**
   * Not at once: this process held some of them, and what it starts (strace) has a copy of its descriptors between
   * fork(2) and exec(2), which a machine under load makes long.
   */
  async #mustBeFree(path: string, name: string): Promise<void> {
    let here = "", free = false;
    const end = performance.now() + PATIENCE;
    for (let looks = 0; looks < 5 || performance.now() < end; looks++) {
      here = tryHere(path, this.#backend);
      free = await this.#flockFree(path);
      if (here === "granted" && free) return;
      if (this.#fault && isLie(this.#fault.call, this.#fault.errno, this.#agent.kind)) break;
      // What cannot be removed stands there, and says whose it is. Its owner knows, and removes it at its next try.
      if (this.#operation !== "release" && existsSync(`${path}.pid`) && await this.#removes(name)) {
        this.left = "P.pid until its next try";
      }
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    if (here !== "granted") this.#fail(`the next process does not get it: ${here}`, true);
    if (!free) this.#fail("flock(2) of another process does not get it afterwards", true);
  }

  async #removes(name: string): Promise<boolean> {
    const granted = await this.#agent.tryAcquire(name);
    if (granted) await this.#agent.release(name);
    return granted;
  }

  async #flockFree(path: string): Promise<boolean> {
    this.#probe.write(`${path}\n`);
    return await within(10_000, this.#probe.line()) === "free";
  }

  /** A watcher of Deno has the file open for a moment, in another thread. */
  async #descriptors(when: string, expected: number, kept: number): Promise<void> {
    let open: number;
    const end = performance.now() + PATIENCE;
    while ((open = openIn(this.#place, this.#agent.pid)) > expected + kept && performance.now() < end) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    if (open < expected || open > expected + kept) this.#fail(`${open} descriptors ${when}, not ${expected}`);
  }

  #litter(): void {
    const names = readdirSync(this.#place).filter((name) => /\D/.test(name));
    if (names.length === 0) return;
    const what = names.map((name) =>
      /\.pid\.tmp-/.test(name) ? "a temporary file" : /\.pid\./.test(name) ? "a link" : "P.pid"
    );
    this.left = [this.left, ...new Set(what)].filter((each) => each).join(", ");
  }
}

/** One try of this process, given back at once. */
function tryHere(path: string, backend: Backend): string {
  const lock = new Lock(path, { backend, onStale() {} });
  try {
    if (!lock.tryAcquire()) return "refused";
    lock.release();
    return "granted";
  } catch (error) {
    return String(error);
  }
}

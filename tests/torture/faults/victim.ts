/** One process that locks while its system calls fail: which of them there are, and what each failure came to. */
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { Agent, Child, type Kind, within } from "../../support/harness.ts";
import { answersOf, PAGES } from "./errnos.ts";
import { type Case, type Scene, Stage } from "./stage.ts";
import { type Call, traced } from "./strace.ts";
import { PYTHON } from "../../support/needs.ts";

/** What a case came to. */
export interface Outcome {
  /** Nothing was injected, or into a call that is not ours. */
  readonly missed?: boolean;
  readonly words: string;
  readonly failures: readonly string[];
}

const NOT_REACHED: Outcome = { missed: true, words: "not reached", failures: [] };

/** A call of the runtime's own was made to fail: it made one more or less than without a fault. */
class NotOurs extends Error {}

/** Deno ends where it cannot close a directory that it has listed: Rust's `Drop for Dir` takes that for impossible. */
class Panicked extends Error {}

/** Steps until the tenth call of everything that a step makes at all. */
const STEPS = 10;

/** Which of the calls of a name fails. */
const NTHS: readonly number[] = [1, 2, 10];

/** For each path it reads: whether a flock(2) of another language gets the lock. */
const PROBE = `
import fcntl, os, sys
for line in sys.stdin:
    try:
        fd = os.open(line[:-1], os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        print("free", flush=True)
        continue
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("free", flush=True)
    except BlockingIOError:
        print("held", flush=True)
    os.close(fd)
`;

/** It, and a process in another language that it is compared with. */
export class Victim {
  readonly kind: Kind;
  readonly #dir: string;
  readonly #module: string | undefined;
  #agent: Agent | undefined;
  #probe: Child | undefined;
  #cases = 0;

  /** `module`: what it locks with instead of our own code. */
  constructor(kind: Kind, dir: string, module?: string) {
    this.kind = kind;
    this.#dir = dir;
    this.#module = module;
  }

  async end(): Promise<void> {
    for (const child of [this.#agent, this.#probe]) await child?.kill();
    this.#agent = this.#probe = undefined;
  }

  /** Whether it can play a scene: Deno without FFI may not ask whether an owner is dead. */
  can({ operation, backend }: Scene): boolean {
    const takesPidFile = operation === "takeover of both" || (operation === "takeover" && backend === "pidfile");
    return this.kind !== "deno-no-ffi" || !takesPidFile;
  }

  /** The cases of a scene, each errno for each call: what is called is found by a run without faults. */
  async plan(scene: Scene): Promise<{ cases: Case[]; absent: string[] }> {
    // The first one fills caches and loads modules, in this process too.
    const { failures } = await this.#play(scene, 1, undefined);
    const { calls, place } = await this.#play(scene, STEPS, undefined);
    if (failures.length > 0) throw new Error(`without any fault: ${failures.join("; ")}`);
    const counts = new Map<string, { all: number; ours: number }>();
    const cases: Case[] = [];
    let step = -1;
    for (const each of calls) {
      if (each.name.startsWith("utime")) {
        step++;
        continue;
      }
      const count = counts.get(each.name) ?? { all: 0, ours: 0 };
      counts.set(each.name, count);
      count.all++;
      if (step < 0 || !isOurs(each, place)) continue;
      count.ours++;
      if (!NTHS.includes(count.ours)) continue;
      // In Node 20 each flock(2) is another process's first.
      const when = this.#byChild(each.name) ? 1 : count.all;
      if (when !== count.all && count.all > 1) continue;
      for (const errno of answersOf(each.name)) {
        cases.push({ ...scene, call: each.name, errno, nth: count.ours, when, step });
      }
    }
    const made = [...counts].filter(([, { ours }]) => ours > 0).map(([name]) => name);
    const planned = new Set(cases.map(({ call, nth }) => `${call} ${nth}`));
    const absent = made.flatMap((name) => NTHS.map((nth) => `${name} ${nth}`)).filter((each) => !planned.has(each));
    return { cases, absent };
  }

  /** Plays a scene with one call made to fail, and judges what it came to. */
  async run(one: Case): Promise<Outcome> {
    const { call, errno, when, step } = one;
    try {
      const { calls, failures, answers, left } = await this.#play(one, step + 1, one);
      if (!calls.some(({ injected }) => injected !== undefined)) return { ...NOT_REACHED, failures };
      // From then on libuv and Rust take statx(2) for missing, and never call it again: the next case needs a new one.
      if (call === "statx" && errno === "EINVAL") await this.end();
      const answer = answers[step];
      const words = answer.error
        ? `${answer.error.name} ${answer.error.code === errno ? "of that code" : answer.error.code}`
        : String(answer.value?.state ?? answer.value ?? "done");
      return { words: left ? `${words}, left ${left}` : words, failures };
    } catch (error) {
      await this.end(); // it may have ended, or hang
      if (error instanceof NotOurs) return NOT_REACHED;
      if (error instanceof Panicked) return { words: "Deno itself panics (closedir)", failures: [] };
      return { words: "broke down", failures: [`${call} ${errno} (when=${when}): ${error}`] };
    }
  }

  #byChild = (call: string) => this.kind === "node20" && call === "flock";

  async #play({ operation, backend }: Scene, steps: number, fault: Case | undefined) {
    const agent = this.#agent ??= await Agent.start(this.kind, { allow: this.#dir, module: this.#module }).ready();
    const place = join(this.#dir, `${this.kind}-${this.#cases++}`);
    mkdirSync(place);
    const stage = new Stage(
      agent,
      this.#probe ??= new Child(PYTHON, ["-c", PROBE]),
      place,
      operation,
      backend,
      steps,
      fault,
    );
    try {
      await stage.set();
      const result = await traced({
        pid: agent.pid,
        calls: fault ? [fault.call] : [...Object.keys(PAGES), "utime", "utimes", "utimensat", "futimesat"],
        fault: fault && `${fault.call}:error=${fault.errno}:when=${fault.when}`,
        children: this.kind === "node20" && backend === "flock" && (!fault || fault.call === "flock"),
        log: `${place}.strace`,
      }, () => within(20_000, stage.act(fault === undefined)));
      const { calls } = result;
      const made = calls.filter(({ injected }) => injected !== undefined);
      if (made.some((each) => !isOurs(each, place))) throw new NotOurs();
      const closesPlace = made.some(({ name, text }) => name === "close" && text.includes(`<${place}>`));
      if ("error" in result) throw closesPlace && this.kind === "deno" ? new Panicked() : result.error;
      const answers = result.value;
      // Of ten steps without a fault only the calls are of interest: one has just been judged.
      if (fault || steps === 1) await stage.judge(answers, made.length);
      else await stage.leave();
      return { calls, place, answers, failures: stage.failures, left: stage.left };
    } finally {
      stage.strike();
      await removed(place);
    }
  }
}

/** Of a runtime's own calls, none is on a file of ours or in /proc. */
const isOurs = ({ name, text }: Call, place: string) =>
  name === "kill" || name === "flock" || text.includes(place) || text.includes("/proc/");

/** Removes a folder, into which a process that is just ending may still write. */
async function removed(folder: string): Promise<void> {
  for (let tries = 0;; tries++) {
    try {
      return rmSync(folder, { recursive: true, force: true });
    } catch (error) {
      if (tries === 50) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

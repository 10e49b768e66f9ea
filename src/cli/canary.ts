/**
 * Whether a signal was sent to this process alone, or to its whole process group or control group (Ctrl-C, timeout(1),
 * systemd, a CI runner), and so to COMMAND too. The kernel does not say. A canary does: a child that does nothing and
 * has every signal's default action. If it dies of the signal, COMMAND got that signal as well.
 */
import { childProcess, fs } from "../sys/builtin.ts";
import type { CommandCalls } from "../sys/command.ts";
import { SystemError } from "../sys/contract.ts";
import { signals, thisRuntime } from "../sys/mod.ts";
import { statFields } from "../sys/proc.ts";

/** How long its death is waited for, in milliseconds. */
const PATIENCE = 50;

/** A death counts for a signal of the same kind that comes within this time, in milliseconds. */
const MEMORY = 200;

/** What it runs. `cat` ends with this process, which has the other end of its pipe. It leaves no core file for SIGQUIT. */
const BIRD = ["/bin/sh", "-c", "ulimit -c 0; exec cat"] as const;

/** A bird that was started. */
interface Bird {
  readonly pid: number | undefined;
  /** Looks whether it has died; tells at once, where that is not told anyway. */
  look?(): void;
  end(): void;
}

/** Starts one. `died`: with the number of the signal that killed it, or undefined. Answers undefined if it cannot. */
export type Hatch = (died: (signal: number | undefined) => void) => Bird | undefined;

/** Through the C library, as COMMAND. It must be started after COMMAND, which would keep the pipe open. */
export const byLibrary = (calls: CommandCalls): Hatch => (died) => {
  const pipe = calls.pipe();
  if (pipe instanceof SystemError) return undefined;
  const pid = calls.spawn(BIRD, { streams: pipe });
  calls.shut(pipe.from);
  if (pid instanceof SystemError) return calls.shut(pipe.to), undefined;
  let over = false;
  const look = () => {
    const status = over ? undefined : calls.poll(pid);
    if (status === undefined) return;
    end();
    died(status instanceof SystemError ? undefined : status & 0x7f || undefined); // WTERMSIG
  };
  const end = () => {
    over = true;
    process.off("SIGCHLD", look);
    calls.shut(pipe.to);
  };
  process.on("SIGCHLD", look);
  return { pid, look, end };
};

/** A process that a signal has reached, though it has not died of it yet: PF_EXITING, sched.h. */
const EXITING = 0x4;

/**
 * Whether a signal has reached it, by proc(5): one is pending, or it is ending. On a busy machine it may die of that after
 * the 50 ms: 21 of 1,000 signals to the group came twice.
 */
function isStruck(pid: number | undefined): boolean {
  if (pid === undefined || !thisRuntime().may.proc) return false;
  try {
    const [status, stat] = ["status", "stat"].map((name) => fs().readFileSync(`/proc/${pid}/${name}`, "latin1"));
    const [state, , , , , , flags] = statFields(stat);
    const isPending = /^(?:SigPnd|ShdPnd):\s*0*[1-9a-f]/m.test(status);
    return isPending || state === "Z" || (Number(flags) & EXITING) !== 0;
  } catch {
    return false; // no /proc, or it may not be read: in doubt the signal is passed on
  }
}

const start = (file: string, args: readonly string[]) =>
  childProcess().spawn(file, args, { stdio: ["pipe", "ignore", "ignore"] });

/** Through the runtime, where there is no FFI. */
export const byRuntime: Hatch = (died) => {
  const [file, ...args] = BIRD;
  let child: ReturnType<typeof start>;
  try {
    child = start(file, args);
  } catch {
    return undefined; // no descriptor or process is left: every signal is passed on
  }
  let over = false;
  const end = (signal: NodeJS.Signals | null) => {
    if (over) return;
    over = true;
    died(signal ? signals()[signal] : undefined);
  };
  child.on("error", () => end(null)).on("exit", (_, signal) => end(signal));
  child.stdin?.on("error", () => {}); // nothing is written to it
  child.unref();
  return {
    pid: child.pid,
    end() {
      over = true;
      child.stdin?.destroy();
    },
  };
};

/** The canary of one COMMAND. A signal less than 200 ms after another of its kind may be told wrongly. */
export class Canary {
  #hatch: Hatch;
  #bird: Bird | undefined;
  /** The signals that end it, by their numbers. */
  #deadly: ReadonlySet<number>;
  /** When it died of a signal that has not come to this process yet. */
  #deaths = new Map<number, number>();
  /** When a signal was found to be for this process alone: a death of it that comes late counts for nothing. */
  #alone = new Map<number, number>();
  /** Those that wait for its death. */
  #waiting = new Map<number, () => void>();

  constructor(hatch: Hatch, deadly: readonly number[]) {
    this.#hatch = hatch;
    this.#deadly = new Set(deadly);
    this.#renew();
  }

  #renew(): void {
    this.#bird = this.#hatch((signal) => {
      this.#bird = undefined;
      // What ended by itself, or by another signal, would do so again.
      if (signal === undefined || !this.#deadly.has(signal)) return;
      this.#renew();
      const waits = this.#waiting.get(signal);
      if (waits) waits();
      else if (!isRecent(this.#alone.get(signal))) this.#deaths.set(signal, performance.now());
    });
  }

  /** Calls `alone` if the signal, which has just come, was not sent to the whole group. In doubt it does. */
  tell(signal: number, alone: () => void): void {
    this.#bird?.look?.();
    const died = this.#deaths.get(signal);
    this.#deaths.delete(signal);
    if (isRecent(died)) return;
    if (!this.#bird || this.#waiting.has(signal)) return alone();
    const timer = setTimeout(() => {
      this.#bird?.look?.();
      if (isStruck(this.#bird?.pid)) return; // its death is still to come
      if (!this.#waiting.delete(signal)) return; // it has died
      this.#alone.set(signal, performance.now());
      alone();
    }, PATIENCE);
    this.#waiting.set(signal, () => {
      clearTimeout(timer);
      this.#waiting.delete(signal);
    });
  }

  /** Ends it. */
  end(): void {
    for (const stop of [...this.#waiting.values()]) stop();
    this.#bird?.end();
    this.#bird = undefined;
  }
}

const isRecent = (at: number | undefined): boolean => at !== undefined && performance.now() - at < MEMORY;

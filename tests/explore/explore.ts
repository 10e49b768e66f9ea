/**
 * Tries every order of single file operations, and every point to die at, of
 * processes that run the real back ends; reports the first state with two
 * holders, or one from which the lock can never be taken again.
 */
import type { Attempt, Request } from "../../src/backend/contract.ts";
import type { Step } from "../../src/backend/pidfile.ts";
import { removeDead } from "../../src/backend/remove.ts";
import { type System, SystemError } from "../../src/sys/contract.ts";
import { type Exchange, exchanges } from "./symmetry.ts";
import {
  type Answer,
  clone,
  factsOf,
  type Home,
  Machine,
  type Operation,
  PATH,
  pidOf,
  STOP,
  type World,
} from "./world.ts";

/** The code that is explored: the project's own, or a mutant of it. */
export interface Backends {
  readonly tryFlock: (sys: System, request: Request) => Attempt;
  readonly advance: (sys: System, request: Request, step: Step) => Step | Attempt;
}

export interface Scenario {
  /** One letter a process: F kernel back end, C the same and it clears a dead owner's PID file, P PID-file back end in a runtime that has no kernel lock, Q in one that has. */
  readonly kinds: string;
  /** Where each of them lives, and what it knows of that (`world.ts`); all on the host if not given. */
  readonly homes?: string;
  /** Acquisitions that each process tries. */
  readonly attempts: number;
  /** How many may die. */
  readonly crashes: number;
  /** Whether the directory takes hard links. */
  readonly links?: boolean;
  /** What stands in the directory at first: names to contents, or to contents that are old. */
  readonly files?: Record<string, string | { readonly old: string }>;
}

export interface Report {
  readonly states: number;
  /** What is wrong, and the steps that lead there; undefined if nothing is. */
  readonly fault?: { readonly what: string; readonly trace: string[] };
}

interface Process {
  readonly phase: "idle" | "trying" | "held" | "releasing" | "done" | "dead";
  readonly attempt: number;
  /** Of the PID-file back end; its whole memory, so that equal steps are equal states. */
  readonly step: Step;
  /** What it was answered in this step. */
  readonly history: readonly Answer[];
  /** Step and answers as text: all that it knows. */
  readonly memory: string;
  /** What it does next. */
  readonly next: Operation | undefined;
}

/** What came of running a process. */
interface Run extends Pick<Process, "step" | "history" | "next"> {
  readonly outcome: "stopped" | "refused" | "held" | "released" | "failed";
  /** For the trace: what it was answered. */
  readonly answers: readonly Answer[];
}

const STEPS: Step["at"][] = ["A1", "A2", "A3", "A4", "A4 again", "A5", "A6", "sweep", "B"];

interface State {
  readonly world: World;
  readonly processes: readonly Process[];
  readonly crashes: number;
  /** How it came about. */
  readonly path: Path | undefined;
}

/** One choice of the scheduler after others: which process, and whether it dies. */
interface Path {
  readonly before: Path | undefined;
  readonly me: number;
  readonly dies: boolean;
}

const request: Request = { path: PATH, mode: "exclusive", fileMode: 0o644, label: undefined };

/** Longer attempts make no progress. */
const LONGEST = 400;

export function explore(backends: Backends, scenario: Scenario): Report {
  const { kinds, attempts, crashes, links = true } = scenario;
  Error.stackTraceLimit = 0; // errors are answers here, by the million
  let failed: State | undefined;
  // The cast: the scenarios name no other letters. A newcomer's home is behind those of the processes.
  const homes = [...scenario.homes ?? "h".repeat(kinds.length)] as Home[];
  // Each that does not know where it lives lives somewhere else, and is none the less like the others: no fact tells them apart.
  const twins = exchanges([...kinds].map((kind, i) => kind + homes[i]));
  const keyOf = (state: State) => twins.map((twin) => key(state, twin)).reduce((a, b) => a < b ? a : b);

  /** Runs a process up to its next operation, performing one before that if it is to. */
  function run(world: World, me: number, process: Process, perform: 0 | 1, kind = kinds[me], at = homes): Run {
    const { attempt, history, step } = process;
    const where = `${attempt}${STEPS.indexOf(step.at)}`;
    const machine = new Machine(world, me, where, history, links, perform, kind, at);
    let outcome: Run["outcome"] = "stopped";
    try {
      const made = "PQ".includes(kind) ? backends.advance(machine, request, step) : backends.tryFlock(machine, request);
      // From one step to the next nothing is remembered but the step.
      if ("at" in made) {
        return next(run(world, me, { ...process, step: made, history: [] }, 0, kind, at), machine);
      }
      outcome = "refusal" in made ? "refused" : "held";
      if (kind === "C" && "hold" in made) {
        outcome = "stopped"; // while it still clears away
        removeDead(machine, request);
        outcome = "held";
      }
      const heldAfter = machine.done;
      if ("hold" in made) {
        try {
          made.hold.release();
          outcome = "released";
        } catch (error) {
          if (machine.done > heldAfter) outcome = "stopped"; // in the middle of the release
          throw error;
        }
      }
    } catch (error) {
      if (error instanceof SystemError) outcome = "failed";
      else if (error !== STOP) throw error;
    }
    return {
      outcome,
      step,
      history: machine.history,
      next: machine.next,
      answers: machine.history.slice(history.length),
    };
  }

  const next = (later: Run, { history }: Machine): Run => ({ ...later, answers: [...history, ...later.answers] });

  const idle = (attempt: number): Process => ({
    phase: attempt < attempts ? "idle" : "done",
    attempt,
    step: { at: "A2" },
    history: [],
    memory: "",
    next: attempt < attempts ? { name: "starts", reach: "shared" } : undefined,
  });

  /** One step of one process. */
  function advance(state: State, me: number, onStep?: (text: string) => void): State {
    const world = clone(state.world);
    const before = state.processes[me];
    const { outcome, step, history, next, answers } = run(world, me, before, 1);
    if (history.length > LONGEST) throw new Error(`no progress after ${LONGEST} operations`);
    const releasing = before.phase === "held" || before.phase === "releasing";
    const phase = outcome === "held" ? "held" : releasing ? "releasing" : "trying";
    const after: Process = outcome === "refused" || outcome === "released" || outcome === "failed"
      ? idle(before.attempt + 1)
      : { phase, attempt: before.attempt, step, history, next, memory: JSON.stringify([step, history]) };
    onStep?.(`${kinds[me]}${me} ${before.next?.name} → ${answers.map(show)}`);
    const later = successor(state, world, me, after, false);
    // No order of events may end an attempt by an error. Two holders are worse, so they are still looked for.
    if (outcome === "failed") failed ??= later;
    return later;
  }

  function die(state: State, me: number): State {
    const world = clone(state.world);
    world.alive[me] = false;
    for (const [inode, owner] of Object.entries(world.flocks)) if (owner === me) delete world.flocks[inode];
    world.open = world.open.filter((entry) => !entry.startsWith(`${pidOf(me)} `));
    const dead: Process = { ...idle(attempts), phase: "dead", attempt: 0 };
    return successor(state, world, me, dead, true);
  }

  function successor(from: State, world: World, me: number, process: Process, dies: boolean): State {
    // A file that no name and no descriptor leads to is gone.
    const reachable = new Set([...Object.values(world.files), ...world.open.map((entry) => entry.split(" ")[1])]);
    for (const inode of Object.keys(world.inodes)) if (!reachable.has(inode)) delete world.inodes[inode];
    const processes = from.processes.map((each, i) => i === me ? process : each);
    return { world, processes, crashes: from.crashes + Number(dies), path: { before: from.path, me, dies } };
  }

  function successors(state: State): State[] {
    const able = state.processes.flatMap(({ next }, me) => next ? [me] : []);
    // What nobody else can notice may as well happen first: every other order ends in the same states.
    const first = able.find((me) => state.processes[me].next?.reach === "own");
    return (first === undefined ? able : [first]).flatMap((me) => {
      const steps = [advance(state, me)];
      if (state.crashes < crashes && state.processes[me].phase !== "idle") steps.push(die(state, me));
      return steps;
    });
  }

  /** Whether a newcomer meets a record of an owner that it cannot judge: then a person settles that. */
  function isUnknown({ files, inodes }: World, kind: string, home: Home): boolean {
    const facts = factsOf(home);
    return Object.entries(files).some(([name, inode]) => {
      // The kernel's lock needs no record; a PID file without it has nothing else.
      if (name === PATH ? kind !== "P" : name.includes("tmp-")) return false;
      const fields = /^\d+\n(\{.*\})\n$/.exec(inodes[inode].text)?.[1];
      if (fields === undefined) return false;
      const { bootId, pidNamespace } = JSON.parse(fields);
      return facts.pidNamespace === undefined || pidNamespace !== facts.pidNamespace ||
        (bootId !== facts.bootId && home !== "h");
    });
  }

  /** Everybody is gone: can a newcomer of each kind take it? */
  function neverAgain({ world }: State): string | undefined {
    const damaged = !links &&
      Object.entries(world.files).some(([name, inode]) =>
        name.startsWith(`${PATH}.pid`) && !name.includes("tmp-") && world.inodes[inode].text === ""
      );
    if (damaged) return undefined; // where hard links are refused it is a person who settles that (docs/protocol.md)
    const newcomer = kinds.length;
    const sorts = new Map([...kinds].map((kind, i) => [kind + homes[i], { kind, home: homes[i] }]));
    for (const { kind, home } of sorts.values()) {
      if (isUnknown(world, kind, home)) continue;
      const later = clone(world);
      later.alive = [...later.alive.map(() => false), true];
      later.flocks = {};
      let process = idle(0), outcome = "stopped";
      for (let steps = 0; outcome === "stopped" && steps < LONGEST; steps++) {
        const ran = run(later, newcomer, process, 1, kind, [...homes, home]);
        outcome = ran.outcome;
        process = { ...process, step: ran.step, history: ran.history };
      }
      if (outcome !== "held") return `a later ${kind} never gets it`;
    }
    return undefined;
  }

  /** Goes the same way once more, with words. */
  function trace({ path }: State): string[] {
    const choices: Path[] = [];
    for (let each = path; each; each = each.before) choices.unshift(each);
    const lines: string[] = [];
    choices.reduce((state, { me, dies }) => {
      if (dies) lines.push(`${kinds[me]}${me} dies`);
      return dies ? die(state, me) : advance(state, me, (line) => lines.push(line));
    }, start);
    return lines;
  }

  const start = beginning(scenario, idle);
  const seen = new Set([keyOf(start)]);
  let states = [start];
  while (states.length > 0) {
    const following: State[] = [];
    for (const state of states) {
      if (state.processes.filter(({ phase }) => phase === "held").length > 1) {
        return { states: seen.size, fault: { what: "two holders", trace: trace(state) } };
      }
      const next = successors(state);
      if (next.length === 0) {
        const what = neverAgain(state);
        if (what) return { states: seen.size, fault: { what, trace: trace(state) } };
      }
      for (const each of next) {
        const id = keyOf(each);
        if (seen.has(id)) continue;
        seen.add(id);
        following.push(each);
      }
    }
    states = following;
  }
  const fault = failed && { what: "an attempt ended with an error", trace: trace(failed) };
  return { states: seen.size, fault };
}

function beginning({ kinds, files = {} }: Scenario, idle: (attempt: number) => Process): State {
  const world: World = { files: {}, inodes: {}, flocks: {}, alive: [...kinds].map(() => true), open: [] };
  Object.entries(files).forEach(([name, content], i) => {
    const inode = `9${i}`;
    const [text, changed] = typeof content === "string" ? [content, 0] : [content.old, -60];
    world.files[name] = inode;
    world.inodes[inode] = { text, changed };
  });
  return { world, processes: [...kinds].map(() => idle(0)), crashes: 0, path: undefined };
}

/** Equal states, equal keys: what a process knows is its step and what it was answered there. */
function key({ world, processes, crashes }: State, { at, number }: Exchange): string {
  let key = `${crashes}`;
  for (const me of at) {
    const { phase, attempt, memory } = processes[me];
    key += ` ${phase}${attempt} ${number(memory)} ${world.alive[me]}`;
  }
  const rest: number[] = [];
  for (const name in world.files) rest.push(number(`${name} is ${world.files[name]}`));
  for (const inode in world.inodes) rest.push(number(`${inode} holds ${world.inodes[inode].text}`));
  for (const inode in world.flocks) rest.push(number(`${inode} locked by ${pidOf(world.flocks[inode])}`));
  for (const entry of world.open) rest.push(number(`open ${entry}`));
  return `${key} ${rest.sort((a, b) => a - b)}`;
}

const show = ({ errno, value }: Answer) =>
  errno ?? (value === undefined ? "done" : JSON.stringify(value)?.slice(0, 60));

/** How a lock is waited for: in line, or blocking; never for oneself. */
import type { Hold, Refusal } from "../backend/contract.ts";
import { pidPath } from "../backend/entry.ts";
import { KeptFile } from "../backend/kept.ts";
import { isUnder } from "./context.ts";
import { HandOver } from "./handover.ts";
import { HELD_HERE, waitInLine, waitSync } from "../wait/line.ts";
import { deadlockError, releasedError, timeoutError } from "../record/messages.ts";
import { type AcquireOptions, validateWait } from "../record/options.ts";
import { holdsHere } from "../backend/registry.ts";
import { now, type State } from "./state.ts";
import { system } from "../sys/mod.ts";
import { SystemError } from "../sys/contract.ts";
import { Wait } from "../wait/wait.ts";

/** The shortest pause between two tries where each is a process of its own, in milliseconds. */
const COMMAND_PAUSE = 50;

/** Waits in line; rejects as `Lock.acquire` does. */
export async function acquire(state: State, options: AcquireOptions, scoped: boolean): Promise<Hold> {
  const { path } = state;
  const { timeout, signal, signalHolder } = validateWait(options);
  signal?.throwIfAborted(); // before the disk is touched
  const began = now();
  if (state.enterAgain()) return granted(state);
  // Its own `run` around it would have to end first, and cannot.
  if (state.hold && isUnder((hold) => hold === state.hold)) throw deadlockError(path);
  // It must not queue behind waiters that wait for its own task: one try now, which finds out whether it may share.
  if (isUnderLockOf(path)) {
    if (!butNotForItself(path, attempt(state, scoped))) return granted(state);
  }
  const kept = new KeptFile();
  const handOver = signalHolder === undefined ? undefined : new HandOver(system(), path, signalHolder, state.describe);
  let hold: Hold | undefined, waits = false;
  try {
    await waitInLine(path, {
      mode: state.settings.mode,
      wait: new Wait(timeout, now, shortestPause(state)),
      signal,
      heldByItself: () => state.hold !== undefined && !state.mayEnter,
      mayEnter: () => state.mayEnter,
      asks: handOver !== undefined,
      attempt(waited) {
        const refusal = butNotForItself(path, attempt(state, scoped, kept, waited ? began : undefined));
        if (!refusal) hold = granted(state);
        else {
          if (!waits) emitWaiting(state, refusal);
          waits = true;
          handOver?.ask(refusal);
        }
        return refusal;
      },
      late: (refusal) => timeoutError(path, timeout, state.describe(refusal), handOver?.remark),
      watched: () => state.choice.taken === "pidfile" ? pidPath(path) : path,
    });
  } finally {
    kept.close();
  }
  return hold!; // `!`: the line ends without an error only where it was granted
}

/** Waits and blocks; throws as `Lock.acquireSync` does. */
export function acquireSync(state: State, options: Pick<AcquireOptions, "timeout">, scoped: boolean): Hold {
  const { path } = state;
  const { timeout } = validateWait(options, "block");
  const kept = new KeptFile();
  const began = now();
  let waits = false;
  try {
    waitSync(path, {
      wait: new Wait(timeout, now, shortestPause(state)),
      attempt(waited) {
        const refusal = attempt(state, scoped, kept, waited ? began : undefined);
        if (refusal === HELD_HERE) throw deadlockError(path);
        if (refusal?.token !== undefined && holdsHere(refusal.token)) throw deadlockError(path);
        if (refusal && !waits) emitWaiting(state, refusal);
        waits = refusal !== undefined;
        return refusal;
      },
      late: (refusal) => timeoutError(path, timeout, state.describe(refusal)),
    });
  } finally {
    kept.close();
  }
  return granted(state);
}

/** One try; undefined when it is held now. `kept`, `began`: a waiter's file, and when it began to wait, if it did. */
function attempt(state: State, scoped: boolean, kept?: KeptFile, began?: number): Refusal | undefined {
  if (state.hold) return state.enterAgain() ? undefined : HELD_HERE;
  return state.take(state.choice.attempt(state.request, kept), scoped, began);
}

/** Whether the task runs under the lock at a path, however that is spelled: the kernel names the file. */
function isUnderLockOf(path: string): boolean {
  if (!isUnder(() => true)) return false;
  const sys = system();
  let identity: string | undefined;
  try {
    identity = sys.stat(sys.resolveParents(path))?.identity;
  } catch (error) {
    if (!(error instanceof SystemError)) throw error; // the try says what is wrong
  }
  return isUnder((hold, outer) => outer === path || hold.token === identity);
}

function butNotForItself(path: string, refusal: Refusal | undefined): Refusal | undefined {
  const { token } = refusal ?? {};
  if (token !== undefined && isUnder((hold) => hold.token === token)) throw deadlockError(path);
  return refusal;
}

/** What was granted right now; but `onStale`, or a listener to events, may have released it. */
function granted(state: State): Hold {
  if (!state.hold) throw state.lost ?? releasedError(state.path);
  return state.hold;
}

const emitWaiting = (state: State, refusal: Refusal) =>
  state.emit("waiting", { holder: () => state.describe(refusal).holder });

function shortestPause({ settings }: State): number | undefined {
  return system().way === "flock(1)" && settings.backend !== "pidfile" ? COMMAND_PAUSE : undefined;
}

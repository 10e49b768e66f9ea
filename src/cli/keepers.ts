/** All processes that keep a lock, for people: to end one of them frees nothing while another has the open file. */
import type { LockHolder, LockStatus } from "../../mod.ts";
import { pidPath } from "../backend/entry.ts";
import { proofOfOwner } from "../inspect/proof.ts";
import { hasLockOf, search } from "../inspect/holders.ts";
import { judge } from "../record/owner.ts";
import type { Proof } from "../record/in_the_way.ts";
import { proofOfLock } from "../inspect/proof.ts";
import { system } from "../sys/mod.ts";
import { printable, shown } from "../sys/printable.ts";
import { SystemError } from "../sys/contract.ts";
import { cut } from "./output.ts";

/** A process that has the open file. */
export interface Keeper {
  readonly pid: number;
  readonly command?: string;
  /** By SIGSTOP or Ctrl-Z: it does nothing, and keeps its locks. */
  readonly stopped: boolean;
  /** Whether it is proven to have the lock: people are never told to signal a process that is merely named. */
  readonly proven: boolean;
}

/** What is seen of a process now; `command` is what its record says. */
function seen(pid: number, proven: boolean, command?: string): Keeper {
  const look = system().processInfo(pid);
  return { pid, command: command ?? look?.command, stopped: look?.state === "T", proven };
}

/** Whether a holder that `inspect` has found is proven to have the lock. */
export function proofOf({ path, backend }: LockStatus, holder: LockHolder): Proof {
  const sys = system();
  try {
    const physical = sys.resolveParents(path);
    return backend === "pidfile" ? proofOfOwner(sys, physical, holder) : proofOfLock(sys, physical, holder);
  } catch (error) {
    if (error instanceof SystemError) return `its file cannot be looked at: ${error.message}`;
    throw error;
  }
}

/** What the record of the holder lies on; undefined where its path leads nowhere by now. */
export function fileSystemOf({ path, backend }: LockStatus): string | undefined {
  const sys = system();
  try {
    const physical = sys.resolveParents(path);
    return sys.fileSystem(backend === "pidfile" ? pidPath(physical) : physical);
  } catch (error) {
    if (error instanceof SystemError) return undefined;
    throw error;
  }
}

/** Maximum numbers of processes that are described, and of further ones that are named by PID. */
const DESCRIBED = 4, NAMED = 12;

/** A command takes no more columns than that where several stand in a line. */
const WIDEST = 50;

/** Whether all that is known of its owner is a number in a PID file: in a container it is another process's. */
export const isBareNumber = ({ backend, holder }: LockStatus): boolean =>
  backend === "pidfile" && holder !== undefined && holder.nonce === undefined;

/** The holders of this machine that `inspect` has found. */
export function holdersHere(status: LockStatus): Keeper[] {
  const { state, holders } = status;
  if (state !== "held") return [];
  const sys = system();
  const fileSystem = fileSystemOf(status);
  return holders.filter((each) => judge(each, sys, fileSystem).state === "alive")
    .map((each) => seen(each.pid, proofOf(status, each) === true, each.command));
}

/**
 * The holders, and every other process that has the open file of a kernel lock, such as their children. `inspect`
 * searches for those only if the process that took the lock has it no longer.
 */
export function keepersOf(status: LockStatus): Keeper[] {
  const found = new Map(holdersHere(status).map((each) => [each.pid, each]));
  const sys = system();
  if (status.backend !== "flock" || found.size === 0) return [...found.values()];
  try {
    const stat = sys.stat(sys.resolveParents(status.path));
    const others = (sys.all() ?? []).filter((pid) => !found.has(pid) && pid !== process.pid);
    const { keepers } = stat ? search(others, hasLockOf(sys, stat, "exactly")) : { keepers: [] };
    for (const pid of keepers) found.set(pid, seen(pid, true));
  } catch (error) {
    if (!(error instanceof SystemError)) throw error; // it is gone, or hidden: those that were found stay
  }
  return [...found.values()];
}

/** Whether a process of this machine is stopped now. */
export const isStopped = (pid: number): boolean => system().processInfo(pid)?.state === "T";

/** Such as `pid 4711 (sleep 60), stopped`. */
function described({ pid, command, stopped }: Keeper): string {
  return `pid ${pid}${command ? ` (${cut(printable(command), WIDEST)})` : ""}${stopped ? ", stopped" : ""}`;
}

/** All of them in a phrase. */
export function named(keepers: readonly Keeper[]): string {
  const [first, more] = [keepers.slice(0, DESCRIBED), keepers.slice(DESCRIBED)];
  const numbers = more.slice(0, NAMED).map(({ pid }) => pid).join(", ");
  const rest = more.length > NAMED ? `${numbers} and ${more.length - NAMED} more` : numbers;
  return first.map(described).join("; ") + (rest && `; pid ${rest}`);
}

/** What each of the stopped ones waits for. */
export function howToGoOn(keepers: readonly Keeper[]): string {
  const stopped = keepers.filter(({ stopped, proven }) => stopped && proven).slice(0, NAMED).map(({ pid }) => pid);
  return stopped.length === 0
    ? ""
    : `"kill -CONT ${stopped.join(" ")}" lets ${stopped.length > 1 ? "those that are" : "what is"} stopped go on`;
}

/**
 * What ends them; never the process that a system or a container lives and dies with, nor one that a file names and
 * nothing else shows to have the lock.
 */
export function howToEnd(keepers: readonly Keeper[], path: string): string {
  const others = keepers.filter(({ pid }) => pid !== 1);
  const pids = others.filter(({ proven }) => proven).map(({ pid }) => pid);
  const merelyNamed = others.filter(({ proven }) => !proven).map(({ pid }) => pid);
  const first = others.length < keepers.length
    ? "pid 1 is the first process of this system, or container, and stays"
    : "";
  if (pids.length > DESCRIBED + NAMED) return `"fuser -v ${shown(path)}" names all that have it open`;
  const [what, whom] = pids.length > 1 ? ["they are", "them"] : ["it is", "it"];
  const ways = pids.length === 0
    ? ""
    : `"ps -fp ${pids.join(",")}" shows what ${what}, and "kill ${pids.join(" ")}" asks ${whom} to go`;
  const unproven = merelyNamed.length === 0 ? "" : `that pid ${merelyNamed.join(", ")} has the lock is not proven: ` +
    `"ps -fp ${merelyNamed.join(",")}" shows what ${merelyNamed.length > 1 ? "they are" : "it is"}`;
  return [ways, unproven, first, howToGoOn(keepers)].filter((each) => each !== "").join("; ");
}

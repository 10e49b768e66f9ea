/**
 * A machine in memory: a directory with the files of one lock, and processes.
 * It implements the system's contract one operation at a time, so that a
 * scheduler can stop the real back ends between any two of them.
 *
 * A process is re-run from the beginning of its attempt with the answers that
 * it got before (the code is deterministic), does one operation more, and is
 * stopped by an exception that no back end catches.
 */
import {
  type Access,
  type FileStat,
  type Identity,
  type OpenFile,
  type ProcessInfo,
  type System,
  SystemError,
} from "../../src/sys/contract.ts";

export const PATH = "/d/P";

/** A process's PID, and the letter in what is named after it: both found again in any text (`symmetry.ts`). */
export const pidOf = (me: number): number => 7770 + me;
export const letterOf = (me: number): string => "abcdef"[me];

/**
 * Where a process lives, and what it knows of that: h the host, in the initial PID namespace; c a container of it;
 * s a system container, with a boot id of its own; ? a container of its own, without the right to learn of that.
 * Each sees the processes of its own place only, and under the others' numbers none.
 */
export type Home = "h" | "c" | "s" | "?";

const KNOWN: Record<Exclude<Home, "?">, Facts> = {
  h: { bootId: "boot-1", pidNamespace: "4026531836", timeNamespace: "4026531834", host: "model", startTime: "1" },
  c: { bootId: "boot-1", pidNamespace: "4026532201", timeNamespace: "4026531834", host: "model", startTime: "1" },
  s: { bootId: "boot-2", pidNamespace: "4026532202", timeNamespace: "4026531834", host: "model", startTime: "1" },
};

type Facts = Pick<Identity, "bootId" | "pidNamespace" | "timeNamespace" | "host" | "startTime">;

/** What a process of that place knows of itself. */
export const factsOf = (home: Home): Facts => home === "?" ? {} : KNOWN[home];

/** Stops a process at its next operation. No SystemError, so the back ends let it pass. */
export const STOP = new Error("stopped by the scheduler");

/** Replaced when it changes, never changed: so a clone may share it. */
interface Inode {
  readonly text: string;
  /** ctime in seconds; the clock of this machine stands at 0. */
  readonly changed: number;
}

const decoder = new TextDecoder();
const decode = (bytes: Uint8Array) => decoder.decode(bytes);

/** What all processes share. Plain data: it is cloned and turned into a key. */
export interface World {
  /** Names to inodes. */
  files: Record<string, string>;
  inodes: Record<string, Inode>;
  /** Inodes to the processes that hold their kernel lock. */
  flocks: Record<string, number>;
  alive: boolean[];
  /** Open descriptors, as `pid inode`. */
  open: string[];
}

/**
 * Who could notice an operation: `"shared"`, any process. `"own"`, nobody but for
 * what it leaves behind if its process dies then (a temporary file). `"idle"`,
 * nobody, and a death before it is a death after it.
 */
export type Reach = "shared" | "own" | "idle";

/** An operation that a process is stopped at. */
export interface Operation {
  readonly name: string;
  readonly reach: Reach;
}

export const clone = ({ files, inodes, flocks, alive, open }: World): World => ({
  files: { ...files },
  inodes: { ...inodes },
  flocks: { ...flocks },
  alive: [...alive],
  open: [...open],
});

/** An answer, as it is remembered: a value, or an errno. */
export type Answer = { readonly value?: unknown; readonly errno?: string };

/** The system as one process sees it, during one step. */
export class Machine implements System {
  readonly way: "ffi" | undefined;
  readonly why = "a model";
  /** The operation that it was stopped at. */
  next: Operation | undefined;
  /** All answers, those of this step at the end. */
  readonly history: Answer[];
  /** How many operations the code has made, replayed ones included. */
  done = 0;
  readonly #world: World;
  readonly #me: number;
  /** Which attempt at which step: what it makes is named after that. */
  readonly #where: string;
  readonly #links: boolean;
  readonly #homes: readonly Home[];
  #mayPerform: number;
  #nonces = 0;

  /** `perform`: how many operations to make after the history; idle ones are made besides. */
  constructor(
    world: World,
    me: number,
    where: string,
    history: readonly Answer[],
    links: boolean,
    perform: number,
    kind: string,
    homes: readonly Home[],
  ) {
    this.way = kind === "P" ? undefined : "ffi";
    this.#world = world;
    this.#me = me;
    this.#where = where;
    this.history = [...history];
    this.#links = links;
    this.#homes = homes;
    this.#mayPerform = perform;
  }

  /** One operation: replayed, performed, or refused because the step is over. */
  #operation<T>(name: string, reach: Reach, perform: () => T): T {
    if (this.next) throw STOP; // it is over, and `finally` blocks run
    let answer = this.history[this.done];
    if (!answer) {
      if (this.#mayPerform === 0 && reach !== "idle") {
        this.next = { name, reach };
        throw STOP;
      }
      if (reach !== "idle") this.#mayPerform--;
      try {
        answer = { value: perform() };
      } catch (error) {
        if (!(error instanceof SystemError)) throw error;
        answer = { errno: error.code };
      }
      this.history.push(answer);
    }
    this.done++;
    if (answer.errno) throw new SystemError(answer.errno, "in the model");
    return answer.value as T; // what `perform` of this very operation returned
  }

  /** The same in every order of events: a number drawn from a counter would tell equal states apart. */
  #inode(text: string): string {
    let id = `${letterOf(this.#me)}${this.#where}${this.done}`;
    while (this.#world.inodes[id]) id += "9"; // the last round's is still open somewhere
    this.#world.inodes[id] = { text, changed: 0 };
    return id;
  }

  /** A temporary file has one owner, and others look at it only when that one is dead, as far as its neighbours know. */
  #reach(path: string): Reach {
    const [home] = this.#homes;
    const areNeighbours = home !== "?" && this.#homes.every((each) => each === home);
    return areNeighbours && path.startsWith(`${PATH}.pid.tmp-${pidOf(this.#me)}-`) ? "own" : "shared";
  }

  #lookUp(path: string): string {
    const inode = this.#world.files[path];
    if (!inode) throw new SystemError("ENOENT", path);
    return inode;
  }

  /** What is opened stays what it is, so its `stat` is part of the answer to the opening. */
  #handle(stat: FileStat, lock: boolean, ofP: boolean): OpenFile {
    const world = this.#world, me = this.#me, { inode } = stat;
    return {
      fd: undefined,
      stat: () => stat,
      read: () =>
        new TextEncoder().encode( // What appears by link(2) is complete and never changes.
          this.#operation(`reads ${inode}`, this.#links && !lock && !ofP ? "idle" : "shared", () =>
            world.inodes[inode].text),
        ),
      write: (bytes) =>
        this.#operation(`writes ${inode}`, "shared", () => {
          world.inodes[inode] = { ...world.inodes[inode], text: decode(bytes) };
        }),
      empty: () =>
        this.#operation(`empties ${inode}`, "shared", () => {
          world.inodes[inode] = { ...world.inodes[inode], text: "" };
        }),
      flock: () =>
        this.#operation("flock", "shared", () => {
          if (world.flocks[inode] !== undefined) return "held";
          world.flocks[inode] = me;
          return "locked";
        }),
      close: () =>
        this.#operation(lock ? "closes P" : "closes", lock ? "shared" : "idle", () => {
          if (lock && world.flocks[inode] === me) delete world.flocks[inode];
          world.open.splice(world.open.indexOf(`${pidOf(me)} ${inode}`), 1);
        }),
    };
  }

  #stat(inode: string): FileStat {
    const { changed } = this.#world.inodes[inode];
    return { kind: "file", identity: `1:${inode}`, inode, size: 0, changed }; // no back end decides by the size
  }

  #open(path: string, create: boolean): FileStat {
    const world = this.#world;
    if (create && !world.files[path]) world.files[path] = this.#inode("");
    const inode = this.#lookUp(path);
    world.open.push(`${pidOf(this.#me)} ${inode}`);
    return this.#stat(inode);
  }

  openLock(path: string, access: Access): OpenFile {
    return this.#handle(this.#operation("opens P", "shared", () => this.#open(path, access === "create")), true, true);
  }

  openRead(path: string): OpenFile | undefined {
    const stat = this.#operation(`opens ${path}`, "shared", () => this.#world.files[path] && this.#open(path, false));
    return stat ? this.#handle(stat, false, path === PATH) : undefined;
  }

  create(path: string, bytes: Uint8Array): void {
    const reach = this.#reach(path);
    const inode = this.#operation(`creates ${path}`, reach, () => {
      if (this.#world.files[path]) throw new SystemError("EEXIST", path);
      const inode = this.#inode("");
      this.#world.files[path] = inode;
      this.#world.open.push(`${pidOf(this.#me)} ${inode}`);
      return inode;
    });
    this.#operation(`fills ${path}`, reach, () => {
      this.#world.inodes[inode] = { text: decode(bytes), changed: 0 };
      this.#world.open.splice(this.#world.open.indexOf(`${pidOf(this.#me)} ${inode}`), 1);
    });
  }

  stat(path: string): FileStat | undefined {
    return this.#operation(`stats ${path}`, this.#reach(path), () => {
      const inode = this.#world.files[path];
      return inode ? this.#stat(inode) : undefined;
    });
  }

  link(from: string, to: string): void {
    this.#operation(`links ${to}`, this.#reach(to), () => {
      const inode = this.#lookUp(from);
      if (this.#world.files[to]) throw new SystemError("EEXIST", to);
      if (!this.#links) throw new SystemError("EPERM", to);
      this.#world.files[to] = inode;
    });
  }

  rename(from: string, to: string): void {
    this.#operation(`renames over ${to}`, "shared", () => {
      this.#world.files[to] = this.#lookUp(from);
      delete this.#world.files[from];
    });
  }

  unlink(path: string): void {
    this.#operation(`unlinks ${path}`, this.#reach(path), () => {
      this.#lookUp(path);
      delete this.#world.files[path];
    });
  }

  list(): string[] {
    const names = () => Object.keys(this.#world.files).map((path) => path.slice("/d/".length)).sort();
    return this.#operation("lists the directory", "shared", names);
  }

  self(): Identity {
    return { pid: pidOf(this.#me), runtime: "model", ...factsOf(this.#homes[this.#me]) };
  }

  exists(pid: number): "exists" | "gone" {
    return this.#operation(`asks for ${pid}`, "shared", () => this.#isSeen(pid) ? "exists" : "gone");
  }

  #isSeen(pid: number): boolean {
    const other = pid - pidOf(0), home = this.#homes[this.#me];
    const isNeighbour = other === this.#me || (home !== "?" && this.#homes[other] === home);
    return isNeighbour && this.#world.alive[other];
  }

  processInfo(pid: number): ProcessInfo | undefined {
    if (this.#homes[this.#me] === "?") return undefined;
    return { startTime: "1", state: "S", threadGroup: pid }; // a PID is never reused here
  }

  /** Unreadable: the harder case, where back ends see each other by what they write. */
  kernelLocks(): undefined {}

  mounts(): undefined {}
  fileSystem(): string {
    return "local";
  }

  own(): undefined {}

  descriptorLocks(): undefined {}

  descriptorStat(): undefined {}

  readLink(): undefined {}

  all(): undefined {}
  hasThread(): undefined {}
  thread(): undefined {}

  /** What no back end does. */
  signal(): never {
    throw new Error("a back end sent a signal");
  }

  append(): never {
    throw new Error("a back end wrote a journal");
  }

  makeDirectory(): never {
    throw new Error("a back end made a directory");
  }

  resolveParents(path: string): string {
    return path;
  }

  nonce(): string {
    return `${letterOf(this.#me)}${this.#where}${this.#nonces++}`.padStart(32, "0");
  }

  wallClock(): string {
    return "";
  }
}

/**
 * A lock in this process or in an agent, asked the same way; and what a file
 * looks like from outside.
 */
import { execFileSync } from "node:child_process";
import {
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { assertEquals, assertRejects } from "@std/assert";
import { Lock, type LockOptions } from "../../mod.ts";
import { type Agent, type AgentOptions, type Child, type Kind, type Place, within } from "./harness.ts";
import { until } from "./pid_files.ts";
import { PYTHON } from "./needs.ts";

/** A lock, wherever it is. What `Lock` throws is what the promise rejects with, or its AgentError. */
export interface Locker {
  readonly pid: number;
  tryAcquire(): Promise<boolean>;
  acquire(): Promise<unknown>;
  release(): Promise<void>;
  /** How many of so many tries were granted. */
  tries(times: number): Promise<number>;
}

/** One who makes locks. */
export interface Party {
  readonly kind: string;
  lockAt(path: string, options?: LockOptions): Promise<Locker>;
}

const promised = <T>(call: () => T) => new Promise<T>((resolve) => resolve(call()));

/** This process. */
export const here: Party = {
  kind: "this process",
  lockAt: (path, options) =>
    promised(() => {
      const lock = new Lock(path, { onStale: () => {}, ...options });
      return {
        pid: process.pid,
        tryAcquire: () => promised(() => lock.tryAcquire()),
        acquire: () => lock.acquire(),
        release: () => promised(() => lock.release()),
        tries: (times) =>
          promised(() => {
            let granted = 0;
            for (let i = 0; i < times; i++) granted += Number(lock.tryAcquire());
            return granted;
          }),
      };
    }),
};

let names = 0;

/** An agent. */
export function partyOf(agent: Agent): Party {
  return {
    kind: agent.kind,
    async lockAt(path, options) {
      const name = `lock ${names++}`;
      await agent.lock(path, options, name);
      return {
        pid: agent.pid,
        tryAcquire: () => agent.tryAcquire(name),
        acquire: () => agent.call("acquire", { name }),
        release: () => agent.release(name),
        tries: (times) => agent.call("tries", { name, times }),
      };
    },
  };
}

/** Where FFI is missing files are opened by other code: `Deno.FsFile`, and descriptors for flock(1). */
export const WITHOUT_FFI = ["deno-no-ffi", "node20"] as const;

/** This process, and an agent for each way without FFI. */
export async function parties({ agent }: Pick<Place, "agent">, options?: AgentOptions): Promise<Party[]> {
  const agents = await Promise.all(WITHOUT_FFI.map((kind) => agent(kind, options)));
  return [here, ...agents.map(partyOf)];
}

/** What a promise is rejected with: a LockError of ours, or what an agent tells of its own. */
export async function failure(promise: Promise<unknown>): Promise<Error & { code?: string; path?: string }> {
  return await assertRejects(() => promise, Error);
}

/** A file from outside; times to the nanosecond. */
export interface Snapshot {
  readonly mode: string;
  readonly size: string;
  readonly inode: string;
  readonly accessed: string;
  readonly modified: string;
  readonly changed: string;
}

/** Deno has times to the millisecond or the second only. Node takes 50 ms to start stat(1), which tests do for each file. */
function statOf(path: string): string[] {
  if (process.versions.deno) {
    return execFileSync("stat", ["-c", "%a|%s|%i|%x|%y|%z", path], { encoding: "utf8" }).trim().split("|");
  }
  const { mode, size, ino, atimeNs, mtimeNs, ctimeNs } = lstatSync(path, { bigint: true });
  return [(mode & 0o7777n).toString(8), ...[size, ino, atimeNs, mtimeNs, ctimeNs].map(String)];
}

/** What the system says of a file. */
export function snapshot(path: string): Snapshot {
  const [mode, size, inode, accessed, modified, changed] = statOf(path);
  return { mode, size, inode, accessed, modified, changed };
}

/** A reason without what its place adds: on FUSE it says what that cannot promise. */
export const said = (reason: string): string => reason.replace(/\. It is on fuse.*$/s, "");

/** Removes a folder and what is in it. By FUSE a deleted file stays in it until it is closed, so it is moved away first. */
export function removeFolder(dir: string): void {
  if (statfsSync(dir).type === 0x65735546) {
    const away = mkdtempSync(join(process.env.HOLDFAST_TEST_DIR ?? tmpdir(), "holdfast-test-away-"));
    for (const name of readdirSync(dir, { recursive: true, encoding: "utf8" })) {
      if (statSync(join(dir, name)).isFile()) renameSync(join(dir, name), join(away, name.replaceAll("/", "-")));
    }
  }
  rmSync(dir, { recursive: true });
}

/** Who the kernel says holds a flock on the file that stands at a path. */
export function kernelHolders(path: string): number[] {
  const { ino, dev } = statSync(path);
  // <sys/sysmacros.h>
  const [major, minor] = [(dev >>> 8) & 0xfff, (dev & 0xff) | ((dev >>> 12) & 0xfff00)];
  const found = { FLOCK: new Set<number>(), POSIX: new Set<number>() };
  // Longer than a page it is no snapshot: a line can be doubled or missing when other locks come and go.
  for (let i = 0; i < 3; i++) {
    for (const line of readFileSync("/proc/locks", "utf8").split("\n")) {
      const match = /^\d+: (FLOCK|POSIX) +ADVISORY +(?:READ|WRITE) +(\d+) ([0-9a-f]+):([0-9a-f]+):(\d+) /.exec(line);
      const device = [match?.[3], match?.[4]].map((part) => parseInt(part ?? "", 16));
      // The same inode of another file system is another file. Without a disk of their own some show another device.
      if (major === 0 ? device[0] !== 0 : device[0] !== major || device[1] !== minor) continue;
      // The cast: the pattern knows no other.
      if (match?.[5] === String(ino)) found[match[1] as keyof typeof found].add(Number(match[2]));
    }
  }
  // On 9p it lists one as fcntl(2)'s; beside one of flock(2) such is an NFS server's on this very machine.
  return [...found.FLOCK.size > 0 ? found.FLOCK : found.POSIX];
}

/** What a process has open. */
export const openDescriptors = (pid: number): string[] =>
  readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/${pid}/fd/${fd}`)];
    } catch {
      return []; // closed since: the one that the folder was read by
    }
  });

/** How much of it lies in a folder. */
export const openIn = (dir: string, pid: number): number =>
  openDescriptors(pid).filter((target) => target.startsWith(dir)).length;

/** Waits until this process has nothing open in a folder: Deno's watcher opens what it watches for an instant itself. */
export const nothingOpen = (dir: string): Promise<void> =>
  until("nothing is open", () => openIn(dir, process.pid) === 0);

/** What a process has open, in a folder and in all, and how many files it watches. */
export function open(dir: string, pid: number = process.pid) {
  let watches = 0;
  for (const fd of readdirSync(`/proc/${pid}/fdinfo`)) {
    try {
      watches += readFileSync(`/proc/${pid}/fdinfo/${fd}`, "utf8").split("\n").filter((line) =>
        line.startsWith("inotify wd:")
      ).length;
    } catch {
      // closed since: the one that the folder was read by
    }
  }
  return { files: openIn(dir, pid), watches, all: openDescriptors(pid).length };
}

/** The same, once no more is watched than before: a runtime may end its watch a moment after it was closed. */
export async function closed(dir: string, watches: number) {
  const settle = async () => {
    const since = performance.now();
    // A refused try keeps its for 1 s; on a busy machine it is closed later.
    const files = () => open(dir).files > 0 && performance.now() - since < 15_000;
    while (open(dir).watches > watches || files()) await new Promise((resolve) => setTimeout(resolve, 1));
    return open(dir);
  };
  return await within(20_000, settle());
}

/** A signal that says how many listeners it has. */
export function countedSignal() {
  const controller = new AbortController();
  const { signal } = controller;
  const listeners = new Set<unknown>();
  const { addEventListener: add, removeEventListener: remove } = AbortSignal.prototype;
  Object.assign(signal, {
    addEventListener(...args: Parameters<typeof add>) {
      listeners.add(args[1]);
      add.apply(signal, args);
    },
    removeEventListener(...args: Parameters<typeof remove>) {
      listeners.delete(args[1]);
      remove.apply(signal, args);
    },
  });
  return { controller, signal, listeners: () => listeners.size };
}

/** Lets an agent work under strace, and waits until strace has written all of its log. */
export async function underStrace(
  agent: Place["agent"],
  kind: Kind,
  log: string,
  inject: string[],
  use: (agent: Agent) => Promise<void>,
): Promise<void> {
  const user = await agent(kind, { by: ["strace", "-f", "--seccomp-bpf", "-qq", "-o", log, ...inject] });
  try {
    await use(user);
  } finally {
    // Not killed: that would end strace and leave its agent.
    user.close();
    await within(10_000, user.ended);
  }
}

/** Keeps the lease through the request to end it, of which it prints `asked`, until a line comes. */
const LEASE = `import fcntl, os, signal, sys
signal.signal(signal.SIGIO, lambda *_: print("asked", flush=True))
write = sys.argv[2] == "write"
file = os.open(sys.argv[1], os.O_RDWR if write else os.O_RDONLY)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK if write else fcntl.F_RDLCK)
print("leased", flush=True)
sys.stdin.readline()
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
sys.stdin.readline()`;

/** Another program that has a lease (fcntl(2), F_SETLEASE) on a file. */
export async function lease({ child }: Pick<Place, "child">, path: string, kind = "write"): Promise<Child> {
  const lessee = child(PYTHON, ["-uSc", LEASE, path, kind]);
  assertEquals(await lessee.line(), "leased");
  return lessee;
}

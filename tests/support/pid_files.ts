/** PID files as another process would have left them, and processes for them to name. */
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { assertEquals } from "@std/assert";
import { encode, type HolderFields, type LockHolder, parse } from "../../src/record/record.ts";
import { system } from "../../src/sys/mod.ts";
import { type AgentOptions, type Kind, ownKind, type Place } from "./harness.ts";
import { needs, PYTHON } from "./needs.ts";

/** The own kind, and with it those that no run of this suite is made in. */
export const kinds: readonly Kind[] = ownKind === "deno"
  ? ["deno", "deno-no-ffi"]
  : ownKind === "node26"
  ? ["node26", "node20"]
  : [ownKind];

/** 32 hexadecimal digits. */
export const nonce = (): string => system().nonce();

/** A process's state and start time, read by other code than ours. */
function procStat(pid: number): string[] {
  const stat = readFileSync(`/proc/${pid}/task/${pid}/stat`, "latin1"); // qemu-user invents /proc/PID/stat of its own
  return stat.slice(stat.lastIndexOf(") ") + 2).split(" ");
}
export const stateOf = (pid: number): string => procStat(pid)[0];
export const startTimeOf = (pid: number): string => procStat(pid)[19];

/** What a live process of this machine would write; any field can be another. */
export function ownerOf(pid: number, other: Partial<HolderFields> = {}): HolderFields {
  return {
    ...system().self(),
    thread: undefined,
    pid,
    startTime: startTimeOf(pid),
    mode: "exclusive",
    acquiredAt: "2026-11-29T10:00:00.000Z",
    nonce: nonce(),
    ...other,
  };
}

/** What another host's record differs in: the name alone may be an old one of this host. */
export const ELSEWHERE = { host: "some-other-host", bootId: "11111111-2222-4333-8444-555555555555" };

/** What a process that has ended left. */
export const deadOwner = (other: Partial<HolderFields> = {}): HolderFields => ({
  ...ownerOf(process.pid),
  pid: deadPid(),
  ...other,
});

/** The number of a process that has ended and was reaped. */
export const deadPid = (): number => Number(execFileSync("sh", ["-c", "echo $$"], { encoding: "utf8" }));

/** Leaves a PID file; returns its bytes. */
export function leave(file: string, owner: HolderFields): Uint8Array {
  const bytes = encode(owner);
  writeFileSync(file, bytes);
  return bytes;
}

/** The record in a file, which holds exactly that and nothing after it. */
export function recordIn(file: string): LockHolder {
  const text = readFileSync(file, "utf8");
  const content = parse(new TextEncoder().encode(text));
  if (content.kind !== "record") throw new Error(`${file} is ${content.kind}: ${text}`);
  assertEquals(text, `${content.holder.pid}\n${JSON.stringify(JSON.parse(text.split("\n")[1]))}\n`);
  return content.holder;
}

export const names = (dir: string): string[] => readdirSync(dir).sort();

/** Asks again and again, for ten seconds at most. */
export async function until(what: string, check: () => boolean): Promise<void> {
  const end = performance.now() + 60_000;
  while (!check()) {
    if (performance.now() > end) throw new Error(`not within a minute: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

export const sleeper = ({ child }: Place): number => child("sleep", ["600"]).pid;

/** A process that has ended and that its parent never waits for. */
export async function zombie({ child }: Place): Promise<number> {
  // It ends after its parent has become sleep(1): sh would reap it.
  const script = '{ while [ "$(cat /proc/$$/comm)" != sleep ]; do :; done; } & echo $!; exec sleep 600';
  const pid = Number(await child("sh", ["-c", script]).line());
  await until("a zombie", () => stateOf(pid) === "Z");
  return pid;
}

/** Python with two threads; the first does what it is told and prints a line. */
async function twoThreads({ child }: Place, first: string): Promise<number> {
  const script = `import ctypes, os, threading, time
threading.Thread(target=lambda: time.sleep(600)).start()
print("up", flush=True)
${first}`;
  const python = child(PYTHON, ["-SEc", script]);
  await python.line();
  return python.pid;
}

/** The id of a thread that is not its process's first. */
export async function threadId(place: Place): Promise<number> {
  const pid = await twoThreads(place, "time.sleep(600)");
  // `!`: there are two
  return readdirSync(`/proc/${pid}/task`).map(Number).find((id) => id !== pid)!;
}

/** A process whose first thread has ended while another goes on: the kernel calls it a zombie, and it is none. */
export async function headless(place: Place): Promise<number> {
  const exit = '60 if os.uname().machine == "x86_64" else 93'; // exit(2), which ends one thread; Python's own machine
  const pid = await twoThreads(place, `ctypes.CDLL(None).syscall(${exit}, 0)`);
  await until("its first thread has ended", () => stateOf(pid) === "Z");
  assertEquals(readdirSync(`/proc/${pid}/task`).length, 2);
  return pid;
}

/**
 * Another user, with that user's rights to write and to send signals. Reading is
 * left to them because the runtimes and this checkout may lie in a home that is closed.
 */
export function asNobody(): AgentOptions {
  needs("root");
  const mayRead = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"];
  const by = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", ...mayRead];
  return { by, env: { HOME: "/nonexistent", DENO_DIR: "/nonexistent" } };
}

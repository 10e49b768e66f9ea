/** The system calls of an acquisition and its release: counted, compared with the floor's, and what each is for. */
import { join } from "node:path";
import type { Crew, Member } from "./crew.ts";
import { type Sequence, sequences } from "./strace.ts";

/** What each is for; `name #2` is the second of its name in one deed. */
const WHY: Record<string, string> = {
  "lstat(P.pid)":
    "is there a holder without a kernel lock? Looked at before anything is made or locked, for a refused " +
    "try must change nothing",
  "lstat(P)": "is it a program? It is opened to read only, for the kernel starts none that is open for writing",
  "open(P)": "the lock file, made if missing, never through a symlink, never waiting for a FIFO's other end",
  "fstat(fd)": "it is a regular file, and which one: device and inode",
  "flock(fd)": "the lock",
  "lstat(P) #2": "the file that was locked is still the one at the path: no other process can lock a deleted one",
  "pread(fd)": "what stands in it: nothing, a dead holder's record, or somebody's data, which is left alone",
  "pwrite(fd)": "our record, so that others can say who holds it",
  "lstat(P.pid) #2":
    "a holder without a kernel lock may have come between the first look and the lock; our record is " +
    "there by now, so one of the two sees the other",
  "lstat(P) #3": "on release: still the same file, or the hold was lost, and its holder is told",
  "pread(fd) #2": "on release: only our own record is taken away",
  "ftruncate(fd)": "on release: the record is gone, so the next one does not take us for a holder that crashed",
  "close(fd)": "the release itself: the kernel drops the lock with the last descriptor",
  "getrandom()": "the nonce, which tells this hold from the next one of the same process: sixteen are drawn at once",
};
/** The same, where Deno has no FFI: its own file functions. */
const OTHERS: Record<string, string> = {
  "readlink": "Deno resolves the path before each operation to judge the permission",
  "lseek(fd)": "Deno.FsFile reads and writes at a position that is set first",
  "read(fd)": "as pread",
  "write(fd)": "as pwrite",
  "fstat(fd)": "asked again after Deno's check of the opened file",
  "lstat(P)": "before the opening: without FFI a FIFO can only be seen first",
};

/** The forms that are traced, and the floor's that must be the same in Bun. */
export const TRACED = { "tryAcquire-new": "new", "tryAcquire-again": "again" } as const;

export const callsOf = (member: Member, dir: string, forms: readonly string[]): Promise<Map<string, Sequence>> =>
  sequences(
    member,
    forms,
    (form) => join(dir, `${form}.lock`),
    join(dir, `${member.where}.trace`.replaceAll(/[ ,]/g, "")),
  );

/** A name with which of its name it is. */
export function numbered(calls: readonly string[]): string[] {
  const seen = new Map<string, number>();
  return calls.map((call) => {
    const times = (seen.get(call) ?? 0) + 1;
    seen.set(call, times);
    return times === 1 ? call : `${call} #${times}`;
  });
}

/** What a numbered call is for; undefined for one that nobody has explained. */
export function why(call: string): string | undefined {
  const bare = call.replace(/ #\d+$/, "");
  return WHY[call] ?? OTHERS[bare] ?? OTHERS[bare.replace(/\(.*/, "")];
}

/** Where the floor does not do what ours does in Bun; empty: the same calls in the same order. */
export async function floorDiffers(crew: Crew, dir: string, bun: ReadonlyMap<string, Sequence>): Promise<string[]> {
  const floor = await callsOf(crew.floor, dir, Object.values(TRACED));
  return Object.entries(TRACED).flatMap(([form, floorForm]) => {
    const [a, b] = [bun.get(form)?.calls ?? [], floor.get(floorForm)?.calls ?? []];
    if (a.length > 0 && a.join() === b.join()) return [];
    return [`${form} in Bun is ${a.join(" ")}; ${floorForm} in bench/floor.c is ${b.join(" ")}`];
  });
}

/** The sequences of each runtime, by form. */
export async function oursByRuntime(crew: Crew, dir: string): Promise<Map<string, Map<string, Sequence>>> {
  const found = new Map<string, Map<string, Sequence>>();
  for (const member of crew.ours) found.set(member.where, await callsOf(member, dir, Object.keys(TRACED)));
  return found;
}

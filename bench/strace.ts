/** Which system calls a deed makes, in order, by strace. */
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Member, Worker } from "./crew.ts";

/** What the runtime's own memory, threads and clock need, now and then; no deed makes them. */
const NOISE = "futex,mmap,munmap,mremap,mprotect,madvise,brk,rt_sigaction,rt_sigprocmask,rt_sigreturn,sigaltstack," +
  "sched_yield,clock_nanosleep,nanosleep,epoll_wait,epoll_pwait,epoll_pwait2,clone,clone3,prctl,rseq,set_robust_list," +
  "sched_getaffinity,gettid,tgkill,exit,restart_syscall,getrusage,clock_gettime,membarrier";

/** A sequence, and in what part of the deeds it was just that. */
export interface Sequence {
  readonly calls: readonly string[];
  readonly share: number;
}

/** Deeds of each form, warm, under strace; a form's usual sequence of calls. */
export async function sequences(
  member: Member,
  forms: readonly string[],
  path: (form: string) => string,
  log: string,
): Promise<Map<string, Sequence>> {
  const worker = new Worker(member, ["strace", "-f", "-qq", "-s", "200", "-o", log, "-e", `trace=!${NOISE}`]);
  try {
    for (const form of forms) {
      await worker.ask("marked", form, 20, path(form));
      await worker.ask("marked", form, 60, path(form));
    }
    await worker.end();
  } finally {
    await worker.kill();
  }
  const deeds = parse(readFileSync(log, "utf8"), (form) => path(form));
  return new Map(forms.map((form) => [form, usual(deeds.get(form) ?? [])]));
}

function usual(all: readonly string[][]): Sequence {
  const late = all.slice(Math.floor(all.length / 4)); // the first ones load and learn
  const counts = new Map<string, number>();
  for (const calls of late) {
    const key = calls.join("\n");
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const [key, times] = [...counts].toSorted((a, b) => b[1] - a[1])[0] ?? ["", 0];
  return { calls: key.split("\n").filter(Boolean), share: times / late.length };
}

/** The deeds of each form: the calls of the thread that makes the marks, between two of them. */
function parse(log: string, path: (form: string) => string): Map<string, string[][]> {
  const deeds = new Map<string, string[][]>();
  const unfinished = new Map<string, string>();
  let thread: string | undefined, form: string | undefined;
  for (const line of log.split("\n")) {
    const [, pid, rest] = /^(\d+) +(.*)$/.exec(line) ?? [];
    if (!rest) continue;
    let call = rest;
    const [, begun] = /^(.*) <unfinished \.\.\.>$/.exec(rest) ?? [];
    if (begun !== undefined) {
      unfinished.set(pid, begun);
      continue;
    }
    const [, ended] = /^<\.\.\. \w+ resumed>(.*)$/.exec(rest) ?? [];
    if (ended !== undefined) call = (unfinished.get(pid) ?? "") + ended;
    const [, mark] = /"\/holdfast\/mark\/([\w-]+)"/.exec(call) ?? [];
    if (mark !== undefined) {
      thread = pid;
      form = mark === "end" ? undefined : mark;
      if (form) (deeds.get(form) ?? deeds.set(form, []).get(form)!).push([]); // `!`: set one step before
    } else if (form && pid === thread) {
      const name = named(call, path(form));
      if (name) deeds.get(form)?.at(-1)?.push(name);
    }
  }
  return deeds;
}

const SHORT: Record<string, string> = {
  openat: "open",
  newfstatat: "stat",
  statx: "stat",
  pread64: "pread",
  pwrite64: "pwrite",
};

/** `lstat(P)` for what each runtime does by another call; P is the lock file. */
function named(call: string, path: string): string | undefined {
  const [, raw, args] = /^(\w+)\((.*)/.exec(call) ?? [];
  if (!raw) return undefined;
  let name = SHORT[raw] ?? raw;
  const [, text] = /"([^"]*)"/.exec(args) ?? [];
  if (name === "stat" && /AT_EMPTY_PATH/.test(args)) return "fstat(fd)";
  if (name === "stat" && /AT_SYMLINK_NOFOLLOW/.test(args)) name = "lstat";
  if (name === "flock") return /LOCK_UN/.test(args) ? "flock(fd, LOCK_UN)" : "flock(fd)";
  const isPath =
    /^(l?stat|open|access|faccessat2?|unlink\w*|link\w*|rename\w*|readlink\w*|mkdir\w*|inotify_add_watch)$/;
  if (!isPath.test(name)) return /^\d+[,)]/.test(args) ? `${name}(fd)` : `${name}()`;
  return `${name}(${place(text ?? "", path)})`;
}

function place(text: string, path: string): string {
  if (text === path) return "P";
  if (text.startsWith(`${path}.`)) return `P${text.slice(path.length)}`;
  return path.startsWith(text) && text ? "a directory above P" : text || dirname(join(path, "x"));
}

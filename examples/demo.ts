/**
 * What the product is for, on a real lock, in about three seconds. A job takes
 * the lock; a second start is refused; the job is killed with `kill -9`; the
 * next start has the lock at once. Every line is checked, against the kernel and
 * not against our own word, and the first that is not as told ends it with 1.
 *
 *   deno task demo
 */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { styleText } from "node:util";
import { deno, tool } from "../tests/support/tools.ts";

const cwd = fileURLToPath(new URL("../", import.meta.url));
const DENO = { name: "Deno", command: [deno(), "run", "--quiet", "-A"] };
const BUN = { name: "Bun", command: [tool("bun"), "run"] };

const paint = (style: Parameters<typeof styleText>[0], text: string) =>
  styleText(style, text, { stream: process.stdout });
const did = (text: string) => console.log(`\n${paint("bold", text)}`);
const answer = (who: string, text: string) => console.log(`  ${paint("cyan", who.padEnd(11))} ${text}`);

class NotAsTold extends Error {}
function check(told: string, isSo: boolean, but = ""): asserts isSo {
  if (!isSo) throw new NotAsTold(`${told}${but && `; but: ${but}`}`);
}

/** Every child, so that none outlives the demo. */
const children = new Set<ChildProcess>();

/** One start of the nightly job. */
class Start {
  readonly name: string;
  readonly pid: number;
  readonly ended: Promise<number | null>;
  /** Its first line on standard output, or the end. */
  readonly spoke: Promise<string>;
  output = "";
  errors = "";

  constructor({ name, command: [program, ...args] }: typeof DENO, lock: string, seconds: number) {
    const env = { ...process.env, NO_COLOR: "1", FORCE_COLOR: undefined };
    const child = spawn(program, [...args, "examples/nightly.ts", lock, String(seconds)], {
      cwd,
      env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    children.add(child);
    this.name = name;
    this.pid = child.pid ?? 0;
    child.stderr.setEncoding("utf8").on("data", (text) => this.errors += text);
    this.spoke = new Promise((resolve) => {
      child.stdout.setEncoding("utf8").on("data", (text) => {
        this.output += text;
        if (this.output.includes("\n")) resolve(this.output.split("\n")[0]);
      }).on("end", () => resolve(this.output));
    });
    this.ended = new Promise((resolve, reject) => {
      child.on("error", reject);
      child.on("close", (code) => (children.delete(child), resolve(code)));
    });
  }
}

/** The kernel, asked directly: not one line of the library takes part. */
const libc = Deno.dlopen("libc.so.6", {
  flock: { parameters: ["i32", "i32"], result: "i32" },
  __errno_location: { parameters: [], result: "pointer" },
});
const LOCK_EX = 2, LOCK_NB = 4, EWOULDBLOCK = 11;

function refusesEverybody(lock: string): boolean {
  const fd = openSync(lock, "r");
  const where = new Deno.UnsafePointerView(libc.symbols.__errno_location()!); // `!`: errno has an address
  const refused = libc.symbols.flock(fd, LOCK_EX | LOCK_NB) === -1 && where.getInt32() === EWOULDBLOCK;
  closeSync(fd);
  return refused;
}

/** One reading of `/proc/locks` can miss a lock that is held throughout: beyond a page, 4,096 bytes, it is no snapshot. */
const READINGS = 16;

/** The line of `/proc/locks` by which the kernel says that this process holds a lock on this file. */
function kernelLine(lock: string, pid: number): string | undefined {
  const inode = statSync(lock, { bigint: true }).ino;
  const pattern = new RegExp(`^\\d+: FLOCK +ADVISORY +WRITE +${pid} [0-9a-f]+:[0-9a-f]+:${inode} .*$`, "m");
  let line: string | undefined;
  for (let i = 0; i < READINGS && line === undefined; i++) {
    line = pattern.exec(readFileSync("/proc/locks", "utf8"))?.[0];
  }
  return line;
}

const milliseconds = (since: number) => `${(performance.now() - since).toFixed(1)} ms`;
const files = (folder: string) => readdirSync(folder).map((name) => `${name} (${statSync(join(folder, name)).size} B)`);

async function act(holder: typeof DENO, contender: typeof DENO): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-demo-"));
  const lock = join(folder, "nightly.lock");
  try {
    did(`1. The nightly job starts, in ${holder.name}`);
    const first = new Start(holder, lock, 60);
    const { pid } = first;
    said(first, await first.spoke);
    check("the job says that it has the kernel's lock", first.output.startsWith(`pid ${pid} has the lock (flock)`));
    const line = kernelLine(lock, pid);
    check(`/proc/locks names pid ${pid} as the holder`, line !== undefined, readFileSync("/proc/locks", "utf8"));
    answer("/proc/locks", line);
    const head = readFileSync(lock, "utf8").split("\n")[0];
    check(`the first line of the lock file is ${pid}`, head === String(pid), head);
    answer("head -1", `${head}  (so the lock file also reads as a PID file)`);

    did(`2. It is started a second time, in ${contender.name}`);
    check("the kernel refuses everybody else", refusesEverybody(lock));
    answer("kernel", "flock(LOCK_EX|LOCK_NB) → EWOULDBLOCK");
    const second = new Start(contender, lock, 60);
    const code = await second.ended;
    said(second, second.errors.trim());
    check(`the second start names pid ${pid}`, second.errors.startsWith(`already running: pid ${pid} (`));
    check(
      "the second start ends with 0 and has done nothing",
      code === 0 && second.output === "",
      `it ended with ${code}`,
    );
    answer("exit", `${code}; pid ${pid} works on`);

    did(`3. The job is killed: kill -9 ${pid}`);
    const killed = performance.now();
    process.kill(pid, "SIGKILL");
    while (kernelLine(lock, pid)) check("the kernel drops the lock within 5 s", performance.now() - killed < 5000);
    answer("/proc/locks", `no lock any more, ${milliseconds(killed)} after the kill`);
    const left = readFileSync(lock, "utf8").split("\n")[0];
    check("the dead job's record is still in the file", left === String(pid), left);
    answer("head -1", `${left}  (what the dead job left; nobody need remove it)`);

    did(`4. The next start, in ${contender.name}`);
    const started = performance.now();
    const third = new Start(contender, lock, 0);
    const spoke = await third.spoke;
    const took = `${milliseconds(killed)} after the kill, ${milliseconds(started)} after its start`;
    const end = await third.ended;
    said(third, third.errors.trim());
    said(third, spoke);
    const { pid: next } = third;
    check("the next start gets the lock", spoke.startsWith(`pid ${next} has the lock (flock)`) && end === 0);
    check(
      `the next start reports the stale holder, pid ${pid}`,
      third.errors.startsWith("holdfast: the last holder of ") &&
        third.errors.includes(`died without releasing it: pid ${pid} (`),
    );
    answer("time", `it had the lock ${took}`);
    await first.ended;
    const list = files(folder).join(", ");
    check("after the release the lock file is empty, and nothing else is there", list === "nightly.lock (0 B)", list);
    answer("ls", `${list}: released. The empty file stays and means nothing`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function said({ name }: Start, text: string): void {
  for (const line of text.split("\n")) answer(`${name} says`, line);
}

/** A claim that never comes true is not as told either. */
function inTime(work: Promise<void>): Promise<void> {
  const late = new Promise<never>((_, reject) => {
    const timer = setTimeout(() => reject(new NotAsTold("it takes a second or two; but it hangs")), 15_000);
    work.finally(() => clearTimeout(timer)).catch(() => {}); // who awaits the race hears of it
  });
  return Promise.race([work, late]);
}

const began = performance.now();
try {
  console.log(paint("inverse", " holder in Deno, contender in Deno "));
  await inTime(act(DENO, DENO));
  console.log(`\n${paint("inverse", " holder in Bun, contender in Deno ")}`);
  await inTime(act(BUN, DENO));
  console.log(paint(["bold", "green"], `\nAll as told, in ${((performance.now() - began) / 1000).toFixed(1)} s.`));
} catch (error) {
  const text = error instanceof NotAsTold ? `NOT AS TOLD: ${error.message}` : `FAILED: ${error}`;
  console.error(styleText(["bold", "red"], `\n${text}`, { stream: process.stderr }));
  process.exitCode = 1;
} finally {
  for (const child of children) child.kill("SIGKILL"); // ours, by its PID
}

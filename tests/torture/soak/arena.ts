/**
 * One lock, those who contend for it, and one who reads what they say, kills
 * some, stops some, deletes the lock file, and watches that nobody is stuck.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Lock } from "../../../mod.ts";
import { Random } from "../contention/random.ts";
import { type Child, within } from "../../support/harness.ts";
import { History, parseSaying } from "../history.ts";
import { audit } from "../ledger.ts";
import { type Job, type Post, start } from "./crew.ts";

/** A holder whose file was deleted is told within 5 s; and a little later on a busy machine. In milliseconds. */
export const WINDOW = 5_000 + 2_000;

/** Who has said nothing for so long counts as stuck, in milliseconds. */
const PATIENCE = 60_000;

/** So much longer it may take until everybody has had it once, in milliseconds. */
const GRACE = 20_000;

/** What a process that lives through it may have more at the end: descriptors, and memory in KiB. */
export const MORE_FDS = 4, MORE_MEMORY = 64 * 1024;

export interface ArenaOptions {
  readonly seed: number;
  readonly milliseconds: number;
  /** An empty folder. */
  readonly dir: string;
  /** The posts, given what all have in common. */
  readonly posts: (common: Pick<Job, "path" | "pipe" | "counter" | "list">) => readonly Post[];
  /** Mean time between two of these, in milliseconds; absent: never. */
  readonly kills?: number;
  readonly stops?: number;
  readonly deletions?: number;
  /** Whether updates are counted; not where two may be inside. */
  readonly ledger: boolean;
  /** Ends as soon as anything is wrong. */
  readonly impatient?: boolean;
}

export interface ArenaResult {
  seconds: number;
  entered: number;
  /** How often each kind came in. */
  readonly by: Map<string, number>;
  kills: number;
  /** How many of the killed were inside. */
  killedInside: number;
  stops: number;
  deletions: number;
  losses: number;
  /** Meetings after a deletion that the documentation has. */
  documented: number;
  longest: number;
  updates: number;
  /** Two inside, or a history that cannot be. */
  overlaps: string[];
  lost: string[];
  stuck: string[];
  /** Leaks, and workers that failed. */
  failures: string[];
  /** What processes that lived through it had after a tenth of the time, and at the end. */
  readonly flat: string[];
  /** The time until the first thing was wrong, in milliseconds. */
  found?: number;
}

interface Member {
  readonly post: Post;
  readonly id: number;
  readonly child: Child;
  who: string;
  heard: number;
  inside: boolean;
  ready: boolean;
  /** By us. */
  killed: boolean;
  /** Descriptors and memory, once a second. */
  readonly samples: { fds: number; memory: number }[];
}

const nameOf = ({ kind, job }: Post) => job.backend === "pidfile" ? `${kind} by PID file` : kind;

const sleep = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

class Arena {
  readonly #options: ArenaOptions;
  readonly #path: string;
  readonly #pipe: string;
  readonly #posts: readonly Post[];
  readonly #members: Member[] = [];
  readonly #byId = new Map<number, Member>();
  readonly #history = new History(WINDOW);
  readonly #result: ArenaResult = {
    ...{ seconds: 0, entered: 0, by: new Map(), kills: 0, killedInside: 0, stops: 0, deletions: 0, losses: 0 },
    ...{ documented: 0, longest: 0, updates: 0, overlaps: [], lost: [], stuck: [], failures: [], flat: [] },
  };
  /** Who has not released since the file was deleted by us; undefined until that is read in its place among all others. */
  #mayHold: Set<Member> | undefined;
  #ids = 0;
  #stopped = Promise.withResolvers<void>();
  #over = false;
  /** Before the first process: what is found while the others start is found, too. */
  readonly #began = performance.now();
  #writer: Deno.FsFile | undefined;

  constructor(options: ArenaOptions) {
    this.#options = options;
    const { dir, ledger } = options;
    mkdirSync(dir, { recursive: true });
    const [counter, list] = ["counter", "list"].map((name) => join(dir, name));
    [this.#path, this.#pipe] = ["lock", "pipe"].map((name) => join(dir, name));
    writeFileSync(counter, "0".repeat(12));
    writeFileSync(list, "");
    execFileSync("mkfifo", [this.#pipe]);
    this.#posts = options.posts({ path: this.#path, pipe: this.#pipe, ...(ledger ? { counter, list } : {}) });
  }

  async run(): Promise<ArenaResult> {
    const { milliseconds, dir, ledger } = this.#options;
    // For reading and writing both, so that it has an end only when we say so.
    const reader = await Deno.open(this.#pipe, { read: true, write: true });
    this.#writer = await Deno.open(this.#pipe, { write: true });
    const reading = this.#read(reader);
    const tasks: Promise<void>[] = [];
    try {
      for (const place of this.#posts.keys()) this.#start(place);
      await within(60_000, this.#allReady());
      const begins = performance.now();
      tasks.push(this.#kill(), this.#stop(), this.#delete(), this.#watch());
      await Promise.race([sleep(milliseconds), this.#stopped.promise]);
      // On a busy machine a short time is none for some: each is to have had it.
      while (!this.#over && !this.#allWereIn() && performance.now() < begins + milliseconds + GRACE) await sleep(10);
      this.#end();
      await Promise.all(tasks);
      this.#result.seconds = (performance.now() - begins) / 1000;
      await this.#dismiss();
    } finally {
      this.#end();
      await Promise.allSettled(tasks);
      await Promise.all(this.#members.map(({ child }) => child.kill()));
      await this.#mark("end");
      await reading;
      reader.close();
      this.#writer.close();
    }
    const history = this.#history;
    history.end();
    const { entered, losses, documented, longest, wrong, left, dead } = history;
    Object.assign(this.#result, { entered, losses, documented, longest, overlaps: wrong });
    if (ledger) {
      const [list, counter] = ["list", "counter"].map((name) => readFileSync(join(dir, name), "utf8"));
      this.#result.updates = Number(counter);
      this.#result.lost = audit({ list, counter: Number(counter), killed: dead, said: left });
    }
    return this.#result;
  }

  readonly #end = () => {
    this.#over = true;
    this.#stopped.resolve();
  };

  #start(place: number): void {
    const post = this.#posts[place];
    const id = ++this.#ids;
    const child = start(post, id, new Random(this.#options.seed, 1000 + id).below(2 ** 32), this.#options.dir);
    const who = `${id}.${child.pid}`;
    const member: Member = {
      post,
      id,
      child,
      who,
      heard: performance.now(),
      inside: false,
      ready: false,
      killed: false,
      samples: [],
    };
    this.#members[place] = member;
    this.#byId.set(id, member);
    child.ended.then(({ code, signal }) => {
      if (this.#over || member.killed) return;
      this.#fail(`${this.#name(member)} ended by itself with ${code ?? signal}: ${child.errors.slice(-500)}`);
      this.#mark(`dead ${member.who}`);
    });
  }

  #name = ({ post, who }: Member) => `${post.kind} ${who}`;

  #fail(sentence: string): void {
    this.#result.failures.push(sentence);
    this.#found();
  }

  #found(): void {
    this.#result.found ??= performance.now() - this.#began;
    if (this.#options.impatient) this.#end();
  }

  /** A line of our own, in the order of all others. Never blocking: this process empties the pipe as well. */
  async #mark(line: string): Promise<void> {
    await this.#writer?.write(new TextEncoder().encode(`${line}\n`));
  }

  async #read(reader: Deno.FsFile): Promise<void> {
    const bytes = new Uint8Array(65536);
    const decoder = new TextDecoder();
    let rest = "";
    for (;;) {
      const count = await reader.read(bytes);
      if (!count) return;
      const lines = (rest + decoder.decode(bytes.subarray(0, count), { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      const at = performance.now();
      for (const line of lines) {
        if (line === "end") return;
        this.#hear(line, at);
      }
    }
  }

  #hear(line: string, at: number): void {
    const [what, who] = line.split(" ", 2);
    const member = this.#byId.get(parseInt(who));
    if (member) member.heard = at;
    const saying = parseSaying(line);
    if (saying) {
      const before = this.#history.wrong.length;
      this.#history.add(saying, at);
      if (this.#history.wrong.length > before) this.#found();
      if (!member) return;
      if (what === "enter") {
        const name = nameOf(member.post);
        this.#result.by.set(name, (this.#result.by.get(name) ?? 0) + 1);
      }
      member.inside = what === "enter" || (member.inside && what !== "leave" && what !== "lost");
    } else if (what === "out" && member) {
      this.#mayHold?.delete(member);
    } else if (what === "gone") {
      this.#mayHold = new Set(this.#members);
    } else if (what === "ready" && member) {
      member.who = who; // behind strace its own PID is another
      member.ready = true;
    } else this.#fail(line);
  }

  #allWereIn = () => this.#posts.every((post) => this.#result.by.has(nameOf(post)));

  async #allReady(): Promise<void> {
    // One that has ended by itself never will be.
    while (!this.#members.every(({ ready }) => ready) && !this.#over && this.#result.failures.length === 0) {
      await sleep(5);
    }
  }

  /** Does something at random moments, until it is over. */
  async #nowAndThen(mean: number | undefined, stream: number, act: (random: Random) => Promise<void>) {
    if (mean === undefined) return;
    const random = new Random(this.#options.seed, stream);
    for (;;) {
      await Promise.race([sleep(random.between(0, 2 * mean)), this.#stopped.promise]);
      if (this.#over) return;
      await act(random);
    }
  }

  #kill = () =>
    this.#nowAndThen(this.#options.kills, 1, async (random) => {
      const place = random.pick([...this.#posts.keys()].filter((each) => this.#posts[each].mortal));
      const member = this.#members[place];
      if (!member.ready) return; // it is just starting
      await this.#mark(`killing ${member.who}`);
      // Most of the time it is not inside, and then its death says little.
      for (let i = 0; random.next() < 0.995 && i < 300 && !member.inside && !this.#over; i++) await sleep(1);
      member.killed = true;
      await member.child.kill();
      this.#result.kills++;
      if (member.inside) this.#result.killedInside++;
      await this.#mark(`dead ${member.who}`);
      if (!this.#over) this.#start(place);
    });

  #stop = () =>
    this.#nowAndThen(this.#options.stops, 2, async (random) => {
      const { child } = random.pick(this.#members);
      await child.kill("SIGSTOP");
      await sleep(random.between(1, 80));
      await child.kill("SIGCONT");
      this.#result.stops++;
    });

  /**
   * Never twice in one hold: that cannot be seen where whoever came in between has left again (README.md, "What it does
   * not do"). One run of the gate in ten failed of it, with two deletions within 80 ms.
   */
  #delete = () =>
    this.#nowAndThen(this.#options.deletions, 3, async () => {
      await this.#mark("deleted");
      try {
        unlinkSync(this.#path);
        this.#result.deletions++;
      } catch {
        return; // it has not been made again yet
      }
      this.#mayHold = undefined;
      await this.#mark("gone");
      const isFree = () => this.#mayHold && [...this.#mayHold].every(({ killed }) => killed);
      while (!isFree() && !this.#over) await sleep(5);
    });

  async #watch(): Promise<void> {
    while (!this.#over) {
      for (const member of this.#members) {
        if (!member.post.mortal) this.#sample(member);
        if (performance.now() - member.heard < PATIENCE) continue;
        member.heard = Infinity; // told once
        this.#isStuck(member, "waits");
      }
      await Promise.race([sleep(1000), this.#stopped.promise]);
    }
  }

  #isStuck(member: Member, how: string): void {
    const status = JSON.stringify(Lock.inspect(this.#path));
    this.#result.stuck.push(`${this.#name(member)} ${how} for ${PATIENCE / 1000} s, and inspect() says ${status}`);
    this.#found();
  }

  #sample({ child: { pid }, samples }: Member): void {
    try {
      const fds = readdirSync(`/proc/${pid}/fd`).length;
      const memory = /^VmRSS:\s*(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
      samples.push({ fds, memory: Number(memory?.[1] ?? 0) });
    } catch {
      // it has ended by itself, which is told elsewhere
    }
  }

  /** All go home; whoever does not is stuck. */
  async #dismiss(): Promise<void> {
    for (const member of this.#members) if (!member.post.mortal && !member.post.by) this.#compare(member);
    for (const { child } of this.#members) child.close();
    // One that was killed a moment ago has no successor any more.
    await Promise.all(
      this.#members.filter(({ killed }) => !killed).map(async (member) => {
        try {
          const { code, signal } = await within(PATIENCE, member.child.ended);
          if (code !== 0) this.#fail(`${this.#name(member)} ended with ${code ?? signal}: ${member.child.errors}`);
        } catch {
          this.#isStuck(member, "has not ended");
        }
      }),
    );
  }

  /** The least of several samples, because a moment's wait has files open that are closed right after. */
  #compare({ post, who, samples }: Member): void {
    const warm = samples.slice(Math.floor(samples.length / 10));
    if (warm.length < 10) return; // too short to say anything
    const least = (part: typeof samples, what: "fds" | "memory") => Math.min(...part.map((each) => each[what]));
    const part = Math.floor(warm.length / 4);
    const [early, late] = [warm.slice(0, part), warm.slice(-part)];
    const [fds, memory] = (["fds", "memory"] as const).map((what) => [least(early, what), least(late, what)]);
    const mib = (kib: number) => (kib / 1024).toFixed();
    this.#result.flat.push(
      `${post.kind} ${fds[0]} → ${fds[1]} descriptors, ${mib(memory[0])} → ${mib(memory[1])} MiB`,
    );
    if (fds[1] > fds[0] + MORE_FDS) this.#fail(`${post.kind} ${who} had ${fds[0]} descriptors, and ${fds[1]} later`);
    if (memory[1] > memory[0] + MORE_MEMORY) {
      this.#fail(`${post.kind} ${who} had ${mib(memory[0])} MiB of memory, and ${mib(memory[1])} later`);
    }
  }
}

/** Lets them contend, and says what came of it. */
export const runArena = (options: ArenaOptions): Promise<ArenaResult> => new Arena(options).run();

/**
 * Finds two that were inside at once, in what all of them said.
 *
 * Each says `enter` after it was granted and `leave` before it releases, with
 * one write(2) to one pipe. The kernel puts such writes in order, so the order
 * in the pipe is one in which it happened: no clock is needed, and none that a
 * process brings along is trusted (Deno's `process.hrtime` begins with its
 * process). The only times are the reader's, for the window after a deletion.
 *
 * Pure: lines in, sentences out.
 */

export type Mode = "exclusive" | "shared";

/** What is said. `who` is a number that was given once, a dot, and the PID, which may come again. */
export type Saying =
  | { readonly what: "enter"; readonly who: string; readonly mode: Mode }
  /**
   * `leave`: about to release. `lost`: told that it lost the lock. `deletes`: is about to delete the lock file, while
   * inside. By the one who kills: `killing`, before that, and `dead`, once it is reaped.
   */
  | { readonly what: "leave" | "lost" | "deletes" | "killing" | "dead"; readonly who: string }
  /** Somebody outside is about to delete the lock file. */
  | { readonly what: "deleted" };

/** What a line says; undefined for one that says nothing about stays. */
export function parseSaying(line: string): Saying | undefined {
  const [what, who, mode] = line.split(" ");
  switch (what) {
    case "deleted":
      return { what };
    case "enter":
      return who && (mode === "exclusive" || mode === "shared") ? { what, who, mode } : undefined;
    case "leave":
    case "lost":
    case "deletes":
    case "killing":
    case "dead":
      return who ? { what, who } : undefined;
  }
}

/** Once inside. */
interface Stay {
  readonly who: string;
  readonly mode: Mode;
  left?: number;
  /** It was told that it lost the lock, or died before it could be. */
  told: boolean;
  /** It has deleted the lock file itself: until it leaves it may have company. */
  deleted: boolean;
}

/** Two inside, and a deletion that may explain it. */
interface Meeting {
  readonly first: Stay;
  readonly second: Stay;
  readonly began: number;
  /** Until then one of them has to be told, if need be. */
  readonly until: number;
}

/** The history of one lock. */
export class History {
  /** How often somebody came in. */
  entered = 0;
  /** How often somebody was told of a loss. */
  losses = 0;
  /** Meetings that a deletion explains. */
  documented = 0;
  /** The longest of these, in the reader's milliseconds. */
  longest = 0;
  /** A sentence for whatever must not be. */
  readonly wrong: string[] = [];
  /** How often each left an exclusive stay. */
  readonly left = new Map<string, number>();
  /** Those that are dead. */
  readonly dead = new Set<string>();
  readonly #window: number;
  readonly #inside = new Map<string, Stay>();
  /** Who has left, for one that is told by its release. */
  readonly #last = new Map<string, Stay>();
  /** Those about to be killed, and who came in since: if one of them says anything more, it had been alive. */
  readonly #doomed = new Map<string, { readonly stay: Stay | undefined; readonly newcomers: Stay[] }>();
  #meetings: Meeting[] = [];
  #deleted = -Infinity;
  /** Whether any deletion was announced: without one nobody can lose a lock. */
  #deletions = false;

  /** `window`: how long after a deletion two may be inside until one is told, in milliseconds. */
  constructor(window: number) {
    this.#window = window;
  }

  /** The next saying, and when it was read, in milliseconds. */
  add(saying: Saying, at: number): void {
    this.#settle(at);
    if (saying.what === "deleted") {
      this.#deleted = at;
      this.#deletions = true;
      return;
    }
    const { who } = saying;
    if (this.dead.has(who)) return void this.#isWrong(`${who} says ${saying.what} after its death`);
    if (saying.what === "dead") return this.#bury(who, at);
    if (saying.what === "killing") {
      this.#doomed.set(who, { stay: this.#inside.get(who), newcomers: [] });
      return;
    }
    const doomed = this.#doomed.get(who);
    if (doomed?.stay) { for (const newcomer of doomed.newcomers.splice(0)) this.#meet(doomed.stay, newcomer, at); }
    switch (saying.what) {
      case "enter":
        return this.#enter(who, saying.mode, at);
      case "leave":
        return this.#leave(who, at);
      case "lost":
        return this.#lose(who, at);
      case "deletes": {
        this.#deletions = true;
        const stay = this.#inside.get(who);
        if (stay) stay.deleted = true;
        else this.#isWrong(`${who} deletes the file and is not inside`);
      }
    }
  }

  /** Nothing more comes. */
  end(): void {
    this.#settle(Infinity);
    for (const { who } of this.#inside.values()) this.#isWrong(`${who} never left`);
  }

  #enter(who: string, mode: Mode, at: number): void {
    this.entered++;
    if (this.#inside.has(who)) this.#isWrong(`${who} enters twice`);
    const stay: Stay = { who, mode, told: false, deleted: false };
    for (const other of this.#inside.values()) {
      if (other.who === who || (mode === "shared" && other.mode === "shared")) continue;
      const doomed = this.#doomed.get(other.who);
      if (doomed && doomed.stay === other) doomed.newcomers.push(stay); // perhaps it is dead by now
      else this.#meet(other, stay, at);
    }
    this.#inside.set(who, stay);
    const doomed = this.#doomed.get(who);
    if (doomed) this.#doomed.set(who, { stay, newcomers: [] });
  }

  #leave(who: string, at: number): void {
    const stay = this.#inside.get(who);
    if (!stay) return void this.#isWrong(`${who} leaves and is not inside`);
    stay.left = at;
    this.#inside.delete(who);
    this.#last.set(who, stay);
    if (stay.mode === "exclusive") this.left.set(who, (this.left.get(who) ?? 0) + 1);
  }

  #lose(who: string, at: number): void {
    this.losses++;
    const stay = this.#inside.get(who) ?? this.#last.get(who);
    if (!this.#deletions) this.#isWrong(`${who} lost the lock, and nobody had deleted its file`);
    if (!stay) return void this.#isWrong(`${who} lost the lock and never had it`);
    stay.told = true;
    stay.left ??= at;
    this.#inside.delete(who);
    this.#last.set(who, stay);
  }

  #bury(who: string, at: number): void {
    const stay = this.#inside.get(who) ?? this.#last.get(who);
    if (stay) {
      stay.told = true;
      stay.left ??= at;
    }
    this.#inside.delete(who);
    this.#last.delete(who);
    this.#doomed.delete(who);
    this.dead.add(who);
  }

  /** Two inside. */
  #meet(first: Stay, second: Stay, at: number): void {
    if (first.deleted || second.deleted) {
      this.#meetings.push({ first, second, began: at, until: Infinity });
    } else if (at - this.#deleted <= this.#window) {
      this.#meetings.push({ first, second, began: at, until: this.#deleted + this.#window });
    } else {
      this.#isWrong(`${second.who} (${second.mode}) enters while ${first.who} (${first.mode}) is inside`);
    }
  }

  #settle(at: number): void {
    if (this.#meetings.length === 0) return;
    this.#meetings = this.#meetings.filter(({ first, second, began, until }) => {
      const end = Math.min(first.left ?? Infinity, second.left ?? Infinity);
      const explained = first.told || second.told || first.deleted || second.deleted;
      if (at <= until && at < Infinity && !(explained && end < Infinity)) return true;
      if (explained) {
        this.documented++;
        this.longest = Math.max(this.longest, Math.min(end, until, at) - began);
      } else {
        this.#isWrong(
          `${second.who} (${second.mode}) entered while ${first.who} (${first.mode}) was inside, after a deletion, ` +
            `and neither was told within ${this.#window} ms of that`,
        );
      }
      return false;
    });
  }

  #isWrong(sentence: string): void {
    this.wrong.push(`entry ${this.entered}: ${sentence}`);
  }
}

/**
 * Three deliberate faults, one at a time: each has to be found, and nothing
 * without them. What cannot find these would find nothing else either.
 */
import { join } from "node:path";
import { editedModules, type Modules } from "./contention/modules.ts";
import type { Edit } from "../support/edits.ts";
import type { Part } from "./part.ts";
import { type Common, crew, ROBBED } from "./soak.ts";
import { type ArenaResult, runArena } from "./soak/arena.ts";
import type { Post } from "./soak/crew.ts";

interface Fault {
  readonly edits: readonly Edit[];
  /** Who provokes it. */
  readonly posts: (modules: Modules, common: Common) => readonly Post[];
}

/** A command that runs another one, whose system calls it slows down. */
const slowly = (inject: string) => [
  ...["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", "signal=none"],
  ...["-e", `inject=${inject}`],
];

/** As exact edits of src/backend, so that one that no longer fits is an error. */
export const FAULTS: Readonly<Record<string, Fault>> = {
  /** Locked, but a file that nobody can open any more; its holder has deleted it, and released. */
  "no inode check": {
    edits: [["flock.ts", "    if (sys.stat(path)?.identity !== token) return undefined;\n", ""]],
    posts: (modules, common) => crew(modules, common, ["bun", "deno", "bun", "node26"], false, ROBBED),
  },
  /**
   * Tidy, and two locks: one on the file that the next holder has, and one on that which the one after it makes.
   * Unlinked before it is closed it would do no harm, because of the inode check.
   */
  "release by unlink": {
    edits: [[
      "held.ts",
      "      ours = this.#close(ours);\n    }\n    if (!ours)",
      "      ours = this.#close(ours);\n      try { this.#sys.unlink(this.#request.path); } catch {}\n    }\n    if (!ours)",
    ]],
    posts: (modules, common) =>
      crew(modules, common, ["bun", "deno", "bun", "node26"], false, { shared: 0, burst: 200, hold: 1, gap: 2 }),
  },
  /** The kernel lock is what announces: who looks for a PID file before it has that overlooks one that is just made. */
  "look before announce": {
    edits: [
      [
        "flock.ts",
        `    if (isHeld(sys, path, file.flock(mode))) { // 2`,
        `    const seen = lookAtPidFile(sys, path);
    if (isHeld(sys, path, file.flock(mode))) { // 2`,
      ],
      ["flock.ts", "    if (early) return { refusal: early };\n", ""],
      ["flock.ts", "const { refusal, dead } = lookAtPidFile(sys, path); // 6", "const { refusal, dead } = seen;"],
    ],
    // The gap between the look and the lock is a few microseconds: for these it is 20 ms, as if they were preempted there.
    posts: (modules, common) => [
      ...crew(modules, common, ["bun", "node26"], false, {
        ...{ shared: 0, styles: ["burst"], burst: 2, hold: 0, gap: 30 },
      })
        .map((post) => ({ ...post, by: slowly("flock:delay_enter=20ms") })),
      ...crew(modules, common, ["bun", "node26"], false, {
        ...{ shared: 0, styles: ["acquire"], hold: 30, gap: 1, backend: "pidfile" },
      }),
    ],
  },
};

/** A fault is found within so long, in milliseconds. */
export const LIMIT = 60_000;

/** Lets them contend with the fault, or without it, until something is wrong or the time is up. */
export function attack(
  name: string,
  faulty: boolean,
  seed: number,
  milliseconds: number,
  dir: string,
): Promise<ArenaResult> {
  const { edits, posts } = FAULTS[name];
  const modules = editedModules(faulty ? edits : [], join(dir, "modules"));
  return runArena({
    ...{ seed, milliseconds, dir: join(dir, "arena"), ledger: false, impatient: true },
    posts: (common) => posts(modules, common),
  });
}

/** What was wrong first. */
export const first = ({ overlaps, stuck, failures }: ArenaResult): string | undefined =>
  [...overlaps, ...stuck, ...failures][0];

export const deliberate: Part = async ({ seed, short, dir }) => {
  const rows: string[][] = [], failures: string[] = [];
  for (const name of Object.keys(FAULTS)) {
    const found = await attack(name, true, seed, LIMIT, join(dir, name, "faulty"));
    const took = found.found ?? Infinity;
    const control = await attack(
      name,
      false,
      seed,
      short ? 2_000 : Math.max(10_000, 2 * took),
      join(dir, name, "control"),
    );
    rows.push([
      ...[name, (took / 1000).toFixed(1), `${found.entered}`, first(found) ?? "**nothing**"],
      ...[control.seconds.toFixed(), `${control.entered}`, first(control) ?? "nothing"],
    ]);
    if (found.overlaps.length === 0) failures.push(`${name}, seed ${seed}: not found within ${LIMIT / 1000} s`);
    const wrong = first(control);
    if (wrong) failures.push(`without "${name}", seed ${seed}: ${wrong}`);
  }
  return {
    title: "Deliberate faults",
    notes: [
      "The code that ships with one fault at a time, and, as the control, as it is: the same contenders each time.",
    ],
    columns: [
      "fault",
      "found after s",
      "acquisitions",
      "what was found",
      "control s",
      "acquisitions",
      "what was found",
    ],
    rows,
    failures,
  };
};

/** The source as a graph of imports; the tests check its direction with the same functions. */
import { readdirSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";

const src = fileURLToPath(new URL("../../src/", import.meta.url));

/** A file of `src/`. */
export interface Source {
  /** From `src/`, such as `backend/flock.ts`. */
  readonly name: string;
  readonly text: string;
  readonly lines: number;
  /** What it imports or re-exports of `src/`, types included. */
  readonly imports: readonly string[];
}

export type Sources = ReadonlyMap<string, Source>;

/** The rooms from top to bottom: a file imports only from its own room and from those below it. */
export const ROOMS: readonly string[] = [
  "cli",
  "entry points",
  "inspect",
  "hold",
  "wait",
  "backend",
  "events",
  "record",
  "sys",
];

/** A source of that name and text. */
export function sourceOf(name: string, text: string): Source {
  const pattern = /^(?:import|export)\b[^;]*?\bfrom "(\.[^"]*)";|\bimport\("(\.[^"]*)"\)/gm;
  const imports = [...text.matchAll(pattern)].map(([, from, lazy]) => posix.join(posix.dirname(name), from ?? lazy));
  return { name, text, lines: text.split("\n").length - 1, imports: imports.filter((each) => !each.startsWith("..")) };
}

/** All files of `src/`. */
export function readSources(): Sources {
  const names = readdirSync(src, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts")).sort();
  return new Map(names.map((name) => [name, sourceOf(name, readFileSync(src + name, "utf8"))]));
}

/** The sets of files that import each other, directly or not: Tarjan's strongly connected components. */
export function circles(sources: Sources): string[][] {
  const index = new Map<string, number>(), low = new Map<string, number>();
  const stack: string[] = [], found: string[][] = [];
  const visit = (name: string): void => {
    index.set(name, index.size);
    low.set(name, index.get(name)!); // `!`: set a line above
    stack.push(name);
    for (const next of sources.get(name)?.imports ?? []) {
      if (!index.has(next)) visit(next);
      else if (!stack.includes(next)) continue;
      low.set(name, Math.min(low.get(name)!, low.get(next)!)); // `!`: both were visited
    }
    if (low.get(name) !== index.get(name)) return;
    const circle = stack.splice(stack.indexOf(name));
    if (circle.length > 1) found.push(circle.sort());
  };
  for (const name of sources.keys()) if (!index.has(name)) visit(name);
  return found;
}

/** The files of `src/` that a program imports by the package's name, beside `cli/`: they lie flat, and form a room. */
const ENTRY_POINTS = ["lock.ts", "journal.ts", "diagnostics.ts"];

const roomOf = (name: string): string => ENTRY_POINTS.includes(name) ? "entry points" : name.split("/")[0];

/** The imports of a room above, one a line. */
export function against(sources: Sources): string[] {
  const level = (name: string) => ROOMS.indexOf(roomOf(name));
  return [...sources.values()].flatMap(({ name, imports }) => {
    if (level(name) < 0) return [`${name} is in no room`];
    return imports.filter((each) => level(each) < level(name)).map((each) => `${name} imports ${each}`);
  });
}

/** A variable of a module that changes while the program runs. */
export interface Variable {
  readonly file: string;
  readonly name: string;
  /** The comment before it, or beside it. */
  readonly reason: string | undefined;
}

/** `let`, and a `const` that holds something to be filled, or an object of a class of ours. */
const CHANGES =
  /^(?:export )?(?:let (\w+)|const (\w+)(?:: [^=]+)? = (?:\(\)(?:: .+)? => perThread|new (?!Set\(\[|SystemError\b|Text(?:En|De)coder\b)))/;

/** All of them. */
export function variables(sources: Sources): Variable[] {
  return [...sources.values()].flatMap(({ name: file, text }) =>
    text.split("\n").flatMap((line, i, lines) => {
      const match = CHANGES.exec(line);
      if (!match) return [];
      const [above, beside] = [lines[i - 1] ?? "", / \/\/ (.*)$/.exec(line)?.[1]];
      const reason = beside ?? /^\s*(?:\/\*\*|\*|\/\/) ?(.*?)(?: ?\*\/)?$/.exec(above)?.[1];
      return [{ file, name: match[1] ?? match[2], reason: reason || undefined }];
    })
  );
}

/** The house rules that a machine can check, read off the source; and that nothing happens at import. */
import { assert, assertEquals } from "@std/assert";
import { readdirSync, readFileSync } from "node:fs";
import process from "node:process";
import { fromFileUrl } from "@std/path";
import { against, circles, readSources, sourceOf, variables } from "../tasks/map/source.ts";
import { ownKind, test, within } from "./support/harness.ts";

const here = (file: string) => fromFileUrl(new URL(file, import.meta.url));

/** Every source file, by its path from the top. */
const SOURCES: ReadonlyMap<string, string> = new Map(
  ["mod.ts", ...readdirSync(here("../src"), { recursive: true, encoding: "utf8" }).map((name) => `src/${name}`)]
    .filter((name) => name.endsWith(".ts")).sort()
    .map((name) => [name, readFileSync(here(`../${name}`), "utf8")]),
);

const TOKENS = /"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`|\/\/.*|\/\*[\s\S]*?\*\//g;
const isComment = (token: string) => token.startsWith("//") || token.startsWith("/*");
const blank = (token: string) => token.replace(/[^\n]/g, " ");

/** The source with blanks for comments: lines and columns stay. */
const withoutComments = (text: string) => text.replace(TOKENS, (token) => isComment(token) ? blank(token) : token);

/** The source with blanks for comments, text, and the statements that rename what they import. */
const bare = (text: string) =>
  withoutComments(text)
    .replace(/^(?:import|export) [^;]*? from "[^"]*";/gm, blank)
    .replace(TOKENS, (token) => isComment(token) ? token : blank(token));

/** Numbers of the lines where a pattern is found. */
function linesWith(text: string, pattern: RegExp): number[] {
  return text.split("\n").flatMap((line, i) => pattern.test(line) ? [i] : []);
}

/** Whether there is a comment on one of these lines. */
function commented(text: string, from: number, to: number): boolean {
  const [raw, code] = [text, withoutComments(text)].map((each) => each.split("\n").slice(Math.max(from, 0), to + 1));
  return raw.some((line, i) => line !== code[i]);
}

/** The files of which a finder finds something, with what it found. */
function findings(find: (text: string, name: string) => string[]): string[] {
  return [...SOURCES].flatMap(([name, text]) => find(text, name).map((what) => `${name}${what}`));
}

test("src/ is found, so that what is said of each of its files is said of something", () => {
  for (const name of ["src/lock.ts", "src/backend/flock.ts", "src/sys/deno.ts"]) assert(SOURCES.has(name), name);
  assert(SOURCES.size > 15);
});

test("src/ has no file of more than 250 lines", () => {
  const lines = (text: string) => text.split("\n").length - 1;
  assertEquals(findings((text) => lines(text) > 250 ? [`: ${lines(text)} lines`] : []), []);
});

test("src/ names each runtime in one file only", () => {
  const users = (pattern: RegExp) => findings((text) => pattern.test(withoutComments(text)) ? [""] : []);
  assertEquals(users(/\bDeno\b/), ["src/sys/deno.ts"]);
  assertEquals(users(/\bBun\b|\bbun:/), ["src/sys/bun.ts"]);
  assertEquals(users(/\bnode:ffi\b/), ["src/sys/node.ts"]);
});

test("src/ loads node:diagnostics_channel in its entry point and for PID files only, and has no use for its entry points but the command history", () => {
  const users = (text: RegExp) => findings((code) => text.test(withoutComments(code)) ? [""] : []);
  assertEquals(users(/diagnostics_channel/), ["src/backend/ours.ts", "src/diagnostics.ts"]);
  assertEquals(users(/\/diagnostics\.ts"/), []);
  assertEquals(users(/\/journal\.ts"/), ["src/cli/history.ts"]);
});

test("src/ imports from a room only what lies in it or below it, types included, and in no circle", () => {
  assertEquals(against(readSources()), []);
  assertEquals(circles(readSources()), []);
});

test("against() and circles() find an import that is planted", () => {
  const sources = new Map(readSources());
  const plant = (name: string, text: string) => sources.set(name, sourceOf(name, text));
  plant("sys/planted.ts", 'import type { Lock } from "../lock.ts";\n');
  plant("backend/planted.ts", 'export { inspect } from "../inspect/inspect.ts";\n');
  plant("planted.ts", "");
  assertEquals(against(sources), [
    "sys/planted.ts imports lock.ts",
    "backend/planted.ts imports inspect/inspect.ts",
    "planted.ts is in no room",
  ]);
  plant("wait/one.ts", 'import { two } from "./two.ts";\n');
  plant("wait/two.ts", 'import type { One } from "./one.ts";\n');
  assertEquals(circles(sources).map((each) => each.sort()), [["wait/one.ts", "wait/two.ts"]]);
});

/** Words that hide which process or user is meant, or a number's unit; a reader at 3 a.m. reads them twice. */
const VAGUE = /\b(?:whoever|nobody|somebody|so (?:many|long)|that one)\b/gi;

/** The comment that runs over lines as one text, so that a pair of words is found across its line's end. */
const vague = (text: string) => text.replace(/\n\s*(?:\*|\/\/) ?/g, " ").match(VAGUE) ?? [];

test("vague() finds the words, over the end of a line too, and not as a part of others", () => {
  assertEquals(vague("/** Whoever waits */ // nobody"), ["Whoever", "nobody"]);
  assertEquals(vague("/**\n * waits so\n * long for that\n * one. */"), ["so long", "that one"]);
  assertEquals(vague("also many, that ones, so longer"), []);
});

test("src/ names the process, the user or the number that it means, in comments and in messages", () => {
  assertEquals(findings((text) => vague(text).map((word) => `: ${word}`)), []);
  const pages = ["README.md", "SECURITY.md", "CONTRIBUTING.md", "docs/protocol.md"];
  for (const page of pages) assertEquals(vague(readFileSync(here(`../${page}`), "utf8")), [], page);
});

test("src/ has a reason beside or before each variable of a module that changes", () => {
  const found = variables(readSources());
  assert(found.length > 5, "the search finds nothing");
  assertEquals(found.filter(({ reason }) => !reason).map(({ file, name }) => `${file}: ${name}`), []);
  const planted = variables(
    new Map([["planted.ts", sourceOf("planted.ts", "\nlet count = 0;\nconst all = new Line();\n")]]),
  );
  assertEquals(planted.map(({ name, reason }) => [name, reason]), [["count", undefined], ["all", undefined]]);
});

test("src/ imports nothing but its own files, by their full names, and what all three runtimes have", () => {
  const foreign = (text: string) =>
    [...withoutComments(text).matchAll(/\b(?:from|import) ?\(?"([^"]+)"/g)].map(([, name]) => name)
      .filter((name) => !/^\.{1,2}\/[\w./]+\.ts$/.test(name) && !/^node:(?!ffi$|test$)/.test(name));
  assertEquals(findings((text) => foreign(text).map((name) => ` imports ${name}`)), []);
});

test("src/ has a comment at every assertion: as, and the exclamation mark", () => {
  // The three lines before count, because the formatter may have moved the comment there.
  const found = findings((text) =>
    [/\bas\s+(?!const\b)\S/, /[\w)\]]!(?!=)/].flatMap((pattern) => linesWith(bare(text), pattern))
      .filter((line) => !commented(text, line - 3, line)).map((line) => `:${line + 1}`)
  );
  assertEquals(found, []);
});

test("src/ has a comment at every error that it ignores", () => {
  const found = findings((text) =>
    linesWith(bare(text), /\bcatch \{|\.catch\(\(\)/)
      .filter((line) => !commented(text, line - 1, line + 2)).map((line) => `:${line + 1}`)
  );
  assertEquals(found, []);
});

test("src/ does not use the keyword using, which Node 20 cannot parse", () => {
  const found = findings((text) => linesWith(bare(text), /\busing\s+\w+\s*=/).map((line) => `:${line + 1}`));
  assertEquals(found, []);
});

test("src/ asks no wall clock but for the time that a record shows to people, and no file for its mtime", () => {
  const clocks = /\bDate\b|\bmtime|\bwallClock\b/;
  const allowed =
    /\b(?:acquiredAt|at): (?:sys\.wallClock\(\)|new Date\(\)\.toISOString\(\))|^ *wallClock(?:\(\): string;|: \(\) => )|\bDate\.now\(\) - Date\.parse\(at\); \/\/ shown to people/;
  const found = findings((text) =>
    linesWith(bare(text), clocks).map((line) => text.split("\n")[line]).filter((line) => !allowed.test(line))
  );
  assertEquals(found, []);
});

test("mod.ts has no code, only exports by name", () => {
  const code = withoutComments(SOURCES.get("mod.ts") ?? "no mod.ts");
  assertEquals(code.replace(/^export (?:type )?\{[^{}*]+\} from "\.\/src\/[\w/]+\.ts";$/gm, "").trim(), "");
});

test("import does nothing: no handler, no timer, no dlopen, and the process ends by itself", async ({ child, path }) => {
  const flags = ownKind === "deno" ? ["run", "-A", "--quiet"] : [];
  const module = new URL("../mod.ts", import.meta.url).href;
  const importer = child(process.execPath, [...flags, here("fixtures/import.mjs"), module, path()]);
  const { afterwards, ...rest } = JSON.parse(await within(60_000, importer.line()));
  assertEquals(rest, { duringImport: [], listeners: [], added: [], constructed: 0 });
  assertEquals(afterwards, true, "not even acquireSync() was seen doing anything");
  assertEquals(await within(60_000, importer.ended), { code: 0, signal: null });
});

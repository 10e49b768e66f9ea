/** The documents say what the source says: docs/protocol.md has every step that a comment names. */
import { assert, assertEquals } from "@std/assert";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { test } from "./support/harness.ts";

const root = fileURLToPath(new URL("../", import.meta.url));
const read = (file: string) => readFileSync(join(root, file), "utf8");
const commentsOf = (text: string): string[] => text.match(/\/\*[\s\S]*?\*\/|\/\/.*/g) ?? [];

/** The steps that a comment names: `// 2`, `// 4, 5`, `3. Locked`, `Steps 2 to 7`, `A5`, `step B`. */
function stepsIn(comment: string): string[] {
  const text = comment.replace(/^\/[/*]+|\*\/$/g, "").trim();
  const bare = /^\d(?:, \d)*(?=$|\. )/.exec(text)?.[0] ?? "";
  const named = [...text.matchAll(/\b[Ss]teps? (\d)(?:(?: to | and |, )(\d))?/g)].flatMap(([, ...all]) => all);
  const letters = [...text.matchAll(/\bA\d\b|\b[Ss]tep ([A-Z])\b|^([A-Z])\. /g)].map(([all, ...some]) =>
    some.find((each) => each !== undefined) ?? all
  );
  return [...bare.split(", "), ...named, ...letters].filter((each) => each);
}

/** The steps that docs/protocol.md has: its headings of the third rank that begin with a label. */
const documented = [...read("docs/protocol.md").matchAll(/^### ([A-Z]?\d|[A-Z])\. /gm)].map(([, step]) => step);

test("stepsIn() finds the steps that a comment names", () => {
  const cases: [string, string[]][] = [
    ["// 2", ["2"]],
    ["// 4, 5", ["4", "5"]],
    ["// 3. Locked, but", ["3"]],
    ["/** Steps 2 to 7 on an open file */", ["2", "7"]],
    ["/** B. The kernel's holders */", ["B"]],
    ["// what cannot be seen is found in step B.", ["B"]],
    ["// fails at A5, or A6", ["A5", "A6"]],
    ["/** Waits 2 s, and 1 s more. */", []],
  ];
  for (const [comment, steps] of cases) assertEquals(stepsIn(comment), steps, comment);
});

test("docs/protocol.md has every step that a comment of src/backend names, and that an attempt by PID file is at", () => {
  assertEquals(documented, ["1", "2", "3", "4", "5", "6", "7", "A1", "A2", "A3", "A4", "A5", "A6", "B"]);
  const files = readdirSync(join(root, "src/backend")).map((name) => `src/backend/${name}`);
  const named = files.flatMap((file) => commentsOf(read(file)).flatMap(stepsIn).map((step) => `${file}: ${step}`));
  assert(named.length > 10);
  assertEquals(named.filter((each) => !documented.includes(each.split(": ")[1])), []);
  const labels = [...read("src/backend/pidfile.ts").matchAll(/\bcase "([^"]+)":/g)].map(([, label]) => label);
  assertEquals(labels.filter((each) => !documented.includes(each)), ["A4 again", "sweep"]);
  for (const each of ["A4 again", "sweep"]) assert(read("docs/protocol.md").includes(`"${each}"`), each);
});

test("docs/protocol.md has every field of a record, and every rule of the verdict on its owner", () => {
  const text = read("docs/protocol.md"), record = read("src/record/record.ts");
  const [, fields] = /interface HolderFields \{([\s\S]*?)^\}/m.exec(record) ?? [];
  const names = [...(fields ?? "").matchAll(/readonly (\w+)/g)].map(([, name]) => name);
  assert(names.length > 10);
  assertEquals(names.filter((name) => !text.includes(`\n| \`${name}\``)), []);
  const rules = [...read("src/record/owner.ts").matchAll(/^ \* (\d)\. /gm)].map(([, rule]) => rule);
  assertEquals(rules.length, 9);
  assertEquals(rules, [...text.matchAll(/^- \*\*Rule (\d)\.\*\* /gm)].map(([, rule]) => rule));
});

for (const file of ["CONTRIBUTING.md", "docs/protocol.md"]) {
  test(`${file}: every file that it links to is there`, () => {
    const links = [...read(file).matchAll(/\]\(([^):#]+)\)/g)].map(([, link]) => link);
    assert(links.length > 5);
    assertEquals(links.filter((link) => !existsSync(join(root, dirname(file), link))), []);
  });
}

test("CONTRIBUTING.md names functions by the files that they are in", () => {
  const named = [...read("CONTRIBUTING.md").matchAll(/`(\w+)`\s+in\s+\[[^\]]+\]\(([^)]+)\)/g)];
  assert(named.length > 3);
  assertEquals(named.filter(([, name, file]) => !new RegExp(`\\b${name}\\b`).test(read(file))).map(([all]) => all), []);
});

test("CONTRIBUTING.md has every folder of src/ in its map, and src/ names no document that is not there", () => {
  const folders = readdirSync(join(root, "src"), { recursive: true, withFileTypes: true }).filter((each) =>
    each.isDirectory()
  ).map((each) => each.name);
  const text = read("CONTRIBUTING.md");
  assertEquals(folders.filter((name) => !new RegExp(`^\\| \\[?\`(?:\\w+/)*${name}/`, "m").test(text)), []);
  const sources = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".ts")
  );
  const named = sources.flatMap((name) =>
    commentsOf(read(`src/${name}`)).flatMap((each) => each.match(/[\w./]+\.md\b/g) ?? [])
  );
  assert(named.includes("docs/protocol.md"));
  assertEquals(named.filter((name) => !existsSync(join(root, name))), []);
});

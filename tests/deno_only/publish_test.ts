/** What is published, and that a program can use all of it with nothing else there. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, fromFileUrl, join } from "@std/path";
import process from "node:process";
import { type Place, test, within } from "../support/harness.ts";
import { packedModule } from "../../tasks/pack.ts";
import { deno, tool } from "../support/tools.ts";

const repository = fromFileUrl(new URL("../../", import.meta.url));
const program = fromFileUrl(new URL("../fixtures/every_name.ts", import.meta.url));

/** Runs Deno to its end; its lines on standard output. */
async function run({ child }: Place, args: string[], cwd: string): Promise<{ errors: string; lines: string[] }> {
  const command = child(deno(), args, { cwd, env: { ...process.env, NO_COLOR: "1" } });
  command.close();
  const { code } = await within(100_000, command.ended);
  assertEquals(code, 0, command.errors);
  const lines: string[] = [];
  for (;;) {
    try {
      lines.push(await command.line());
    } catch {
      return { errors: command.errors, lines }; // it has ended, and that was its last line
    }
  }
}

/** The files that would be published, by their paths from the top. */
async function publishedFiles(place: Place): Promise<string[]> {
  const { errors } = await run(place, ["publish", "--dry-run", "--allow-dirty", "--no-check"], repository);
  const urls = [...errors.matchAll(/^ +(file:\/\/\S+) \([\d.]+ ?[KM]?B\)$/gm)].map(([, url]) => url);
  const files = urls.map((url) => fromFileUrl(url));
  for (const file of files) assertStringIncludes(file, repository);
  return files.map((file) => file.slice(repository.length)).sort();
}

test("deno publish publishes the sources, the README and its like, and no tests, bench or examples", async (place) => {
  const files = await publishedFiles(place);
  for (
    const file of ["LICENSE", "README.md", "CHANGELOG.md", "deno.json", "mod.ts", "src/lock.ts", "src/sys/deno.ts"]
  ) {
    assert(files.includes(file), `${file} is missing`);
  }
  const others = files.filter((file) => !/^src\/(?:\w+\/)*\w+\.ts$/.test(file));
  assertEquals(others, ["CHANGELOG.md", "LICENSE", "README.md", "deno.json", "mod.ts"]);
});

/** Where each entry point's source is, but for the command's: as deno.json has it. */
const { exports: { "./cli": _, ...entries } }: { exports: Record<string, string> } = JSON.parse(
  readFileSync(`${repository}deno.json`, "utf8"),
);

/** What a program writes to import an entry point. */
const specifierOf = (entry: string) => `@holdfast/lock${entry.slice(1)}`;

test("mod.ts and each entry point export nothing that the program in fixtures/every_name.ts does not use", () => {
  const names = (text: string, pattern: RegExp) =>
    [...text.matchAll(pattern)].flatMap(([, list]) => list.split(","))
      .map((name) => name.replace("type ", "").trim()).filter((name) => name !== "").sort();
  const text = readFileSync(program, "utf8");
  assertEquals(Object.keys(entries), [".", "./journal", "./diagnostics"]);
  for (const [entry, file] of Object.entries(entries)) {
    const source = readFileSync(repository + file, "utf8");
    const exported = [
      ...names(source, /^export (?:type )?\{([^}]+)\} from/gm),
      ...names(source, /^export (?:const|function) (\w+)/gm),
    ].sort();
    assert(exported.length > 1, file);
    const imported = names(text, new RegExp(`^import \\{([^}]+)\\} from "${specifierOf(entry)}"`, "gm"));
    assertEquals(imported.map((name) => name.split(" as ")[0]), exported);
    for (const name of imported) {
      const own = name.split(" as ").at(-1);
      assert((text.match(new RegExp(`\\b${own}\\b`, "g"))?.length ?? 0) > 1, `${own} is imported and not used`);
    }
  }
});

test("import of the published files alone type-checks and works in a program that uses every public name", async (place) => {
  const copy = place.path("package");
  for (const file of await publishedFiles(place)) {
    mkdirSync(dirname(`${copy}/${file}`), { recursive: true });
    copyFileSync(repository + file, `${copy}/${file}`);
  }
  copyFileSync(program, place.path("program.ts"));
  const imports = Object.fromEntries(
    Object.entries(entries).map(([entry, file]) => [specifierOf(entry), `./package/${file}`]),
  );
  writeFileSync(place.path("map.json"), JSON.stringify({ imports }));
  const options = ["--quiet", "--no-lock", "--import-map=map.json"];

  // That it is the program that is checked: one with a wrong type is not let through.
  writeFileSync(
    place.path("wrong.ts"),
    'import { Lock } from "@holdfast/lock";\nexport const n: number = new Lock("");\n',
  );
  const wrong = place.child(deno(), ["check", ...options, "wrong.ts"], { cwd: place.dir });
  assertEquals((await within(100_000, wrong.ended)).code, 1);
  assertMatch(wrong.errors, /TS2322/);

  await run(place, ["check", ...options, "program.ts"], place.dir);
  const allow = [`--allow-read=${place.dir}`, `--allow-write=${place.dir}`, "--no-prompt"];
  const { lines } = await run(place, ["run", ...options, ...allow, "program.ts", place.path()], place.dir);
  const { granted, state, refused, numbers, status, lastName, published } = JSON.parse(lines.join("\n"));
  assertEquals({ granted, held: state[0], backend: state[2], numbers, status, lastName, published }, {
    granted: true,
    held: true,
    backend: "flock",
    numbers: [7, 8],
    status: "held",
    lastName: "released",
    published: ["acquired", "waiting", "released", "acquired", "released"],
  });
  const codes = refused.map((text: string) => text.split(" ")[0]);
  assertEquals(codes, ["ETIMEDOUT", "EDEADLK", "ENOTHELD", "ENOTSUP"]);
});

test("the npm package has its module in one file, the command in a few, and its types", async (place) => {
  const folder = dirname(packedModule());
  const files = readdirSync(`${folder}/bin`);
  assert(files.includes("main.js") && files.length < 25, files.join(" "));
  assert(!/^import /m.test(readFileSync(packedModule(), "utf8")), "each file costs Node a millisecond");
  const { types, exports } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  assertEquals([types, exports["."].types], ["./mod.d.ts", "./mod.d.ts"]);
  for (const entry of Object.keys(entries)) {
    const declared = join(folder, exports[entry].types);
    const named = [...readFileSync(declared, "utf8").matchAll(/ from "(\..+)\.js"/g)];
    assert(named.length > 0, entry);
    for (const [, file] of named) {
      assert(readFileSync(`${join(dirname(declared), file)}.d.ts`, "utf8").includes("export"), file);
    }
  }
  install(place);
  copyFileSync(program, place.path("program.mts"));
  const user = place.child(tool("node26"), ["program.mts", place.path()], { cwd: place.dir });
  const { granted, published } = JSON.parse(await within(60_000, user.line()));
  assertEquals([granted, published.length], [true, 5], user.errors);
});

/** Our npm package as a program in this folder finds it. */
function install({ path }: Place): void {
  mkdirSync(path("node_modules/@holdfast"), { recursive: true });
  symlinkSync(dirname(packedModule()), path("node_modules/@holdfast/lock"));
}

test("the npm package has its code once: history() throws the LockError of the module, and mod.js offers the public names", async (place) => {
  const scripts = readdirSync(dirname(packedModule()), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".js") && !name.startsWith("bin/"));
  assertEquals(scripts.sort(), ["diagnostics.js", "journal.js", "mod.js"]);
  install(place);
  writeFileSync(
    place.path("program.mjs"),
    `import * as lock from "@holdfast/lock";
import * as journal from "@holdfast/lock/journal";
import { mkdirSync } from "node:fs";
mkdirSync("a.lock.journal"); // which is no journal
let same;
try { journal.history("a.lock"); } catch (error) { same = error instanceof lock.LockError && error.constructor.name; }
console.log(JSON.stringify({ same, lock: Object.keys(lock), journal: Object.keys(journal) }));
`,
  );
  const exported: Record<string, unknown> = await import("../../mod.ts");
  for (const runtime of ["node20", "bun"] as const) {
    const user = place.child(tool(runtime), ["program.mjs"], { cwd: place.dir });
    const { same, lock, journal } = JSON.parse(await within(60_000, user.line()));
    assertEquals(same, "LockError", user.errors);
    // And one more, by which journal.js gets at it: see tasks/module.ts.
    assertEquals(lock.sort(), [...Object.keys(exported), "_history"].sort());
    assertEquals(journal, ["history"]);
    rmSync(place.path("a.lock.journal"), { recursive: true });
  }
});

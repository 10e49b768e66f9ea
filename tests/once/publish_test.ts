/** What is published, and that a program can use all of it with nothing else there. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, fromFileUrl } from "@std/path";
import process from "node:process";
import { type Place, test, within } from "../harness.ts";
import { packedModule } from "../../tasks/pack.ts";
import { deno, tool } from "../tools.ts";

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

test("mod.ts exports nothing that the program in fixtures/every_name.ts does not use", () => {
  const names = (text: string, pattern: RegExp) =>
    [...text.matchAll(pattern)].flatMap(([, list]) => list.split(","))
      .map((name) => name.replace("type ", "").trim()).filter((name) => name !== "").sort();
  const exported = names(readFileSync(`${repository}mod.ts`, "utf8"), /^export (?:type )?\{([^}]+)\} from/gm);
  const text = readFileSync(program, "utf8");
  assertEquals(names(text, /^import \{([^}]+)\} from "@holdfast\/lock"/gm), exported);
  for (const name of exported) {
    assert((text.match(new RegExp(`\\b${name}\\b`, "g"))?.length ?? 0) > 1, `${name} is imported and not used`);
  }
});

test("import of the published files alone type-checks and works in a program that uses every public name", async (place) => {
  const copy = place.path("package");
  for (const file of await publishedFiles(place)) {
    mkdirSync(dirname(`${copy}/${file}`), { recursive: true });
    copyFileSync(repository + file, `${copy}/${file}`);
  }
  copyFileSync(program, place.path("program.ts"));
  writeFileSync(place.path("map.json"), JSON.stringify({ imports: { "@holdfast/lock": "./package/mod.ts" } }));
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
  const { granted, state, refused, numbers, status } = JSON.parse(lines.join("\n"));
  assertEquals({ granted, held: state[0], backend: state[2], numbers, status }, {
    granted: true,
    held: true,
    backend: "flock",
    numbers: [7, 8],
    status: "held",
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
  for (const [, file] of readFileSync(`${folder}/mod.d.ts`, "utf8").matchAll(/ from "\.\/(.+)\.js"/g)) {
    assert(readFileSync(`${folder}/${file}.d.ts`, "utf8").includes("export"), file);
  }
  mkdirSync(place.path("node_modules/@holdfast"), { recursive: true });
  symlinkSync(folder, place.path("node_modules/@holdfast/lock"));
  copyFileSync(program, place.path("program.mts"));
  const user = place.child(tool("node26"), ["program.mts", place.path()], { cwd: place.dir });
  assertEquals(JSON.parse(await within(20_000, user.line())).granted, true, user.errors);
});

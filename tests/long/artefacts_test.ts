/** What the tasks build: the executable and the npm package, each with a command that works. */
import { assert, assertEquals } from "@std/assert";
import { existsSync, writeFileSync } from "node:fs";
import { CLI } from "../support/cli.ts";
import { test, within } from "../support/harness.ts";

test("deno task compile makes one executable that does the same", async ({ child, dir, path }) => {
  const [deno] = CLI.deno();
  const here = new URL("../../", import.meta.url);
  const build = child(deno, ["task", "--quiet", "compile"], { cwd: here });
  assertEquals(await within(100_000, build.ended), { code: 0, signal: null }, build.errors);
  const run = child(new URL("dist/holdfast", here).pathname, ["run", path(), "sh", "-c", "echo $PPID; cat; exit 3"], {
    cwd: dir,
  });
  assertEquals(await within(60_000, run.line()), String(run.pid));
  const second = child(new URL("dist/holdfast", here).pathname, ["doctor", dir], { cwd: dir });
  assert([0, 1].includes((await within(60_000, second.ended)).code ?? -1), second.errors);
  run.close();
  assertEquals(await within(60_000, run.ended), { code: 3, signal: null }, run.errors);
});

test("deno task npm makes a package whose command holdfast works in Node 20", async ({ child, dir, path }) => {
  const [deno] = CLI.deno();
  const [node20] = CLI.node20();
  const here = new URL("../../", import.meta.url);
  const pack = child(deno, ["task", "--quiet", "npm"], { cwd: here });
  const tarball = await within(60_000, pack.line());
  assertEquals((await within(60_000, pack.ended)).code, 0, pack.errors);
  assert(existsSync(tarball));
  writeFileSync(path("package.json"), "{}");
  const install = child("npm", ["install", "--silent", "--no-audit", "--no-fund", "--offline", tarball], { cwd: dir });
  assertEquals((await within(60_000, install.ended)).code, 0, install.errors);
  const run = child(node20, [path("node_modules/.bin/holdfast"), "run", path(), "sh", "-c", "exit 3"], { cwd: dir });
  assertEquals((await within(60_000, run.ended)).code, 3, run.errors);
});

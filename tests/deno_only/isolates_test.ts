/** Deno runs each file of `deno test` in an isolate of its own, in one process. */
import { writeFileSync } from "node:fs";
import { assertEquals } from "@std/assert";
import { test, within } from "../support/harness.ts";
import { deno } from "../support/tools.ts";

const source = (paths: string[]) =>
  `import { Lock } from ${JSON.stringify(new URL("../../mod.ts", import.meta.url))};
Deno.test({ name: "takes what the file before has left", sanitizeResources: false, sanitizeOps: false, fn() {
  const stale = [];
  globalThis.locks = ${JSON.stringify(paths)}.map((path, i) =>
    new Lock(path, { backend: i === 0 ? "flock" : "pidfile", onStale: ({ pid }) => stale.push(pid) })
  );
  console.log(JSON.stringify({ granted: locks.map((lock) => lock.tryAcquire()), stale }));
} });
`;

test("tryAcquire() in a file of deno test is true of a lock that the file before has not released", async ({ path, child }) => {
  const paths = [path("flock"), path("pidfile")];
  const files = [path("a_test.js"), path("b_test.js")];
  for (const file of files) writeFileSync(file, source(paths));
  const run = child(deno(), ["test", "-A", "--no-check", ...files]);
  for (const _ of files) {
    let line = "";
    while (!line.startsWith("{")) line = await within(30_000, run.line());
    assertEquals(JSON.parse(line), { granted: [true, true], stale: [] });
  }
  assertEquals((await within(30_000, run.ended)).code, 0, run.errors);
});

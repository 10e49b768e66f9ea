/**
 * A program that holds the lock under its runtime's watcher, whose file is saved: the next version runs in the same
 * process, in another, or beside the first.
 */
import { writeFileSync } from "node:fs";
import process from "node:process";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { Lock } from "../mod.ts";
import { type Child, ownKind, type Place, test, within } from "./support/harness.ts";
import { kernelHolders } from "./support/lockers.ts";
import { deno, tool } from "./support/tools.ts";

const module = new URL("../mod.ts", import.meta.url);
const repository = fromFileUrl(new URL("../", import.meta.url));

/** What a version says of itself once it has tried. */
interface Said {
  readonly version: number;
  readonly pid: number;
  readonly granted: boolean;
  /** PIDs of holders that died. */
  readonly stale: readonly number[];
  /** Why it was refused. */
  readonly refusal?: string;
}

type Ending = "stays" | "returns" | "process.exit" | "rejects";

/** The program. It says what it got, and then ends so. */
const source = (version: number, path: string, options: object, ending: Ending) => `
import process from "node:process";
const { Lock } = await import(${JSON.stringify(module.href)});
const stale = [];
const lock = new Lock(${JSON.stringify(path)}, { onStale: ({ pid }) => stale.push(pid), ...${
  JSON.stringify(options)
} });
const granted = lock.tryAcquire();
let refusal;
if (!granted) await lock.acquire({ timeout: 0 }).catch(({ message }) => refusal = message);
console.log(JSON.stringify({ version: ${version}, pid: process.pid, granted, stale, refusal }));
const ways = {
  // Not longer than its watcher: node's runs it in a process of its own.
  "stays": () => setInterval((parent) => process.ppid === parent || process.exit(1), 50, process.ppid),
  "returns": () => {},
  "process.exit": () => process.exit(0),
  "rejects": () => void Promise.reject(new Error("on purpose")),
};
ways[${JSON.stringify(ending)}]();
`;

interface Watched {
  readonly first: Said;
  readonly second: Said;
  readonly watcher: Child;
}

/** Starts a watcher, saves the program, and returns what its first version said and what the next one. */
async function reload({ path, child }: Place, [command, ...args]: string[], options: object, ending: Ending) {
  const app = path("app.mjs");
  const save = (version: number) =>
    writeFileSync(app, source(version, path(), options, version === 1 ? ending : "stays"));
  save(1);
  const watcher = child(command, [...args, app], { cwd: path("."), env: { ...process.env, NO_COLOR: "1" } });
  const said = async (version: number): Promise<Said> => {
    for (;;) {
      const line = await watcher.line();
      const json = /\{"version":.*$/.exec(line)?.[0]; // after what clears the screen
      const value: Said | undefined = json === undefined ? undefined : JSON.parse(json);
      if (value && value.version >= version) return value;
    }
  };
  const first = await within(30_000, said(1));
  assertEquals([first.version, first.granted], [1, true]);
  const next = said(2);
  let over = false;
  next.finally(() => over = true).catch(() => {});
  // The watcher may not have seen the file when it is saved first. Each save starts it again, so they become rarer.
  for (let version = 2, pause = 3_000; version < 7 && !over; version++, pause *= 2) {
    save(version);
    await Promise.race([next, new Promise((resolve) => setTimeout(resolve, pause))]);
  }
  return { first, second: await within(60_000, next), watcher };
}

/** The next version has it: another Lock object is refused, and the kernel names its process. */
async function isHeldBySecond(place: Place, { second, watcher }: Watched, backend: string): Promise<void> {
  assertEquals(second.granted, true, second.refusal);
  const stranger = new Lock(place.path(), { onStale() {} });
  assertEquals(stranger.tryAcquire(), false);
  if (backend === "flock") assertEquals(kernelHolders(place.path()), [second.pid]);
  await watcher.kill();
}

const DENO = (...args: string[]) => [deno(), ...args, "--quiet", "--no-check"];
const scoped = (dir: string) => ["--no-prompt", `--allow-read=${dir},${repository}`, `--allow-write=${dir}`];

if (ownKind === "deno") {
  const watchers = { "run --watch": ["run", "--watch"], "run --watch-hmr": ["run", "--watch-hmr"], "watch": ["watch"] };
  for (const [name, words] of Object.entries(watchers)) {
    for (const backend of ["flock", "pidfile"] as const) {
      test(`tryAcquire() by ${backend} under deno ${name} is true for the next version, which is told of no death`, async (place) => {
        const watched = await reload(place, DENO(...words, "-A"), { backend }, "stays");
        await isHeldBySecond(place, watched, backend);
        assertEquals(watched.second.stale, []);
        assertEquals(watched.second.pid, watched.first.pid);
      });
    }
  }

  for (const [name, words] of Object.entries({ "run --watch": ["run", "--watch"], "watch": ["watch"] })) {
    test(`tryAcquire() under deno ${name} without FFI is true for the next version`, async (place) => {
      const watched = await reload(place, DENO(...words, ...scoped(place.dir)), {}, "stays");
      await isHeldBySecond(place, watched, "flock");
      // Without FFI it does not know that the record is its own thread's, and the second watcher tells the first
      // version nothing.
      assertEquals(watched.second.stale, name === "watch" ? [watched.first.pid] : []);
    });
  }

  for (const ending of ["returns", "process.exit", "rejects"] as const) {
    test(`tryAcquire() under deno run --watch is true for the next version where the first ${ending}`, async (place) => {
      await isHeldBySecond(place, await reload(place, DENO("run", "--watch", "-A"), {}, ending), "flock");
    });
  }
}

if (ownKind === "node26") {
  for (const backend of ["flock", "pidfile"] as const) {
    test(`tryAcquire() by ${backend} under node --watch is true for the next version, which is told that the first was ended`, async (place) => {
      const node = [tool("node26"), "--disable-warning=ExperimentalWarning", "--watch"];
      const watched = await reload(place, node, { backend }, "stays");
      await isHeldBySecond(place, watched, backend);
      assertEquals(watched.second.stale, [watched.first.pid]); // by a signal
    });
  }
}

if (ownKind === "bun") {
  for (const backend of ["flock", "pidfile"] as const) {
    test(`tryAcquire() by ${backend} under bun --watch is true for the next version, which is told of no death`, async (place) => {
      const watched = await reload(place, [tool("bun"), "--watch", "--no-clear-screen"], { backend }, "stays");
      await isHeldBySecond(place, watched, backend);
      assertEquals(watched.second.stale, []);
      assertEquals(watched.second.pid, watched.first.pid);
    });

    test(`tryAcquire() by ${backend} under bun --hot is refused by the first version, which goes on, and acquire() says so`, async (place) => {
      const { first, second, watcher } = await reload(
        place,
        [tool("bun"), "--hot", "--no-clear-screen"],
        { backend },
        "stays",
      );
      assertEquals([second.granted, second.pid], [false, first.pid]);
      assert(second.refusal);
      assertMatch(
        second.refusal,
        /which is this very process, by other code in it: an earlier load of the program, which goes on \(bun --hot\)/,
      );
      assertMatch(second.refusal, /Release it there, keep the Lock object on globalThis, or start the program anew/);
      await watcher.kill();
      const next = new Lock(place.path(), { onStale() {} });
      assertEquals(next.tryAcquire(), true);
      next.release();
    });
  }
}

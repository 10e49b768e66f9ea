/** A libc that somebody planted in the current directory: it is never loaded, whatever Deno was granted. */
import { assert, assertEquals } from "@std/assert";
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import process from "node:process";
import { fromFileUrl } from "@std/path";
import { type AgentOptions, type Kind, type Place, test, within } from "../support/harness.ts";
import { command, needs, PYTHON } from "../support/needs.ts";

const source = fromFileUrl(new URL("../fixtures/planted.c", import.meta.url));
const repository = fromFileUrl(new URL("../../", import.meta.url));

/** Every name by which a C library may be asked for here. */
const NAMES = ["libc.so.6", "libc.so", "libc"];

function plant(dir: string): void {
  needs("gcc", "/usr/include/stdio.h");
  for (const name of NAMES) execFileSync("gcc", ["-shared", "-fPIC", "-o", `${dir}/${name}`, source]);
}

/** The file of the real one, as this very process has it loaded. */
function realLibrary(): string {
  const maps = execFileSync("cat", [`/proc/${process.pid}/maps`], { encoding: "utf8" });
  const found = /\/\S*\/libc[.-]\S*$/m.exec(maps)?.[0];
  assert(found, "this process has no C library loaded");
  return found;
}

const files = (dir: string) => [`--allow-read=${dir},${repository}`, `--allow-write=${dir}`];

/** Which agents, and by which way they then lock. */
const CASES: Record<string, [Kind, (dir: string) => AgentOptions, way: RegExp]> = {
  "Deno with --allow-ffi": ["deno", (dir) => ({ flags: [...files(dir), "--allow-ffi"] }), /runtime's FFI/],
  "Deno with --allow-ffi for the current directory": [
    "deno",
    (dir) => ({ flags: [...files(dir), `--allow-ffi=${dir}`] }),
    /FsFile/,
  ],
  "Deno with --allow-ffi for the planted file": [
    "deno",
    (dir) => ({ flags: [...files(dir), `--allow-ffi=${dir}/libc.so.6`] }),
    /FsFile/,
  ],
  "Deno with --allow-ffi by the library's bare name": [
    "deno",
    (dir) => ({ flags: [...files(dir), "--allow-ffi=libc.so.6"] }),
    /FsFile/,
  ],
  "Deno with --allow-ffi for the real library": [
    "deno",
    (dir) => ({ flags: [...files(dir), `--allow-ffi=${realLibrary()}`] }),
    /runtime's FFI/,
  ],
  "Deno with --allow-ffi but for another directory": [
    "deno",
    (dir) => ({ flags: [...files(dir), "--allow-ffi", "--deny-ffi=/nowhere"] }),
    /./, // either way is right
  ],
  "Deno with everything allowed": ["deno", () => ({}), /runtime's FFI/],
  "Deno without FFI": ["deno-no-ffi", () => ({}), /FsFile/],
  "Bun": ["bun", () => ({}), /runtime's FFI/],
  "Node 26": ["node26", () => ({}), /runtime's FFI/],
  "Node 20": ["node20", () => ({}), /flock\(1\)/],
};

async function twoExclude({ agent, dir, path }: Place, kind: Kind, options: AgentOptions, way: RegExp): Promise<void> {
  const [holder, other] = [await agent(kind, { ...options, cwd: dir }), await agent(kind, { ...options, cwd: dir })];
  for (const each of [holder, other]) await each.lock(path(), { backend: "flock" });
  assertEquals(await within(60_000, holder.tryAcquire()), true);
  assertEquals(await within(60_000, other.tryAcquire()), false);
  assert(way.test((await holder.call("backend", { name: "lock" })).reason), `it should lock by ${way}`);
}

test("dlopen() of the planted library leaves a mark, so that none means that it was not loaded", ({ dir }) => {
  plant(dir);
  execFileSync(command(PYTHON), ["-c", "import ctypes; ctypes.CDLL('./libc.so.6')"], { cwd: dir });
  assert(existsSync(`${dir}/loaded`));
});

for (const [name, [kind, options, way]] of Object.entries(CASES)) {
  test(`tryAcquire() in ${name} never loads a libc from the current directory`, async (place) => {
    plant(place.dir);
    await twoExclude(place, kind, options(place.dir), way);
    assertEquals(readdirSync(place.dir).sort(), ["a.lock", ...NAMES].sort());
  });
}

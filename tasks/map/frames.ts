/** Prints the frames from tryAcquire() to flock(2), the outermost first, as JSON: `name file`. Run by Deno, which lets its dlopen be replaced. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Lock } from "../../mod.ts";

Error.stackTraceLimit = 100;
let stack = "";
const { dlopen } = Deno;
Object.assign(Deno, {
  dlopen(...args: Parameters<typeof dlopen>) {
    const library = dlopen(...args);
    const symbols: Record<string, unknown> = { ...library.symbols };
    const flock = symbols.flock as ((...args: unknown[]) => unknown) | undefined; // bound as a function
    if (flock) symbols.flock = (...args: unknown[]) => (stack = new Error().stack ?? "", flock(...args));
    return { ...library, symbols };
  },
});

const dir = mkdtempSync(join(tmpdir(), "holdfast-map-"));
try {
  const lock = new Lock(join(dir, "a.lock"));
  if (!lock.tryAcquire()) throw new Error("a free lock was refused");
  lock.release();
} finally {
  rmSync(dir, { recursive: true });
}
const frames = [...stack.matchAll(/^ +at (?:(?:new )?(\S+) \()?file:\/\/.*\/src\/([^:]*):/gm)];
console.log(JSON.stringify(frames.map(([, name, file]) => `${name ?? "(anonymous)"} ${file}`).reverse()));

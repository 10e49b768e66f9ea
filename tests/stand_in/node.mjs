/** Preloaded by `node --import`: Node reads no deno.json. */
import { registerHooks } from "node:module";

const names = { "@std/assert": "./assert.ts", "@std/path": "./path.ts" };

registerHooks({
  resolve(specifier, context, next) {
    const file = names[specifier];
    return file ? { url: new URL(file, import.meta.url).href, shortCircuit: true } : next(specifier, context);
  },
});

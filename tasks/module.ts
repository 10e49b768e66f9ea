/** The one file of the npm package, `mod.js`: what `mod.ts` exports, and under a name of its own what `journal.js` does. */
export * from "../mod.ts";
export { history as _history } from "../src/journal.ts";

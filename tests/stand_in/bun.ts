/** Preloaded by `bun test` (bunfig.toml): Bun reads no deno.json. */
import * as assert from "./assert.ts";
import * as path from "./path.ts";

/** The one call of Bun's that we make. */
interface PluginHost {
  plugin(plugin: {
    name: string;
    setup(build: { module(name: string, make: () => { exports: object; loader: "object" }): void }): void;
  }): void;
}

// The cast: this file is only ever loaded by Bun.
const host = (globalThis as unknown as Record<string, PluginHost>)["Bun"];
host.plugin({
  name: "stand-in for @std",
  setup(build) {
    build.module("@std/assert", () => ({ exports: assert, loader: "object" }));
    build.module("@std/path", () => ({ exports: path, loader: "object" }));
  },
});

/** Bun. The only file that names it. */
import type { Bind } from "./abi.ts";
import { permitsAll } from "./files.ts";
import { libraryOf } from "./libc.ts";
import { onEnd } from "./node.ts";
import type { Runtime } from "./runtime.ts";

/** The one call of `bun:ffi` that we make; its package of types would be a dependency. */
interface BunFfi {
  dlopen(
    library: string,
    symbols: Record<string, { args: readonly string[]; returns: string }>,
  ): { symbols: ReturnType<Bind> };
}

/** Bun, if this is it. */
export function bunRuntime(): Runtime | undefined {
  const version = process.versions.bun;
  if (!version) return undefined;
  return {
    name: `bun/${version}`,
    ffi() {
      const platform = libraryOf(process.platform);
      if (!platform) return { unavailable: `no C library is known for ${process.platform}` };
      // Not an import: the other runtimes have no such module. The cast: Node's types do not know it.
      const module = process.getBuiltinModule?.("bun:ffi") as unknown as BunFfi | undefined;
      if (!module) return { unavailable: `Bun ${version} has no process.getBuiltinModule("bun:ffi") (1.2 has)` };
      const bind: Bind = (library, table) => {
        const symbols: Parameters<BunFfi["dlopen"]>[1] = {};
        for (const [name, { parameters, result }] of Object.entries(table)) {
          symbols[name] = { args: parameters, returns: result };
        }
        return module.dlopen(library, symbols).symbols;
      };
      return { bind, library: platform.library };
    },
    // Not `node:worker_threads`, which takes 25 ms to load. The cast: Node's types do not know it.
    isMainThread: () => (globalThis as unknown as { Bun: { isMainThread: boolean } }).Bun.isMainThread,
    mayOpenByItself: () => true, // it closes nothing of a terminated Worker's anyway
    permits: permitsAll,
    resolvesLinks: false,
    marksInherited: true,
    readsFiles(given) {
      // Not process.env: a .env could set this one too.
      const options = [...process.execArgv, ...given("BUN_OPTIONS")?.split(/\s+/) ?? []];
      if (options.some((option) => /^--(?:no-)?env-file(?:=|$)/.test(option))) return "no"; // as the user says
      // A single executable, whose script is inside, is made without (tasks/compile.ts).
      return /^(?:\/\$bunfs|[A-Z]:[\\/]~BUN)[\\/]/.test(process.argv[1] ?? "") ? "perhaps" : "yes";
    },
    may: { kill: () => true, hostname: () => true, uid: () => true, proc: true, env: () => true, statfs: () => true },
    onEnd(onExit, crash) {
      onEnd(onExit, crash);
      // No monitor sees a rejection here, and the exit event that follows says 0.
      // First of all: a listener of the program's by once() is no longer counted while it runs itself.
      process.prependListener("unhandledRejection", function seen(reason) {
        if (process.listenerCount("unhandledRejection") > 1) return; // the program handles it
        crash();
        process.off("unhandledRejection", seen);
        Promise.reject(reason); // and now the process dies of it, as it would have
      });
    },
    fallback: () => ({ unavailable: "Bun has flock(2) through its FFI only" }),
  };
}

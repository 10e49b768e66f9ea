/**
 * What this thread holds, awaits and runs under, kept once for all copies of the
 * package in it. A program can load two copies (two versions of a dependency, a
 * bundle beside a module), and a nested `run()` across them waited for itself. The
 * hooks for events are here too: one import publishes the locks of all copies, once.
 *
 * The version is part of the key. Copies whose versions differ do not know each
 * other: the kernel still keeps them apart, as it does any two programs, but a
 * wait for oneself is not recognised, and no hook is told of the other's locks.
 */

/** Its version is to be raised with every change of what is kept: `holds`, `lines`, `contended`, `frames`, `abandoned`, `hooks`. */
const KEY = Symbol.for("@holdfast/lock:thread:3");

/** What this copy keeps for itself where `globalThis` is frozen (SES): then two copies are two. */
let own: Map<string, unknown> | undefined;

function valuesOfThread(): Map<string, unknown> {
  const home = globalThis as { [KEY]?: Map<string, unknown> }; // our own property, under a symbol of our own
  if (home[KEY] || Object.isExtensible(globalThis)) return home[KEY] ??= new Map();
  return own ??= new Map();
}

/** The value that goes by a name, the same for all copies in this thread; made at its first use. */
export function perThread<T>(name: string, make: () => T): T {
  const values = valuesOfThread();
  if (!values.has(name)) values.set(name, make());
  return values.get(name) as T; // the version in the key stands for the type
}

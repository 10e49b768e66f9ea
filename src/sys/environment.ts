/**
 * The environment that this process was given, in spite of what the runtime makes of it. For the command line: a program
 * that uses the library may read its own `.env`.
 */
import { fs } from "./builtin.ts";
import { type ByteString, byteString, toText } from "./bytes.ts";
import { entriesOf, type Shown } from "./given.ts";
import { env, thisRuntime } from "./mod.ts";
import { SystemError } from "./contract.ts";

/** Its environment or its arguments, as bytes; undefined where they may not be read through `node:fs`. */
export function startedWith(file: "environ" | "cmdline"): ByteString[] | undefined {
  if (!thisRuntime().may.proc) return undefined;
  try {
    return entriesOf(byteString(fs().readFileSync(`/proc/self/${file}`)));
  } catch {
    return undefined; // no /proc, or not for this process: the caller does without
  }
}

/** What the runtime shows; nothing where it would ask on the terminal. */
export function shownVariables(): Shown {
  if (!thisRuntime().may.env()) return [];
  return Object.keys(process.env).flatMap((name) => {
    try {
      const value = process.env[name];
      return value === undefined ? [] : [[name, value] as const];
    } catch {
      return []; // not UTF-8, which Deno throws for: it is among what was given
    }
  });
}

/** A variable that says how something is to look; undefined where it may not be read. */
export function preference(name: string): string | undefined {
  try {
    return env(name);
  } catch {
    return undefined; // no permission, or not UTF-8: as it looks by default
  }
}

/** The files that Bun reads, each for a NODE_ENV. */
const FILES = ["", ".development", ".production", ".test"].flatMap((kind) => [`.env${kind}`, `.env${kind}.local`]);

/**
 * Takes out of `process.env` what the runtime put there unasked. A `.env` of the current directory, which may be any user's,
 * set HOLDFAST_DIR, and one job ran twice at once; and LD_PRELOAD, and root ran planted code.
 *
 * @throws {SystemError} If there is such a file, and what was given cannot be known.
 */
export function forgetFiles(): void {
  const { readsFiles } = thisRuntime();
  if (!readsFiles) return;
  const given = startedWith("environ")?.map(toText);
  const ownEntry = (name: string) => given?.find((entry) => entry.startsWith(`${name}=`));
  const reads = readsFiles((name) => ownEntry(name)?.slice(name.length + 1));
  if (reads === "no") return;
  if (given === undefined) {
    const found = reads === "perhaps" ? undefined : FILES.find((name) => fs().existsSync(name));
    if (found === undefined) return;
    const advice = `start the runtime with --no-env-file, or with --env-file=${found} if its variables are wanted`;
    throw new SystemError("EINVAL", `the runtime has read ${found} of the current directory unasked: ${advice}`);
  }
  for (const [name, value] of shownVariables()) {
    if (given.includes(`${name}=${value}`)) continue;
    const own = ownEntry(name);
    if (own === undefined) delete process.env[name];
    else process.env[name] = own.slice(name.length + 1);
  }
}

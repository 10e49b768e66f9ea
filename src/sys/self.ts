/** How this process sees itself and others: what it reads, and what of it goes into a record. */
import { childProcess, fs, nodePath, os } from "./builtin.ts";
import type { Calls } from "./calls.ts";
import { hasLinuxKernel } from "./libc.ts";
import { stat } from "./primitives.ts";
import { namespaceOf, ownThread, processInfo, type Reader, surroundings } from "./proc.ts";
import type { Runtime } from "./runtime.ts";
import type { Identity } from "./contract.ts";

/** What a call answers; undefined where it fails. */
export const attempt = <T>(call: () => T): T | undefined => {
  try {
    return call();
  } catch {
    return undefined; // the caller treats what cannot be read as unknown, and unknown as the cautious case
  }
};

/** How this process reads `/proc` and asks `ps`: through libc, or through the runtime where that may. */
export function makeReader(runtime: Runtime, calls: Calls | undefined): Reader {
  const proc = runtime.may.proc;
  return {
    // Read as bytes: with an encoding Node aborts where close(2) fails (ReadFileUtf8 in its node_file.cc).
    text: (path) => calls ? calls.readText(path) : proc ? attempt(() => String(fs().readFileSync(path))) : undefined,
    link: (path) => calls ? calls.readLink(path) : proc ? attempt(() => fs().readlinkSync(path)) : undefined,
    // In a Deno whose permissions name paths libc opens no lock file, but may look into /proc.
    stat(path) {
      const libc = calls?.files();
      return libc ? libc.stat(path) : proc ? stat(path) : undefined;
    },
    list: (path) => calls ? calls.list(path) : proc ? attempt(() => fs().readdirSync(path)) : undefined,
    ps(args) {
      if (!runtime.may.kill()) return undefined;
      // UTC and the C locale, or two processes would read two texts for one start time.
      const env = { LC_ALL: "C", TZ: "UTC" };
      const ran = attempt(() => childProcess().spawnSync("/bin/ps", args, { env, encoding: "utf8" }));
      return ran?.status === 0 ? ran.stdout : undefined;
    },
  };
}

/** This process and this machine. `others`: the reader of what `/proc` says of processes by their numbers. */
export function identify(
  runtime: Runtime,
  calls: Calls | undefined,
  reader: Reader,
  others: Reader,
  pid: number,
): Identity {
  const { startTime, command, jailed } = processInfo(process.platform, pid, others) ?? {};
  const [program, ...args] = process.argv;
  const thread = ownThread(pid, reader);
  return {
    pid,
    thread: thread === pid ? undefined : thread,
    startTime,
    ...(hasLinuxKernel(process.platform)
      ? surroundings(reader)
      : { pidNamespace: namespaceOf(process.platform, jailed) }),
    host: (calls ? calls.hostname() : runtime.may.hostname() ? attempt(() => os().hostname()) : undefined) || undefined,
    uid: calls ? calls.uid() : runtime.may.uid() ? attempt(() => process.getuid?.()) : undefined,
    command: command ?? [nodePath().basename(program), ...args].join(" "),
    runtime: runtime.name,
  };
}

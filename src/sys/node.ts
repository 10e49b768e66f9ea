/**
 * Node. The only file that names its FFI.
 *
 * From 26.9 on it has `node:ffi`. Before, the flock(1) command takes the lock
 * on our own descriptor: the lock belongs to the open file description, which
 * the command shares, so it stays when the command is gone.
 */
import { childProcess, fs, nodePath, workerThreads } from "./builtin.ts";
import type { Bind } from "./abi.ts";
import { messageErrno } from "./errno.ts";
import { contention, type Flock, retryOnEintr } from "./primitives.ts";
import type { CType } from "./abi.ts";
import { permitsAll } from "./files.ts";
import { libraryOf } from "./libc.ts";
import type { Runtime } from "./runtime.ts";
import { SystemError } from "./contract.ts";

/** The one call of `node:ffi` that we make. */
interface NodeFfi {
  dlopen(
    library: string,
    symbols: Record<string, { arguments: string[]; return: string }>,
  ): { functions: ReturnType<Bind> };
}

const TYPES: Record<CType, string> = { i32: "i32", u32: "u32", usize: "u64", buffer: "buffer", pointer: "pointer" };

/** `process.arch` of 32 bits. A size_t is no u64 there, and shifts all that comes after it. */
const NARROW = /^(?:arm|ia32|mips|mipsel|ppc|s390)$/;

/** `node:ffi`, whose 64-bit integers are bigints. */
function bindWith(module: NodeFfi): Bind {
  return (library, table) => {
    const symbols: Parameters<NodeFfi["dlopen"]>[1] = {};
    for (const [name, { parameters, result }] of Object.entries(table)) {
      symbols[name] = { arguments: parameters.map((type) => TYPES[type]), return: TYPES[result] };
    }
    const { functions } = module.dlopen(library, symbols);
    const bound: ReturnType<Bind> = {};
    for (const [name, { parameters }] of Object.entries(table)) {
      bound[name] = parameters.includes("usize")
        ? (...values) => functions[name](...values.map((value, i) => parameters[i] === "usize" ? BigInt(value) : value))
        : functions[name];
    }
    return bound;
  };
}

/** Where flock(1) is: the system's own before another, and absolute directories only, so none from the current one. */
function flockCommand(): string | undefined {
  const directories = ["/usr/bin", "/bin", "/usr/local/bin", ...(process.env.PATH ?? "").split(":")];
  return directories.filter(nodePath().isAbsolute).map((directory) => nodePath().join(directory, "flock")).find(
    (file) => {
      try {
        fs().accessSync(file, fs().constants.X_OK);
        return fs().statSync(file).isFile();
      } catch {
        return false; // not there: the next directory
      }
    },
  );
}

/**
 * flock(1) of util-linux, BusyBox, toybox (Android) and discoteq (macOS, FreeBSD): 1 and nothing said is contention.
 * Exclusive is every one's default; discoteq's has no option for it.
 */
function flockBy(command: string): Flock {
  return (fd, mode) => {
    const { status, stderr, error } = retryOnEintr(() =>
      childProcess().spawnSync(command, mode === "exclusive" ? ["-n", "3"] : ["-n", "-s", "3"], {
        stdio: ["ignore", "ignore", "pipe", fd],
        env: { LC_ALL: "C" },
        encoding: "utf8",
      })
    );
    // The cast: what spawnSync cannot start it says with a code.
    if (error) throw new SystemError((error as NodeJS.ErrnoException).code ?? "EIO", `${command}: ${error.message}`);
    if (status === 1 && stderr === "") return "held";
    if (status !== 0) {
      return contention(messageErrno(stderr) ?? "EIO", `${command} ended with ${status}: ${stderr.trim()}`);
    }
    // Whatever the command was, the kernel has the last word.
    if (!locked(fd)) throw new SystemError("ENOSYS", `${command} reported success but the kernel shows no lock`);
    return "locked";
  };
}

function locked(fd: number): boolean {
  try {
    // As bytes: with an encoding Node aborts where close(2) fails (ReadFileUtf8 in its node_file.cc).
    // On 9p Linux makes a lock of fcntl(2) of it. What this very open file has, no other can have taken.
    return /^lock:.*\s(?:FLOCK|POSIX)\s/m.test(String(fs().readFileSync(`/proc/self/fdinfo/${fd}`)));
  } catch {
    return true; // no /proc here: the command's word is all there is
  }
}

/** Exit, and an uncaught error, or a rejection that becomes one, unless the program handles those itself. */
export function onEnd(onExit: () => void, crash: () => void): void {
  process.on("exit", onExit);
  // A monitor, not a handler: what the process dies of stays as it is.
  process.on("uncaughtExceptionMonitor", () => {
    if (process.listenerCount("uncaughtException") === 0) crash();
  });
}

/** Node, if this is it; anything that looks like it is treated as one. */
export function nodeRuntime(): Runtime {
  const { node } = process.versions;
  return {
    name: `node/${node}`,
    ffi() {
      const platform = libraryOf(process.platform);
      if (!platform) return { unavailable: `no C library is known for ${process.platform}` };
      if (NARROW.test(process.arch)) return { unavailable: `the FFI is not used on ${process.arch}, of 32 bits` };
      // Not an import: older versions have no such module. The cast: Node's types do not know it yet.
      const module = process.getBuiltinModule?.("node:ffi") as unknown as NodeFfi | undefined;
      return module
        ? { bind: bindWith(module), library: platform.library }
        : { unavailable: `Node ${node} has no node:ffi (26.9 has)` };
    },
    isMainThread: () => workerThreads().isMainThread,
    mayOpenByItself: () => process.permission === undefined && workerThreads().isMainThread,
    permits: permitsAll,
    resolvesLinks: false,
    marksInherited: true,
    may: { kill: () => true, hostname: () => true, uid: () => true, proc: true, env: () => true, statfs: () => true },
    onEnd,
    fallback() {
      if (process.permission?.has("child") === false) {
        return { unavailable: "it may not run flock(1) (--allow-child-process)" };
      }
      const command = flockCommand();
      return command
        ? { way: "flock(1)", flock: flockBy(command) }
        : { unavailable: "there is no flock(1) command on the PATH" };
    },
  };
}

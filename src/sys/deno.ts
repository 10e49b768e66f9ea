/**
 * Deno. The only file that names it.
 *
 * With `--allow-ffi` it calls libc. Without, `Deno.FsFile.tryLockSync` takes
 * the same kernel lock (it is `flock(2)` since Deno 2.7.0) with nothing but the
 * permission for the file.
 */
import { nodePath, workerThreads } from "./builtin.ts";
import type { Bind } from "./abi.ts";
import { libraryOf } from "./libc.ts";
import { openAsItStands } from "./careful.ts";
import { contention, MAKING, type Permits, retryOnEintr, withoutNonce } from "./primitives.ts";
import { ownThread, type Proc } from "./proc.ts";
import type { Runtime, Unavailable } from "./runtime.ts";
import { type Access, type FileStat, type OpenFile, SystemError } from "./contract.ts";

type DenoNamespace = typeof globalThis.Deno;
// The cast: the other runtimes have no such global, and its types say that it is always there.
const deno: DenoNamespace | undefined = (globalThis as { Deno?: DenoNamespace }).Deno;

const atLeast = (version: string, [major, minor, patch]: number[]): boolean => {
  const [a, b, c] = version.split(/[.+-]/).map(Number);
  return a !== major ? a > major : b !== minor ? b > minor : c >= patch;
};

const granted = (descriptor: Deno.PermissionDescriptor): boolean => {
  const { state, partial } = deno!.permissions.querySync(descriptor); // `!`: called only by what denoRuntime() returns
  return state === "granted" && !partial;
};

const isMainThread = () => !("WorkerGlobalScope" in globalThis) && workerThreads().isMainThread; // two kinds of Worker
const allGranted = () => granted({ name: "read" }) && granted({ name: "write" });

/**
 * Whether this isolate ends only when its process does, so that the kernel closes what libc opened. Not one that a
 * watcher replaces in the same process: then there is an inotify from the start (2.9.6: `--watch`, `--watch-hmr`,
 * `deno watch`), and the last two tell the program nothing. The next version was refused by its own process, for good.
 * Not one in another thread than the first either: a Worker, or a file of `deno test`.
 */
function endsWithProcess(proc: Proc): boolean {
  if (ownThread(process.pid, proc) !== process.pid) return false;
  const open = proc.list("/proc/self/fd");
  return open !== undefined && !open.some((fd) => proc.link(`/proc/self/fd/${fd}`) === "anon_inode:inotify");
}

const bind: Bind = (library, table) => {
  const symbols: Record<string, Deno.ForeignFunction> = {};
  for (const [name, { parameters, result }] of Object.entries(table)) symbols[name] = { parameters, result };
  // `!` as above. The casts: usize takes a number too, and every symbol is a function.
  return deno!.dlopen(library, symbols).symbols as unknown as ReturnType<Bind>;
};

function ffi(): { bind: Bind; library: string } | Unavailable {
  const platform = libraryOf(process.platform);
  if (!platform) return { unavailable: `no C library is known for ${process.platform}` };
  // Before 2.7.12 node:fs hands out resource ids: flock(2) on one returns 0 and locks another file.
  if (!atLeast(deno!.version.deno, [2, 7, 12])) {
    return { unavailable: `Deno ${deno!.version.deno} has no real descriptors in node:fs (2.7.12 has)` };
  }
  if (granted({ name: "ffi" })) return { bind, library: platform.library };
  const library = platform.paths.find((path) => granted({ name: "ffi", path }) && (platform.cached || exists(path)));
  return library ? { bind, library } : { unavailable: "Deno runs without --allow-ffi" };
}

/** A granted path that is not there must not be loaded: the loader would look for its name elsewhere. */
function exists(path: string): boolean {
  if (!permits("read", path)) return true; // it cannot be known; the grant names this very path
  try {
    return deno!.statSync(path).isFile; // `!` as above
  } catch {
    return false; // not there: the next candidate
  }
}

// A relative path in a deleted directory cannot even be asked for.
const permits: Permits = (kind, path) => retryOnEintr(() => granted({ name: kind, path: withoutNonce(path) }));

/** Deno, unless everything is allowed, takes `a/..` for nothing, also where `a` is a symlink; the kernel does not. */
function resolveParents(path: string): string {
  if (!nodePath().isAbsolute(path) || !path.split("/").includes("..")) return path;
  return retryOnEintr(() => {
    let done = "/";
    for (const part of path.split("/")) {
      if (part === ".." && !permits("read", done)) {
        throw new SystemError("EACCES", `where ${path} leads cannot be seen without --allow-read=${done}`);
      }
      done = part === ".." ? nodePath().dirname(deno!.realPathSync(done)) : nodePath().join(done, part); // `!` as above
    }
    return done;
  });
}

function describe(info: Deno.FileInfo): FileStat {
  // Beyond 2^53 an inode number has lost its last digits; its birth tells twins apart.
  const ino = info.ino ?? 0;
  const twin = Number.isSafeInteger(ino) ? "" : `:${info.birthtime?.getTime()}`;
  return {
    kind: (info.isFile && "file") || (info.isDirectory && "directory") || (info.isSymlink && "symlink") ||
      (info.isFifo && "fifo") || (info.isSocket && "socket") || "device",
    identity: `${info.dev}:${ino}${twin}`,
    inode: String(BigInt(ino)),
    size: info.size,
    changed: Math.floor((info.ctime?.getTime() ?? 0) / 1000),
    uid: info.uid ?? undefined,
    mode: info.mode === null ? undefined : info.mode & 0o7777,
  };
}

function lstatOf(path: string): FileStat | undefined {
  try {
    return describe(deno!.lstatSync(path)); // `!` as above
  } catch (error) {
    // The cast: Deno throws Errors, those of the system with a code.
    if ((error as { code?: string }).code === "ENOENT") return undefined;
    throw error;
  }
}

/** `Deno.openSync` knows neither O_NOFOLLOW nor O_NONBLOCK. */
function openLock(path: string, access: Access, mode: number): OpenFile {
  const write = access !== "read";
  for (const kind of write ? ["read", "write"] as const : ["read"] as const) {
    if (!permits(kind, path)) {
      throw new SystemError("EACCES", `there is no --allow-${kind} for it; its directory is what the lock needs`);
    }
  }
  const lstat = (path: string) => retryOnEintr(() => lstatOf(path));
  return openAsItStands(path, MAKING[access], {
    lstat,
    open(how) {
      const options = { read: true, write, ...(how === "new" && { createNew: true, mode }) };
      return fsFile(retryOnEintr(() => deno!.openSync(path, options))); // `!` as above
    },
  });
}

function fsFile(file: Deno.FsFile): OpenFile {
  const start = () => file.seekSync(0, deno!.SeekMode.Start); // `!` as above
  return {
    fd: undefined,
    stat: () => retryOnEintr(() => describe(file.statSync())),
    read: (limit) =>
      retryOnEintr(() => {
        start();
        const buffer = new Uint8Array(limit);
        let length = 0;
        while (length < limit) {
          const more = file.readSync(buffer.subarray(length));
          if (!more) break;
          length += more;
        }
        return buffer.subarray(0, length);
      }),
    write: (bytes) =>
      retryOnEintr(() => {
        start();
        let done = 0;
        while (done < bytes.length) done += file.writeSync(bytes.subarray(done));
      }),
    empty: () => retryOnEintr(() => file.truncateSync(0)),
    flock(mode) {
      try {
        // The argument is never left out: its default is shared.
        return retryOnEintr(() => file.tryLockSync(mode === "exclusive")) ? "locked" : "held";
      } catch (error) {
        // On Windows Deno itself knows contention by its number, and EACCES is a denial.
        if (!(error instanceof SystemError) || process.platform === "win32") throw error;
        return contention(error.code, error.message);
      }
    },
    unlock: () => file.unlockSync(),
    close: () => file.close(),
  };
}

/** Here `node:fs` keeps the process alive while it watches: every single wait for an event has to be unref'd. */
function watch(path: string, happened: () => void): { close(): void } | undefined {
  if (!permits("read", path)) return undefined;
  const watcher: Deno.FsWatcher & { unref?(): void } = deno!.watchFs(path, { recursive: false }); // `!` as above
  const events = watcher[Symbol.asyncIterator]();
  (async () => {
    for (;;) {
      const next = events.next();
      watcher.unref?.(); // its types do not know it
      if ((await next).done) return;
      happened();
    }
  })().catch(() => {}); // closed while it waits
  return watcher;
}

/** Deno, if this is it. */
export function denoRuntime(): Runtime | undefined {
  if (!deno?.version?.deno || !deno.permissions) return undefined;
  const { version } = deno;
  return {
    name: `deno/${version.deno}`,
    ffi,
    permits,
    resolveParents,
    watch,
    isMainThread,
    mayOpenByItself: (proc) => allGranted() && endsWithProcess(proc),
    // Unless all eight permissions are granted without an exception (2.9.6). That is not asked: one can be given up later.
    resolvesLinks: true,
    may: {
      // Before 2.4 `process.kill(pid, 0)` on Windows was TerminateProcess (denoland/deno#23938): a look killed the holder.
      kill: () => granted({ name: "run" }) && (process.platform !== "win32" || atLeast(version.deno, [2, 4, 0])),
      hostname: () => granted({ name: "sys", kind: "hostname" }),
      uid: () => granted({ name: "sys", kind: "uid" }),
      env: (name) => granted(name === undefined ? { name: "env" } : { name: "env", variable: name }),
      proc: false, // it needs --allow-all, and asks on the terminal without; libc reads it under --allow-ffi
      statfs: (path) => !/^\/(?:dev|proc|sys)\//.test(path) && granted({ name: "sys", kind: "statfs" }), // as proc
    },
    marksInherited: false,
    start([file, ...args]) {
      // Not node:child_process, which takes this executable for Node, also in a shell's words, and gives it every permission.
      const child = new deno.Command(file, { args, stdin: "inherit", stdout: "inherit", stderr: "inherit" }).spawn();
      return { pid: child.pid, ended: child.status };
    },
    onEnd(onExit) {
      process.on("exit", onExit);
      // Deno.exit() fires only this. No exit event at all follows a crash here.
      addEventListener("unload", onExit);
    },
    fallback: () =>
      atLeast(version.deno, [2, 7, 0])
        ? { way: "FsFile", openLock, stat: (path) => retryOnEintr(() => lstatOf(path)) }
        : { unavailable: `Deno ${version.deno} has no flock(2) without FFI (2.7.0 has)` },
  };
}

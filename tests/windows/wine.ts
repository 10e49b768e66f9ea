/**
 * Wine, and in it the Windows builds of Deno and Bun: set up in a cache outside
 * the checkout, started, and ended. `Z:\` is `/` there.
 */
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const WINE = "/usr/lib/wine/wine64", SERVER = "/usr/lib/wine/wineserver64";

const home = join(
  process.env.HOLDFAST_TEST_CACHE ?? process.env.XDG_CACHE_HOME ?? join(homedir() || tmpdir(), ".cache"),
  "holdfast-wine",
);

/** The runtimes, and what each is allowed. */
export const WAYS = {
  "deno.exe with FFI": { runtime: "deno", flags: ["-A"] },
  "deno.exe without FFI": {
    runtime: "deno",
    flags: ["--allow-read", "--allow-write", "--allow-run", "--allow-sys", "--allow-env"],
  },
  "bun.exe": { runtime: "bun", flags: [] },
} as const;
export type Way = keyof typeof WAYS;

/** The npm packages, and where in them the program lies. */
const PACKAGES = {
  deno: ["@deno/win32-x64@2.9.6", "deno.exe"],
  bun: ["@oven/bun-windows-x64@1.4.5", "bin/bun.exe"],
} as const;

/** A server, and its share. */
const SHARE = ["server", "share"] as const;

/** A path of this machine, as Windows has it. */
export const windowsPath = (path: string): string => `Z:${path.replaceAll("/", "\\")}`;

/** The program of a runtime, fetched if need be. */
export function program(runtime: keyof typeof PACKAGES): string {
  const [name, file] = PACKAGES[runtime];
  const folder = join(home, name.replace(/\W+/g, "-").slice(1));
  if (!existsSync(folder)) {
    console.error(`fetching ${name} from the npm registry into ${folder}`);
    const unfinished = `${folder}.${process.pid}`;
    mkdirSync(unfinished, { recursive: true });
    const stdio = ["ignore", "pipe", "inherit"] as const;
    const packed = execFileSync("npm", ["pack", "--silent", name], { cwd: unfinished, stdio: [...stdio] });
    execFileSync("tar", ["xzf", join(unfinished, String(packed).trim()), "-C", unfinished], { stdio: [...stdio] });
    rmSync(join(unfinished, String(packed).trim()));
    renameSync(unfinished, folder); // whole or not at all
  }
  return join(folder, "package", file);
}

/** A prefix whose server runs. */
export class Wine {
  readonly env: Record<string, string>;
  readonly #server: ChildProcess;

  private constructor(env: Record<string, string>, server: ChildProcess) {
    this.env = env;
    this.#server = server;
  }

  /** Sets up what is missing, and starts it. */
  static async start(): Promise<Wine> {
    if (!existsSync(WINE)) {
      console.error("installing wine64 from Debian");
      execFileSync("apt-get", ["install", "-y", "-qq", "--no-install-recommends", "wine64"], { stdio: "ignore" });
    }
    program("deno");
    program("bun");
    const prefix = join(home, "prefix");
    if (!existsSync(join(prefix, "drive_c/windows/system32/bcryptprimitives.dll"))) {
      console.error(`making a Wine prefix in ${prefix}`);
      execFileSync("bash", [fileURLToPath(new URL("setup.sh", import.meta.url)), prefix], { stdio: "ignore" });
    }
    // It is / too: in this folder Wine looks for shares.
    const unc = join(prefix, "dosdevices/unc", ...SHARE);
    mkdirSync(dirname(unc), { recursive: true });
    if (!existsSync(unc)) symlinkSync("/", unc);
    const env = {
      PATH: process.env.PATH ?? "",
      HOME: homedir(),
      WINEPREFIX: prefix,
      WINEDEBUG: "-all",
      WINEDLLOVERRIDES: "mscoree,mshtml=;kernelbase=n,b",
      NO_COLOR: "1",
      DENO_DISABLE_NODE_SHIM: "1", // or every start leaves 95 MB behind
      DENO_NO_UPDATE_CHECK: "1",
    };
    // In the foreground of a process that we own, and Wine's services started without a pipe of ours: else they inherit
    // the standard output of the first program, and whoever reads that waits for ever.
    const server = spawn(SERVER, ["-f", "-p"], { env, stdio: "ignore" });
    await setTimeout(300);
    spawnSync(WINE, ["cmd", "/c", "exit"], { env, stdio: "ignore", timeout: 60_000 });
    return new Wine(env, server);
  }

  /** The version, for a report: this is Wine, not Windows. */
  get name(): string {
    return String(execFileSync(WINE, ["--version"], { env: this.env })).trim().replace(/^wine-(\S+).*$/, "Wine $1");
  }

  /** Starts a script, or a test file, in one of the ways; `dir` is for its files. */
  spawn(way: Way, dir: string, script: string, args: readonly string[] = [], command: "run" | "test" = "run") {
    const [first, ...words] = this.#words(way, script, args, command);
    return spawn(first, words, { env: this.#env(way, dir), stdio: ["pipe", "pipe", "pipe"] });
  }

  /** The same on a terminal, which is its console: what is written to its standard input is typed. */
  spawnOnConsole(way: Way, dir: string, script: string, args: readonly string[]) {
    const line = this.#words(way, script, args, "run").map((word) => `'${word}'`).join(" ");
    const env = { ...this.#env(way, dir), TERM: "xterm" };
    return spawn("script", ["-qefc", line, "/dev/null"], { env, stdio: ["pipe", "pipe", "pipe"] });
  }

  #words(way: Way, script: string, args: readonly string[], command: "run" | "test"): string[] {
    const { runtime, flags } = WAYS[way];
    const file = windowsPath(script);
    const bun = command === "test" ? ["test", file] : [file];
    const words = runtime === "deno" ? [command, "--no-check", "--quiet", ...flags, file] : bun;
    return [WINE, program(runtime), ...words, ...args];
  }

  #env(way: Way, dir: string): Record<string, string> {
    const share = `\\\\${SHARE.join("\\")}`;
    return {
      ...this.env,
      HOLDFAST_SHARE: share,
      HOLDFAST_TEST_DIR: windowsPath(dir),
      HOLDFAST_FLAGS: JSON.stringify(WAYS[way].flags),
    };
  }

  /** Ends the server, and with it whatever still runs in it. */
  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.#server.on("exit", resolve));
    spawnSync(SERVER, ["-k"], { env: this.env, stdio: "ignore", timeout: 20_000 });
    await ended;
  }
}

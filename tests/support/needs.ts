/**
 * What tests need beside a runtime: commands, headers, and rights that the user,
 * the container or the kernel gives. A test whose need is missing is skipped by
 * its name; see harness.ts and runners.ts.
 *
 *   needs.ts    prints the Debian packages that are missing, for .ci/run
 */
import { spawnSync } from "node:child_process";
import { accessSync, closeSync, constants, existsSync, openSync } from "node:fs";
import { delimiter, join } from "node:path";
import process from "node:process";

/** The commands, and files, that only some tests use, and the Debian package that has each. */
export const PACKAGES: Readonly<Record<string, string>> = {
  "/usr/include/stdio.h": "libc6-dev",
  "apt-get": "apt",
  bindfs: "bindfs",
  fish: "fish",
  flock: "util-linux",
  fuser: "psmisc",
  fusermount3: "fuse3",
  gcc: "gcc",
  losetup: "mount",
  lslocks: "util-linux",
  man: "man-db",
  mandoc: "mandoc",
  mount: "mount",
  "mkfs.ext4": "e2fsprogs",
  nsenter: "util-linux",
  pgrep: "procps",
  pkill: "procps",
  "/bin/ps": "procps",
  python3: "python3",
  script: "bsdutils",
  setpriv: "util-linux",
  setsid: "util-linux",
  strace: "strace",
  tar: "tar",
  unshare: "util-linux",
  xz: "xz-utils",
  zsh: "zsh",
};

/** The system's, where there is one: a shim of pyenv takes 0.6 s of the processor to start, and Python 0.05 s. */
export const PYTHON = existsSync("/usr/bin/python3") ? "/usr/bin/python3" : "python3";

/** Rights, and how to see whether they are there. */
const RIGHTS: Readonly<Record<string, () => boolean>> = {
  root: () => process.getuid?.() === 0,
  "/dev/fuse": () => {
    try {
      closeSync(openSync("/dev/fuse", "r+"));
      return true;
    } catch {
      return false; // there is none, or this user or this container may not open it
    }
  },
};

/** By which variable a package that is missing is a failure: .ci/run has installed them all. */
const INSTALLED = "HOLDFAST_TEST_INSTALLED";

/** Why a test cannot be run on this machine. */
export class Missing extends Error {
  /** Its Debian package, if it is one that is missing. */
  readonly package: string | undefined;

  constructor(what: string, debianPackage?: string) {
    super(debianPackage ? `${what} (apt-get install ${debianPackage})` : what);
    this.package = debianPackage;
  }
}

/** Says that something is missing: an error that skips the test, or one that fails it where all packages are installed. */
export function missing(what: string, debianPackage?: string): never {
  const reason = new Missing(what, debianPackage);
  if (debianPackage && process.env[INSTALLED]) {
    throw new Error(`${INSTALLED} is set, but the test needs ${reason.message}`);
  }
  throw reason;
}

/** Where a command or file is, or undefined. */
function find(name: string): string | undefined {
  if (name.startsWith("/")) return existsSync(name) ? name : undefined;
  const folders = (process.env.PATH ?? "").split(delimiter);
  return folders.map((folder) => join(folder, name)).find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** The path of a command of {@linkcode PACKAGES}; where it is missing, the test is skipped. */
export function command(name: string, debianPackage: string = PACKAGES[name]): string {
  return find(name) ?? missing(name, debianPackage);
}

/** Skips the test if any of these is missing: names of {@linkcode PACKAGES} and of `RIGHTS`. */
export function needs(...names: readonly string[]): void {
  for (const name of names) {
    if (name in PACKAGES) command(name);
    else if (!(name in RIGHTS)) throw new TypeError(`needs() knows no ${name}`);
    else if (!RIGHTS[name]()) missing(name);
  }
}

const tried = new Map<string, string | undefined>();

/** Skips the test if the system refuses what a command such as `unshare -m` asks for. */
export function needsPermission(name: string, ...options: readonly string[]): void {
  const path = command(name);
  const what = [name, ...options].join(" ");
  if (!tried.has(what)) {
    const { status, error, stderr } = spawnSync(path, [...options, "true"], { encoding: "utf8" });
    tried.set(what, status === 0 ? undefined : (error?.message ?? stderr).trim().split("\n")[0]);
  }
  const refused = tried.get(what);
  if (refused !== undefined) missing(`the right to ${what}, which the system refuses: ${refused}`);
}

/** Options whose value is the next argument. */
const WITH_VALUE = ["--boottime", "--propagation", "-o", "-e", "-P"];

/** Skips the test if a command line cannot be started here: its command is missing, or refused by the system. */
export function needsFor(program: string, args: readonly string[]): void {
  if (program in PACKAGES) command(program);
  if (program === "strace") needsPermission("strace", "-qq", "-o", "/dev/null");
  if (program !== "unshare" && program !== "setpriv") return;
  let end = 0;
  while (args[end]?.startsWith("-")) end += WITH_VALUE.includes(args[end]) ? 2 : 1;
  needsPermission(program, ...args.slice(0, end));
}

if (import.meta.main) {
  const names = Object.keys(PACKAGES).filter((name) => find(name) === undefined).map((name) => PACKAGES[name]);
  console.log([...new Set(names)].join(" "));
}

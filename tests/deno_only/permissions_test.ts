/**
 * What stands where a lock's files should, under each set of permissions that takes another way through the code. Deno
 * with anything short of every permission follows symlinks itself: a link at `P.journal` was written through.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { assertEquals } from "@std/assert";
import { basename, dirname, fromFileUrl, join } from "@std/path";
import { type Place, SLOW, test, within } from "../support/harness.ts";
import { deadOwner, leave } from "../support/pid_files.ts";
import { packedModule } from "../../tasks/pack.ts";
import { command, PYTHON } from "../support/needs.ts";
import { deno, tool } from "../support/tools.ts";

const here = (file: string) => fromFileUrl(new URL(file, import.meta.url));
const repository = here("../../");

interface PermissionSet {
  readonly name: string;
  readonly command: (dir: string) => string[];
  readonly thread?: "node" | "web";
  readonly permissions?: (dir: string) => object;
  readonly revoke?: string;
  readonly module?: () => string;
  /** There is no kernel lock: "auto" is a PID file. */
  readonly pidFile?: boolean;
}

const inDeno =
  (flags: (dir: string) => string[]) => (dir: string) => [deno(), "run", "--quiet", "--no-prompt", ...flags(dir)];
const inNode = (...flags: string[]) => (dir: string) => [
  tool("node26"),
  "--disable-warning=ExperimentalWarning",
  "--disable-warning=SecurityWarning",
  ...flags.map((flag) => flag.replace("DIR", dir)),
];
const scoped = (dir: string) => [`--allow-read=${dir},${repository}`, `--allow-write=${dir}`];
const unscoped = () => ["--allow-read", "--allow-write"];
const all = () => ["-A"];
const but = (denial: string) => () => ["-A", denial];

const SETS: readonly PermissionSet[] = [
  { name: "Deno with every permission", command: inDeno(all) },
  { name: "Deno without the network", command: inDeno(but("--deny-net")) },
  { name: "Deno without one import", command: inDeno(but("--deny-import=example.com")) },
  { name: "Deno without FFI", command: inDeno(but("--deny-ffi")) },
  { name: "Deno without one folder", command: inDeno(but("--deny-read=/nonexistent")) },
  { name: "Deno that may read and write", command: inDeno(unscoped) },
  { name: "Deno that may read, write and call C", command: inDeno(() => [...unscoped(), "--allow-ffi"]) },
  { name: "Deno for one folder", command: inDeno(scoped) },
  { name: "Deno for one folder and C", command: inDeno((dir) => [...scoped(dir), "--allow-ffi"]) },
  { name: "Deno that gives a permission up", command: inDeno(all), revoke: "net" },
  { name: "Deno, a Worker of node:worker_threads", command: inDeno(all), thread: "node" },
  { name: "Deno without the network, a Worker", command: inDeno(but("--deny-net")), thread: "node" },
  {
    name: "Deno for one folder and C, a Worker",
    command: inDeno((dir) => [...scoped(dir), "--allow-ffi"]),
    thread: "node",
  },
  {
    name: "Deno, a Worker that may read, write and call C",
    command: inDeno(() => ["-A", "--unstable-worker-options"]),
    thread: "web",
    permissions: () => ({ read: true, write: true, ffi: true }),
  },
  {
    name: "Deno, a Worker for one folder",
    command: inDeno(() => ["-A", "--unstable-worker-options"]),
    thread: "web",
    permissions: (dir) => ({ read: [dir, repository], write: [dir] }),
  },
  { name: "Node", command: inNode() },
  { name: "Node, a Worker", command: inNode(), thread: "node" },
  {
    name: "Node for one folder",
    command: inNode("--permission", "--allow-fs-read=*", "--allow-fs-write=DIR"),
    pidFile: true,
  },
  {
    name: "Node for one folder and C",
    command: inNode("--permission", "--allow-fs-read=*", "--allow-fs-write=DIR", "--allow-ffi"),
  },
  {
    name: "Node for one folder and flock(1)",
    command: inNode("--permission", "--allow-fs-read=*", "--allow-fs-write=DIR", "--allow-child-process"),
  },
  { name: "Node 20", command: () => [tool("node20")], module: packedModule },
  { name: "Bun", command: () => [tool("bun")] },
  { name: "Bun, a Worker", command: () => [tool("bun")], thread: "node" },
];

/** What can stand there. Made at once, and a socket by a short name: its path has 108 bytes at most. */
const KINDS = ["symlink", "dangling symlink", "FIFO", "directory", "device", "socket"] as const;
const MAKE = `import json, os, socket, sys
for kind, folder, name, target in json.loads(sys.argv[1]):
  os.chdir(folder)
  if kind == "symlink": os.symlink(target, name)
  if kind == "dangling symlink": os.symlink(target + ".missing", name)
  if kind == "FIFO": os.mkfifo(name)
  if kind == "directory": os.mkdir(name)
  if kind == "device": os.mknod(name, 0o600 | 0o020000, os.makedev(1, 3))
  if kind == "socket": socket.socket(socket.AF_UNIX).bind(name)`;

/** By what a file is refused that no lock file can be: what an open says of it, or the look before that. */
const AT_PATH: Record<string, string[]> = {
  "symlink": ["ELOOP"],
  "dangling symlink": ["ELOOP"],
  "FIFO": ["EINVAL"],
  "directory": ["EISDIR"],
  "device": ["EINVAL"],
  "socket": ["ENXIO", "EINVAL"],
};
const BESIDE = (kind: string) => kind.endsWith("symlink") ? ["ELOOP"] : ["EINVAL"];
const AT_JOURNAL = BESIDE;

const DEAD = deadOwner();
const leaveDead = (path: string) => void leave(`${path}.pid`, DEAD);

type Outcomes = Record<"inspect" | "scan" | "auto" | "pidfile" | "history", { value: unknown; took: number }>;
/** What each call may come to. */
type Right = Partial<Record<keyof Outcomes, readonly unknown[]>>;

interface Spot {
  /** Which file, beside the lock at this path. */
  readonly file: (path: string) => string;
  readonly prepare?: (path: string) => void;
  readonly right: (kind: string) => Right;
}

const FINE: Right = { auto: [true], pidfile: [true], inspect: ["free"] };
/** Deno without FFI cannot know that the dead owner is dead. */
const TAKEN_OVER: Right = {
  auto: [true, false],
  pidfile: [true, false],
  inspect: ["stale", "unknown"],
  scan: ["stale", "unknown"],
};

const SPOTS: Record<string, Spot> = {
  "P": {
    file: (path) => path,
    right: (kind) => ({
      inspect: AT_PATH[kind],
      scan: [""],
      auto: AT_PATH[kind],
      pidfile: BESIDE(kind),
      history: [false],
    }),
  },
  "P.pid": {
    file: (path) => `${path}.pid`,
    right: (kind) => ({
      inspect: BESIDE(kind),
      scan: ["unknown"],
      auto: BESIDE(kind),
      pidfile: BESIDE(kind),
      history: [false],
    }),
  },
  "a link of a takeover": {
    file: (path) => `${path}.pid.${DEAD.nonce}`,
    prepare: leaveDead,
    right: (kind) => ({ ...TAKEN_OVER, pidfile: [...BESIDE(kind), false] }),
  },
  "an unfinished PID file": {
    file: (path) => `${path}.pid.tmp-${DEAD.pid}-${DEAD.nonce}`,
    prepare: leaveDead,
    right: () => TAKEN_OVER,
  },
  "the journal": {
    file: (path) => `${path}.journal`,
    right: (kind) => ({ ...FINE, history: AT_JOURNAL(kind) }),
  },
  "the old journal": {
    file: (path) => `${path}.journal.1`,
    // Full, so that it is to become the old one.
    prepare: (path) => writeFileSync(`${path}.journal`, `{"event":"","at":"","path":""}\n`.repeat(20_000)),
    right: (kind) => ({ ...FINE, history: AT_JOURNAL(kind) }),
  },
};

interface Cell {
  readonly what: string;
  readonly path: string;
  readonly target: string;
  readonly right: Right;
  /** Which file the path means; not the one that the text of the path would mean. */
  readonly means?: string;
}

/** A folder for each kind of file in each spot. */
function lay({ path: within }: Place, pidFile = false): Cell[] {
  const orders: string[][] = [];
  const cells = Object.entries(SPOTS).flatMap(([spot, { file, prepare, right }]) =>
    KINDS.map((kind): Cell => {
      const folder = within(`${spot}, ${kind}`);
      mkdirSync(folder);
      const [path, target] = [join(folder, "a.lock"), within(`target of ${spot}, ${kind}`)];
      writeFileSync(target, "precious\n");
      prepare?.(path);
      orders.push([kind, folder, basename(file(path)), target]);
      const expected = right(kind);
      const auto = pidFile ? expected.pidfile : expected.auto;
      return { what: `a ${kind} at ${spot}`, path, target, right: { ...expected, auto } };
    })
  );
  const [folder, target] = [within("up"), within("target of nothing")];
  mkdirSync(join(folder, "far", "deep"), { recursive: true });
  writeFileSync(target, "precious\n");
  orders.push(["symlink", folder, "way", "far/deep"]);
  execFileSync(command(PYTHON), ["-c", MAKE, JSON.stringify(orders)]);
  const [path, means] = [`${folder}/way/../a.lock`, join(folder, "far", "a.lock")];
  return [...cells, { what: '".." after a symlink', path, target, means, right: { ...FINE, history: [true] } }];
}

/** Inode, mode and times of each target, to the nanosecond. */
const targetsOf = (cells: readonly Cell[]): string[] =>
  execFileSync("stat", ["-c", "%i %a %x %y %z", ...cells.map(({ target }) => target)], { encoding: "utf8" }).split(
    "\n",
  );

/** What is wrong with a cell by now. */
function faults({ path, target, right, means }: Cell, outcomes: Outcomes, touched: boolean): string[] {
  const found: string[] = [];
  for (const [call, { value, took }] of Object.entries(outcomes)) {
    const expected = right[call as keyof Outcomes]; // the cast: those are its keys
    if (expected && !expected.includes(value)) found.push(`${call}: ${value}, and not ${expected}`);
    // A call that waits for the other end of a FIFO never comes back.
    if (took > 100_000 * SLOW) found.push(`${call}: ${took} ms`);
  }
  if (touched || readFileSync(target, "utf8") !== "precious\n") found.push("its target was opened, or written");
  if (existsSync(`${target}.missing`)) found.push("what the dangling link leads to was made");
  if (means && !existsSync(`${means}.journal`)) found.push(`it meant another file than ${means}`);
  return found.map((each) => `${each} (there is ${readdirSync(dirname(path)).join(" ")})`);
}

for (const set of SETS) {
  test(`tryAcquire(), inspect(), scan(), history() and the journal follow no symlink, and wait for no file: ${set.name}`, async (place) => {
    const cells = lay(place, set.pidFile);
    const { thread = "main", permissions, revoke } = set;
    const asked = { thread, permissions: permissions?.(place.dir), revoke, locks: cells.map(({ path }) => path) };
    const module = pathToFileURL(set.module?.() ?? here("../../mod.ts")).href;
    const [command, ...args] = [
      ...set.command(place.dir),
      here("../fixtures/hostile.mjs"),
      module,
      JSON.stringify(asked),
    ];
    const child = place.child(command, args);
    const before = targetsOf(cells);
    const outcomes: Outcomes[] = JSON.parse(await within(60_000, child.line()));
    const after = targetsOf(cells);
    const wrong = cells.flatMap((cell, i) =>
      faults(cell, outcomes[i], before[i] !== after[i]).map((fault) => `${cell.what}: ${fault}`)
    );
    assertEquals(wrong, []);
  });
}

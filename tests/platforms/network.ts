/**
 * Network file systems, each in a guest of its own (User-Mode Linux): server and
 * two mounts, as of two hosts. Two guests at a time, each with a time limit.
 *
 * For a trial: HOLDFAST_NETWORK_FILES has only these files of the suite, such as `lock;exit`, or none.
 */
import { spawn } from "node:child_process";
import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { delimiter, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { pack } from "../../tasks/pack.ts";
import { type Runner, RUNNERS } from "../support/runners.ts";
import { cache, deno, tool } from "../support/tools.ts";
import { AS_RUNNER, KINDS, type Outcome, OUTCOMES } from "./network/outcome.ts";
import { exclusionsFor, FILES, type NetworkPlace, PLACES } from "./network/places.ts";
import { type Group, isWanted, type Row } from "./row.ts";

/** A guest that takes longer is ended, in milliseconds. */
const LIMIT = 25 * 60_000;

/** Guests at a time: each has one processor. */
const GUESTS = 2;

/** How many times longer than on the host everything may take. */
const SLOW = "6";

const NAMES = { deno: "Deno", "deno-no-ffi": "Deno without FFI", bun: "Bun", node26: "Node 26" } as const;

/** What the guest's servers and mounts are, and Debian's packages with them. */
const NEEDS: Readonly<Record<NetworkPlace["server"], Readonly<Record<string, string>>>> = {
  nfs: { "rpc.nfsd": "nfs-kernel-server", "mount.nfs": "nfs-common", rpcbind: "rpcbind" },
  smb: { smbd: "samba", "mount.cifs": "cifs-utils" },
  "9p": { diod: "diod" },
};
const GUEST = { "linux.uml": "user-mode-linux", modprobe: "kmod", ip: "iproute2", taskset: "util-linux" };

const here = (file: string) => fileURLToPath(new URL(file, import.meta.url));

const folders = [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin", "/sbin"];
const isThere = (command: string) => folders.some((each) => existsSync(join(each, command)));

/** Why a place cannot be set up here. */
function missing({ server }: NetworkPlace): string | undefined {
  if (process.getuid?.() !== 0) return "only root can set it up";
  const needed = Object.entries({ ...GUEST, ...NEEDS[server] }).filter(([command]) => !isThere(command));
  const packages = needed.map(([, name]) => name).join(" ");
  return packages ? `apt-get install --no-install-recommends ${packages}` : undefined;
}

const notRun = ({ name }: NetworkPlace, why: string): Row[] =>
  KINDS.map((kind) => ({ place: name, runtime: NAMES[kind], passed: 0, failed: 0, notRun: why }));

/** All places, or those that are named. */
export const network: Group = async (circumstances) => {
  const { long, dir } = circumstances;
  const places = PLACES.filter(({ name }) => isWanted(name, circumstances));
  if (!long) return places.flatMap((place) => notRun(place, "long form only"));
  const reasons = places.map(missing);
  if (reasons.includes(undefined)) pack(); // Node 20's, which cannot run TypeScript
  const rows: Row[][] = [];
  const queue = places.entries();
  const work = async (processor: number) => {
    for (const [i, place] of queue) {
      const reason = reasons[i];
      rows[i] = reason === undefined ? await run(place, join(dir, String(i)), processor) : notRun(place, reason);
    }
  };
  await Promise.all(Array.from({ length: Math.min(GUESTS, availableParallelism()) }, (_, i) => work(i)));
  return rows.flat();
};

const filesFor = (runner: Runner): readonly string[] =>
  process.env.HOLDFAST_NETWORK_FILES?.split(";").filter((name) => name !== "") ?? FILES[runner];

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** One place: a guest from its start to its end. */
async function run(place: NetworkPlace, folder: string, processor: number): Promise<Row[]> {
  mkdirSync(folder, { recursive: true });
  const settings = {
    PLACE: place.name,
    SERVER: place.server,
    MOUNT: place.mount,
    EXPORT: place.exported ?? "",
    ...Object.fromEntries(RUNNERS.map((runner) => [`FILES_${runner}`, filesFor(runner).join(" ")])),
    GUEST: `${deno()} run -A --no-check --import-map=${here("../stand_in/import_map.json")}`,
    HOLDFAST_TEST_CACHE: cache,
    HOLDFAST_TEST_SLOW: SLOW,
    HOLDFAST_TEST_DENO: deno(),
    HOLDFAST_TEST_BUN: tool("bun"),
    HOLDFAST_TEST_NODE26: tool("node26"),
    HOLDFAST_TEST_NODE20: tool("node20"),
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name}=${quoted(value)}\n`);
  writeFileSync(join(folder, "settings.sh"), lines.join(""));
  const kernel = ["linux.uml", "mem=3G", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "quiet"];
  const guest = [`init=${here("network/guest.sh")}`, `HOLDFAST_GUEST=${folder}`, "con=null", "con0=fd:0,fd:1"];
  // On one processor: a guest is many processes that run in turns, and each turn would cost a wake-up of another.
  const pinned = ["taskset", "-c", String(processor)];
  // A PID namespace of its own: when its first process is killed, so is everything in it. That is a shell, for the
  // first process gets no signal that it does not handle, and the guest's kernel sends itself some.
  const inNamespace = ["unshare", "-pf", "--mount-proc", "--kill-child", "sh", "-c", '"$@"; exit $?', "sh"];
  const [command, ...args] = [...pinned, ...inNamespace, ...kernel, ...guest];
  const child = spawn(command, args, {
    stdio: ["ignore", "pipe", "pipe"],
    env: { PATH: process.env.PATH, HOME: process.env.HOME },
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text) => {
      said += text;
      appendFileSync(join(folder, "console.log"), text); // to be read while it runs
    });
  }
  let late: string | undefined;
  const timer = setTimeout(() => {
    late = `it was ended after ${LIMIT / 60_000} minutes`;
    child.kill("SIGKILL");
  }, LIMIT);
  const ended = await new Promise<string>((resolve) => {
    child.on("error", (error) => resolve(error.message));
    child.on("close", (code, signal) => resolve(late ?? `it ended with ${code ?? signal}`));
  });
  clearTimeout(timer);
  return rowsOf(place, folder, `${ended}: ${said.trim().split("\n").at(-1)?.trim()}`);
}

function outcomesIn(folder: string): Outcome[] {
  const file = join(folder, OUTCOMES);
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : [];
}

/** What the guest has left, as rows. What it did not come to has failed. */
function rowsOf(place: NetworkPlace, folder: string, ended: string): Row[] {
  const outcomes = outcomesIn(folder);
  return KINDS.map((kind) => {
    const head = { place: place.name, runtime: NAMES[kind] };
    const outcome = outcomes.find((each) => each.kind === kind);
    if (!outcome) return { ...head, passed: 0, failed: 1, remark: `the guest told nothing, and ${ended}` };
    const { passed, failed, failures, pending } = outcome;
    const wrong = [...failures];
    if (pending.length > 0) wrong.push(`not come to, because ${ended}: ${pending.join(", ")}`);
    if (wrong.length > 0) console.log(`${place.name}, ${NAMES[kind]}:\n${wrong.map((each) => `  ${each}\n`).join("")}`);
    const remarks = [place.remark, wrong.length > 0 ? `failed: ${wrong.join("; ")}` : undefined];
    return {
      ...head,
      passed,
      failed: failed + pending.length,
      notRun: notRunOf(place, AS_RUNNER[kind]),
      remark: remarks.filter((each) => each !== undefined).join("; ") || undefined,
    };
  });
}

function notRunOf(place: NetworkPlace, runner: Runner | undefined): string {
  if (!runner) return "the suite, which is run with -A";
  const reasons = Map.groupBy(exclusionsFor(place, runner), ({ why }) => why);
  const leftOut = [...reasons].map(([why, { length }]) => `${length} tests, because ${why}`);
  return [`the suite but for ${filesFor(runner).join(", ")}: a start takes seconds there`, ...leftOut].join("; ");
}

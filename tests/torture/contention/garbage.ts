/**
 * Thousands of takeovers with crashes, and what they leave in the directory.
 *
 * A process that really dies costs a tenth of a second of this machine, so most
 * dead owners are made for less: the holder puts, in one step, a record in the
 * place of its own that names a process that has died. To all others that is a
 * holder that released, and another that acquired and died. The rest are workers
 * killed with SIGKILL at random moments, while they do nothing but take over.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Kind } from "../../support/harness.ts";
import { Crew } from "./crew.ts";
import { type Dead, deadOwners } from "./dead.ts";
import type { Modules } from "./modules.ts";
import { Random } from "./random.ts";

const KINDS: readonly Kind[] = ["deno", "bun", "node26", "node20"];

/** Two names of which no file may be left: a takeover's and a publication's, whose makers are dead. */
const litter = (path: string, { pid, record }: Dead, random: Random) => {
  for (const name of [random.nonce(), `tmp-${pid}-${random.nonce()}`]) {
    writeFileSync(`${path}.pid.${name}`, `${pid}\n${JSON.stringify({ ...record, nonce: random.nonce() })}\n`);
  }
};

export interface GarbageResult {
  /** Takeovers from a record that names a reaped child. */
  readonly written: number;
  /** Takeovers from a worker that was killed while it held the lock. */
  readonly killed: number;
  /** All workers that were killed, wherever they stood. */
  readonly kills: number;
  /** The killed that left a takeover link, or a temporary file, of theirs. */
  readonly inTakeover: number;
  readonly publishing: number;
  readonly doubles: number;
  /** The most files that were seen in the directory at once. */
  readonly most: number;
  /** What it holds in the end, after one more acquisition and release. */
  readonly left: string[];
  readonly seconds: number;
  readonly failures: string[];
}

export async function runGarbage(
  modules: Modules,
  takeovers: number,
  seed: number,
  dir: string,
  kinds: readonly Kind[] = KINDS,
): Promise<GarbageResult> {
  const random = new Random(seed, 1e6);
  const [home, inside, spare] = ["home", "inside", "spare"].map((name) => join(dir, name));
  for (const folder of [home, inside, spare]) mkdirSync(folder, { recursive: true });
  const [path, log, stop] = [join(home, "lock"), join(dir, "log"), join(dir, "stop")];
  writeFileSync(log, "");
  const dead = await deadOwners(32);
  litter(path, dead[0], random); // whatever the kills leave or do not, there is some to be swept
  const args = { path, options: { backend: "pidfile" }, inside, dead, spare, log, stop, limit: 20_000 };
  const [victims, failures] = [new Set<number>(), [] as string[]];
  let kills = 0, inTakeover = 0, publishing = 0, most = 0;
  const began = performance.now();
  const crew = await Crew.start(kinds.map((kind) => ({ kind, modules, dir })));
  try {
    const work = (place: number) => {
      const worker = crew.workers[place];
      return worker.call("crash", args).then(
        (end) => end === "stopped" || failures.push(`${worker.recruit.kind} ${worker.pid}: ${end}`),
        (error) => victims.has(worker.pid) || failures.push(String(error)),
      );
    };
    const working = kinds.map((_, place) => work(place));
    // One real death in 50 at least, however fast the machine takes over.
    while (failures.length === 0 && (lines(log).length < takeovers || kills < takeovers / 50)) {
      await new Promise((resolve) => setTimeout(resolve, random.between(10, 150)));
      const place = random.below(kinds.length);
      if (crew.isDead(place)) continue;
      const { pid } = crew.workers[place];
      victims.add(pid);
      await crew.kill(place);
      kills++;
      const names = readdirSync(home);
      most = Math.max(most, names.length);
      const left = names.filter((name) => firstLine(join(home, name)) === String(pid));
      if (left.some((name) => /^lock\.pid\.(?!tmp-)/.test(name))) inTakeover++;
      else if (left.some((name) => name.startsWith("lock.pid.tmp-"))) publishing++;
      working[place] = crew.refill(place).then(() => work(place));
    }
    writeFileSync(stop, "");
    await Promise.all(working); // also of those who came in the place of a killed one
    const last = await crew.workers[0].call("round", { ...args, at: 0, hold: 0 });
    if (!last.entered || last.stale !== 1) failures.push(`the last takeover: ${JSON.stringify(last)}`);
  } finally {
    await crew.end();
  }
  const taken = lines(log);
  const isDead = new Set(dead.map(({ pid }) => pid));
  return {
    written: taken.filter(([stale]) => isDead.has(stale)).length,
    killed: taken.filter(([stale]) => victims.has(stale)).length,
    ...{ kills, inTakeover, publishing, most, failures },
    doubles: taken.filter(([, others]) => others > 0).length,
    left: readdirSync(home).sort(),
    seconds: (performance.now() - began) / 1000,
  };
}

const lines = (log: string) => readFileSync(log, "utf8").trim().split("\n").map((line) => line.split(" ").map(Number));

/** undefined where it is gone by now. */
const firstLine = (file: string) => {
  try {
    return existsSync(file) ? readFileSync(file, "latin1").split("\n")[0] : undefined;
  } catch {
    return undefined;
  }
};

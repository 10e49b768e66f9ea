/**
 * The same behaviours in every place that this machine can make: file systems,
 * mounts, a full disk, another user, two containers. Each is made in a mount
 * namespace of its own and is gone with it.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Lock } from "../../mod.ts";
import { type AgentOptions, type Kind, KINDS } from "../support/harness.ts";
import { asNobody } from "../support/pid_files.ts";
import type { Part } from "./part.ts";
import { inBytes } from "./places/bytes.ts";
import { betweenContainers } from "./places/containers.ts";
import { type Ground, GROUNDS } from "./places/grounds.ts";
import { Keeper } from "./places/keeper.ts";
import { compileLiar } from "./places/liar.ts";
import { Crew, type Site, Wrong } from "./places/site.ts";

/** What became of one place in one runtime. */
export interface Outcome {
  readonly place: string;
  readonly kind: Kind;
  /** It could not be tried, and why. */
  readonly untried?: string;
  /** By behaviour, what is wrong with it. */
  readonly behaviours: Readonly<Record<string, readonly string[]>>;
}

/** All the places. */
/** A descriptor that is left open prevents it. But a refused try keeps its file for a second. */
const UNMOUNT = 'for i in 1 2 3 4 5 6; do sleep 0.5; umount -R "$0" 2>/dev/null && exit; done; umount -R "$0"';

export const places: Part = async ({ seed, short, dir }) => {
  const kinds: readonly Kind[] = short ? ["deno", "bun"] : KINDS;
  const grounds = GROUNDS.filter((ground) => !short || ground.short);
  const liar = short ? "" : compileLiar(dir);
  const began = performance.now();
  const work = kinds.map(async (kind): Promise<Outcome[]> => {
    const folder = join(dir, kind);
    mkdirSync(folder);
    const found = await inPlaces(kind, grounds, folder, liar);
    return short ? found : [...found, ...await elsewhere(kind, folder)];
  });
  const outcomes = (await Promise.all(work)).flat();
  const failures = outcomes.flatMap(({ place, kind, behaviours }) =>
    Object.entries(behaviours).flatMap(([what, wrong]) => wrong.map((each) => `${place}, ${kind}, ${what}: ${each}`))
  );
  const loops = execFileSync("losetup", ["--list", "--noheadings", "--output", "BACK-FILE"], { encoding: "utf8" });
  if (loops.includes(dir)) failures.push(`a loop device was left: ${loops.trim()}`);
  return {
    title: "Places",
    notes: [
      `${Object.keys(GROUNDS[0].trials).join(", ")}: the behaviours of a place that can do everything, each against ` +
      "flock(1) or Python too; fewer where a place cannot. In the end each place is unmounted, which a descriptor " +
      "left open would prevent. " +
      `${((performance.now() - began) / 1000).toFixed()} s; nothing is random (seed ${seed}).`,
      ...(short ? ["The short form: the other places and runtimes are in the long one."] : LEFT_OUT),
    ],
    columns: ["place", ...kinds, "remarks"],
    rows: [...new Set(outcomes.map(({ place }) => place))].map((place) => [
      place,
      ...kinds.map((kind) => cell(outcomes.find((each) => each.place === place && each.kind === kind))),
      GROUNDS.find(({ name }) => name === place)?.remark ?? REMARKS[place] ?? "",
    ]),
    failures,
  };
};

const LEFT_OUT = [
  "Not tried: quotas (no file system here is mounted with them), NFS, SMB and 9p (a kernel with them has to be booted).",
];

/** What is no mount: two containers, and a name that is no text. */
async function elsewhere(kind: Kind, folder: string): Promise<Outcome[]> {
  const tries = { "two containers": betweenContainers, "a name that is not UTF-8": inBytes };
  const outcomes: Outcome[] = [];
  for (const [place, trial] of Object.entries(tries)) {
    const wrong = new Wrong();
    await catching(wrong, () => trial(kind, folder, wrong));
    outcomes.push({ place, kind, behaviours: { [place]: wrong.sentences } });
  }
  return outcomes;
}

/** Of the places that are no mounts. */
const REMARKS: Readonly<Record<string, string>> = {
  "two containers": "by PID file: an owner in the other one is unknown, and so held, also when it is gone",
  "a name that is not UTF-8": "as the current directory: a path that begins there is refused",
};

function cell(outcome: Outcome | undefined): string {
  if (!outcome) return "not run";
  if (outcome.untried !== undefined) return `not tried: ${outcome.untried}`;
  const all = Object.entries(outcome.behaviours);
  const bad = all.filter(([, wrong]) => wrong.length > 0).map(([what]) => what);
  return bad.length === 0
    ? `${all.length} of ${all.length}`
    : `${all.length - bad.length} of ${all.length}, not ${bad.join(", ")}`;
}

/** Every place, one after the other, in one runtime. `under`: what its agents are run under, such as strace. */
export async function inPlaces(
  kind: Kind,
  grounds: readonly Ground[],
  dir: string,
  liar: string,
  under: readonly string[] = [],
): Promise<Outcome[]> {
  const keeper = new Keeper(dir);
  const crews: Crew[] = [];
  const crewOf = (options: AgentOptions): { crew: Crew; agents?: [Site["a"], Site["b"]] } => {
    const crew = new Crew(kind, { ...options, by: [...keeper.by, ...options.by ?? []], allow: dir }, under);
    crews.push(crew);
    return { crew };
  };
  const made = { root: crewOf({}), nobody: crewOf(asNobody()) };
  const outcomes: Outcome[] = [];
  try {
    for (const [i, ground] of grounds.entries()) {
      const at = join(dir, String(i));
      mkdirSync(at);
      const place = { place: ground.name, kind };
      const untried = await keeper.run(`LIAR='${liar}'\n${ground.make}`, at);
      if (untried !== undefined) {
        outcomes.push({ ...place, untried, behaviours: {} });
        continue;
      }
      const team = ground.nobody ? made.nobody : made.root;
      team.agents ??= [await team.crew.agent(), await team.crew.agent()];
      const folder = ground.folder === undefined ? at : `${at}/${ground.folder}`;
      const [a, b] = team.agents;
      const site = { crew: team.crew, a, b, folder, seen: keeper.seen(folder), remote: ground.remote };
      const behaviours = await withSettings(ground.settings ?? {}, () => tried(ground, site));
      if (typeof behaviours === "string") {
        outcomes.push({ ...place, untried: behaviours, behaviours: {} });
        continue;
      }
      const well = Object.values(behaviours).every((wrong) => wrong.length === 0) && !ground.lies; // or locks are left held
      await team.crew.end(a, b, ...(well && team.crew.python ? [team.crew.python] : []));
      const busy = await keeper.run(well ? UNMOUNT : 'umount -Rl "$0"', at);
      outcomes.push({ ...place, behaviours: { ...behaviours, unmount: busy === undefined ? [] : [busy] } });
    }
  } finally {
    for (const crew of crews) await crew.end();
    await keeper.end();
  }
  return outcomes;
}

async function tried(ground: Ground, site: Site): Promise<Record<string, string[]>> {
  const behaviours: Record<string, string[]> = {};
  for (const [what, trial] of Object.entries(ground.doubted?.[site.crew.kind] ?? ground.trials)) {
    const wrong = new Wrong();
    await catching(wrong, () => trial(site, wrong));
    behaviours[what] = wrong.sentences;
  }
  const { lies } = ground;
  if (!lies) return behaviours;
  // What finds nothing wrong where everything is, is no trial.
  const blind = lies.filter((what) => behaviours[what]?.length === 0);
  return { "found out": blind.map((what) => `${what} found nothing wrong where every flock(2) lies`) };
}

async function catching(wrong: Wrong, fn: () => Promise<void>): Promise<void> {
  try {
    await fn();
  } catch (error) {
    wrong.sentences.push(String(error).split("\n")[0]);
  }
}

/** Does something while kernel settings are as they must be; why it could not, if so. */
async function withSettings<T>(settings: Readonly<Record<string, string>>, fn: () => Promise<T>): Promise<T | string> {
  if (Object.keys(settings).length === 0) return await fn();
  // One for the machine: files_rights_test.ts sets one of them too, under the same lock.
  const lock = new Lock(join(tmpdir(), "holdfast-test-protected_regular.lock"), { onStale: () => {} });
  return await lock.run(async () => {
    const before = new Map<string, string>();
    try {
      for (const [name, value] of Object.entries(settings)) {
        const file = `/proc/sys/${name}`;
        const old = readFileSync(file, "utf8").trim();
        if (old === value) continue;
        writeFileSync(file, value);
        before.set(file, old);
      }
      return await fn();
    } catch (error) {
      return String(error);
    } finally {
      for (const [file, old] of before) writeFileSync(file, old);
    }
  });
}

/**
 * In the guest: the checks, then the suite in each runtime, then the soft mount.
 * What has come of it stands in the folder at every moment, for a guest can hang.
 *
 *   guest.ts FOLDER    with PLACE and the runtimes' paths in the environment
 */
import { appendFileSync, closeSync, fsyncSync, mkdirSync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import process from "node:process";
import { Agent, type Kind } from "../../support/harness.ts";
import { runTests } from "../../support/runners.ts";
import { checksFor } from "./checks.ts";
import { exclusionsFor, type NetworkPlace, PLACES } from "./places.ts";
import { onStoppedServer } from "./soft.ts";
import { AS_RUNNER, KINDS, type Outcome, OUTCOMES, SOFT, SUITE } from "./outcome.ts";

const folder = process.argv[2];
const place = PLACES.find(({ name }) => name === process.env.PLACE);
if (!place) throw new Error(`there is no place ${process.env.PLACE}`);

/** So long the suite may take in one runtime, in milliseconds. */
const LIMIT = 8 * 60_000;

const filesFor = (kind: Kind): string[] =>
  (process.env[`FILES_${AS_RUNNER[kind]}`] ?? "").split(" ").filter((name) => name !== "")
    .map((name) => `tests/${name}_test.ts`);

const outcomes = new Map<Kind, Outcome>();
for (const kind of KINDS) {
  const pending = [
    ...Object.keys(checksFor(place, kind)),
    ...filesFor(kind).length > 0 ? [SUITE] : [],
    ...place.soft ? [SOFT] : [],
  ];
  outcomes.set(kind, { kind, passed: 0, failures: [], failed: 0, skipped: 0, pending, seconds: 0 });
}

/** Writes down what is known by now, through to the host. */
function save(): void {
  const file = openSync(`${folder}/${OUTCOMES}.new`, "w");
  writeSync(file, JSON.stringify([...outcomes.values()]));
  fsyncSync(file);
  closeSync(file);
  renameSync(`${folder}/${OUTCOMES}.new`, `${folder}/${OUTCOMES}`); // whole or not at all
}

function done(
  kind: Kind,
  what: string,
  { passed = 0, skipped = 0, failed = 0, failures = [], seconds = 0 }: Partial<Outcome>,
) {
  const before = outcomes.get(kind)!; // `!`: there is one of each kind
  outcomes.set(kind, {
    kind,
    passed: before.passed + passed,
    failed: before.failed + failed,
    skipped: before.skipped + skipped,
    seconds: before.seconds + seconds,
    failures: [...before.failures, ...failures],
    pending: before.pending.filter((each) => each !== what),
  });
  save();
}

const said = (kind: Kind, what: string, wrong: string | undefined) => {
  console.log(`${wrong === undefined ? "ok" : "FAILED"} ${kind}: ${what}${wrong === undefined ? "" : `: ${wrong}`}`);
  done(kind, what, wrong === undefined ? { passed: 1 } : { failed: 1, failures: [`${what}: ${wrong.split("\n")[0]}`] });
};

/** So long a check may take, in milliseconds. */
const PATIENCE = 180_000;

async function check(place: NetworkPlace, kind: Kind): Promise<void> {
  // A start takes seconds here: those that a check leaves alive are the next one's.
  const crew: Agent[] = [];
  const start = () => Agent.start(kind, { allow: "/m" });
  let number = 0;
  for (const [what, run] of Object.entries(checksFor(place, kind))) {
    const name = `checks/${kind}-${number++}.lock`;
    const passing: Agent[] = [];
    let next = 0;
    const agent = async () => crew[next++] ??= await start().ready();
    const fresh = async () => {
      const started = start();
      passing.push(started);
      return await started.ready();
    };
    let wrong: string | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`not done within ${PATIENCE} ms`)), PATIENCE);
    });
    try {
      await Promise.race([run({ place, kind, agent, fresh, one: `/m/one/${name}`, two: `/m/two/${name}` }), late]);
    } catch (error) {
      wrong = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    }
    clearTimeout(timer);
    if (wrong !== undefined) passing.push(...crew.splice(0)); // they may be in the middle of something
    for (const each of passing) await each.kill();
    said(kind, what, wrong);
  }
  for (const each of crew) await each.kill();
}

save();
mkdirSync("/m/one/checks", { mode: 0o755 });
for (const kind of KINDS) await check(place, kind);
rmSync("/m/one/checks", { recursive: true });
for (const kind of KINDS) {
  const [runner, files] = [AS_RUNNER[kind], filesFor(kind)];
  if (!runner || files.length === 0) continue;
  const began = performance.now();
  const counted = await runTests(runner, {
    files,
    skip: exclusionsFor(place, runner).map(({ test }) => test),
    limit: LIMIT,
    env: { HOLDFAST_TEST_DIR: "/m/one" },
    onOutput: (text) => appendFileSync(`${folder}/${kind}.log`, text),
  });
  const seconds = Math.round((performance.now() - began) / 1000);
  const skipped = counted.left + counted.skips.length;
  console.log(
    `the suite in ${kind}: ${counted.passed} passed, ${counted.failed} failed, ${skipped} left out, ${seconds} s`,
  );
  for (const name of counted.failures) console.log(`  failed: ${name}`);
  done(kind, SUITE, { ...counted, skipped, seconds });
}
if (place.soft) {
  const results = await onStoppedServer(KINDS).catch((error) => new Map(KINDS.map((kind) => [kind, String(error)])));
  for (const kind of KINDS) said(kind, SOFT, results.has(kind) ? results.get(kind) : "no answer");
}
process.exit(0); // what hangs in the kernel keeps nobody waiting

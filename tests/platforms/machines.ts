/**
 * The behaviour suite on another C library (musl) and another processor (arm64,
 * in qemu-user): their calling conventions and library names. The kernel, and so
 * the lock, is this machine's.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { repository, runTests } from "../support/runners.ts";
import { bunOnArm64, bunOnMusl, denoOnArm64, type Machine } from "./machines/machines.ts";
import { type Circumstances, type Group, isWanted, type Row } from "./row.ts";
import { excluded, type Exclusion } from "./suite.ts";

const ALL = readdirSync(join(repository, "tests")).filter((name) => name.endsWith("_test.ts")).sort();

/** A machine, and what of the suite is run there. */
interface Tried {
  readonly place: string;
  readonly runtime: string;
  readonly setUp: () => Machine;
  readonly files: readonly string[];
  /** So many files at once; one unless given. */
  readonly lanes?: number;
  /** By the files that they are in. */
  readonly exclusions?: Readonly<Record<string, readonly Exclusion[]>>;
}

/** A process that locks takes Deno in qemu 10 to 30 s to start: these files take an hour, and so do all others. */
const QUICKER = [
  ...["again_test.ts", "deadlock_test.ts", "descriptor_test.ts", "exit_test.ts", "layout_test.ts", "leased_test.ts"],
  ...["lock_test.ts", "options_errors_test.ts", "owner_test.ts", "paths_test.ts", "pidfile_test.ts", "record_test.ts"],
  ...["reenter_test.ts", "reentrant_test.ts", "refusal_test.ts", "shared_test.ts", "sys_test.ts", "sys_errno_test.ts"],
  ...["wait_test.ts", "waiting_abort_test.ts", "within_test.ts"],
];

const BUSY = "an emulator of a processor uses the processor also for next to nothing";
const EMULATED: Tried["exclusions"] = {
  "sync_wait_test.ts": ["acquireSync()", "acquire()"].flatMap((name) => [
    { test: `${name} uses next to nothing of the processor`, why: BUSY },
    { test: `${name} in a Worker waits without spinning`, why: BUSY },
  ]),
};

const TRIED: readonly Tried[] = [
  { place: "musl x86-64", runtime: "Bun", setUp: bunOnMusl, files: ALL },
  {
    place: "arm64 (qemu-user)",
    runtime: "Bun",
    setUp: bunOnArm64,
    files: ALL,
    exclusions: EMULATED,
  },
  {
    place: "arm64 (qemu-user), half of the files",
    runtime: "Deno",
    setUp: denoOnArm64,
    files: QUICKER,
    lanes: 2,
  },
  {
    place: "arm64 (qemu-user), the other half",
    runtime: "Deno",
    setUp: denoOnArm64,
    files: ALL.filter((file) => !QUICKER.includes(file)),
    lanes: 2,
    exclusions: EMULATED,
  },
];

/** Minutes, for one file of tests. */
const PATIENCE = 30;

export const machines: Group = async (circumstances) => {
  const rows: Row[] = [];
  for (const each of TRIED.filter(({ place, runtime }) => isWanted(`${place}, ${runtime}`, circumstances))) {
    rows.push(await run(each, circumstances));
  }
  return rows;
};

async function run(tried: Tried, { long }: Circumstances): Promise<Row> {
  const { place, runtime, setUp, files, lanes = 1, exclusions = {} } = tried;
  const row = { place, runtime, passed: 0, failed: 0 };
  if (!long) return { ...row, notRun: "in the long form only" };
  let machine: Machine;
  try {
    machine = setUp();
  } catch (error) {
    return { ...row, notRun: String(error).split("\n")[0] };
  }
  const { runtime: runner, binary, by, env } = machine;
  const failures: string[] = [];
  const queue = [...files];
  const work = async () => {
    for (let file; (file = queue.shift());) await runFile(file);
  };
  const runFile = async (file: string) => {
    const skip = (exclusions[file] ?? []).map(({ test }) => test);
    const limit = PATIENCE * 60_000;
    const result = await runTests(runner, { files: [`tests/${file}`], binary, by, env, skip, limit });
    row.passed += result.passed;
    row.failed += result.failed;
    failures.push(...result.failures);
    console.error(`${place}, ${runtime}: ${file}: ${result.passed} passed, ${result.failed} failed`);
    if (result.failed > 0) console.error(result.output);
  };
  await Promise.all(Array.from({ length: lanes }, work));
  return {
    ...row,
    notRun: excluded(Object.values(exclusions).flat()),
    remark: failures.length > 0 ? `failed: ${failures.join("; ")}` : undefined,
  };
}

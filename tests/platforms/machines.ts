/**
 * The behaviour suite on another C library (musl) and another processor (arm64,
 * in qemu-user): their calling conventions and library names. The kernel, and so
 * the lock, is this machine's.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { repository, runTests } from "../runners.ts";
import { bunOnArm64, bunOnMusl, denoOnArm64, type Machine } from "./machines/machines.ts";
import type { Group, Row } from "./row.ts";
import type { Exclusion } from "./suite.ts";

const ALL = readdirSync(join(repository, "tests")).filter((name) => name.endsWith("_test.ts")).sort();

/** A machine, and what of the suite is run there. */
interface Tried {
  readonly place: string;
  readonly runtime: string;
  readonly setUp: () => Machine;
  readonly files: readonly string[];
  /** Why not all of them. */
  readonly why?: string;
  readonly exclusions?: readonly Exclusion[];
}

/** Every C call, and what a lock does at all. */
const CORE = ["sys_test.ts", "sys_errno_test.ts", "lock_test.ts", "again_test.ts", "shared_test.ts", "leased_test.ts"];

const TRIED: readonly Tried[] = [
  { place: "musl x86-64", runtime: "Bun", setUp: bunOnMusl, files: ALL },
  { place: "arm64 (qemu-user)", runtime: "Bun", setUp: bunOnArm64, files: ALL },
  {
    place: "arm64 (qemu-user)",
    runtime: "Deno",
    setUp: denoOnArm64,
    files: CORE,
    why: "a process that locks takes 10 to 30 s to start there",
  },
];

/** Minutes, for one file of tests. */
const PATIENCE = 15;

async function run({ place, runtime, setUp, files, why, exclusions = [] }: Tried): Promise<Row> {
  const row = { place, runtime };
  let machine: Machine;
  try {
    machine = setUp();
  } catch (error) {
    return { ...row, passed: 0, failed: 0, notRun: String(error).split("\n")[0] };
  }
  const { runtime: runner, binary, by, env } = machine;
  const skipped = exclusions.map(({ test }) => test);
  let passed = 0, failed = 0;
  const failures: string[] = [];
  for (const file of files) {
    const skip = skipped.filter((name) => name.startsWith(file));
    const result = await runTests(runner, {
      files: [`tests/${file}`],
      binary,
      by,
      env,
      skip,
      limit: PATIENCE * 60_000,
    });
    passed += result.passed;
    failed += result.failed;
    failures.push(...result.failures);
    console.error(`${place}, ${runtime}: ${file}: ${result.passed} passed, ${result.failed} failed`);
    if (result.failed > 0) console.error(result.output);
  }
  const left = files.length < ALL.length
    ? `${ALL.length - files.length} of ${ALL.length} files of tests: ${why}`
    : undefined;
  return { ...row, passed, failed, notRun: left, remark: failures.length > 0 ? failures.join("; ") : undefined };
}

export const machines: Group = async ({ long }) => {
  const rows: Row[] = [];
  for (const each of TRIED) {
    const { place, runtime } = each;
    rows.push(long ? await run(each) : { place, runtime, passed: 0, failed: 0, notRun: "in the long form only" });
  }
  return rows;
};

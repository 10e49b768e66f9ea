/**
 * The project's own tests on another C library (musl) and another processor
 * (arm64, in qemu-user), where those can be had: their calling conventions and
 * library names. The kernel, and so the lock, is this machine's.
 */
import { readdirSync } from "node:fs";
import { bunOnArm64, bunOnMusl, denoOnArm64, type Machine } from "./emulated/machines.ts";
import { type Count, repository, runTests } from "../runners.ts";
import type { Part, Section } from "./part.ts";

const ALL = readdirSync(`${repository}tests`).filter((name) => name.endsWith("_test.ts"));

/** Every C call, and the errors' names. */
const CALLS = ["sys_test.ts", "sys_errno_test.ts"];

/**
 * What qemu has the time for: what a lock does at all. Not the files that promise an answer within 100 ms, nor those
 * whose children must be of the runtime's own processor.
 */
const CORE = [...CALLS, "lock_test.ts", "shared_test.ts"];

/** What does not take long on musl, which runs at full speed, but with children that are started through a loader. */
const MOST = [
  ...[...CORE, "again_test.ts", "deadlock_test.ts", "death_test.ts", "descriptor_test.ts", "exit_test.ts"],
  ...["files_lost_test.ts", "inspect_test.ts", "options_test.ts", "owner_test.ts", "pidfile_test.ts", "record_test.ts"],
  ...["refusal_test.ts", "wait_test.ts", "waiting_test.ts"],
];

/** A file that takes longer has failed: 20 times what it takes on a quiet machine. */
const LIMIT = 150_000;

/** The tests, on each. */
export const emulated: Part = async ({ short }) => {
  const notes = ["The kernel is this machine's own; only the processor and the C library are others."];
  const section = { title: "Other processors, other C libraries", columns: ["machine", "files", "passed", "failed"] };
  if (short) return { ...section, notes: [...notes, "In the long form only."], rows: [], failures: [] };
  const rows: string[][] = [];
  const failures: string[] = [];
  const tried = [[bunOnMusl, MOST], [bunOnArm64, CORE], [denoOnArm64, CALLS]] as const;
  notes.push("Not run on Deno for arm64: what starts agents. One takes over 100 s to start in qemu here.");
  for (const [setUp, files] of tried) {
    let machine: Machine;
    try {
      machine = setUp();
    } catch (error) {
      notes.push(`Not run: ${setUp.name}: ${String(error).split("\n")[0]}`);
      continue;
    }
    const { name, runtime, binary, by, env } = machine;
    const results: Count[] = [];
    for (const file of files) {
      const result = await runTests(runtime, { files: [`tests/${file}`], binary, by, env, limit: LIMIT });
      results.push(result);
      if (result.failed > 0) failures.push(`${name}: ${file}: ${result.failures.join("; ")}`);
    }
    const sum = (what: "passed" | "failed") => String(results.reduce((all, each) => all + each[what], 0));
    rows.push([machine.name, `${files.length} of ${ALL.length}`, sum("passed"), sum("failed")]);
  }
  notes.push("Not run: Node on either, Deno on musl (there is none), Alpine, and a processor of that kind itself.");
  return { ...section, notes, rows, failures } satisfies Section;
};

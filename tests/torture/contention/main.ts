/**
 * `deno task contention`: contenders, crashes and takeovers, for minutes. Prints
 * one table, and fails if anything is not as it must be.
 *
 *   main.ts [--rounds 500] [--seconds 60] [--takeovers 10000] [--seed N]
 *           [--only rounds,mutants,peers,mixed,garbage,loop] [--report]
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { fileURLToPath } from "node:url";
import type { Kind } from "../../support/harness.ts";
import { runGarbage } from "./garbage.ts";
import { runLoop, runMixed } from "./long.ts";
import { fingerprint, type Modules, mutantModules, naiveModules, ownModules, peerModules } from "./modules.ts";
import { circumstances, garbageRow, loopRow, mixedRow, roundsRow, type Row, table } from "./report.ts";
import { MIX, MUTANT_MIX, runRounds } from "./rounds.ts";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "500" },
    seconds: { type: "string", default: "60" },
    takeovers: { type: "string", default: "10000" },
    seed: { type: "string", default: String(Math.floor(Math.random() * 2 ** 31)) },
    only: { type: "string", default: "rounds,mutants,peers,mixed,garbage,loop" },
    report: { type: "boolean", default: false },
  },
});
const [rounds, seconds, takeovers, seed] = [values.rounds, values.seconds, values.takeovers, values.seed].map(Number);
if (![rounds, seconds, takeovers, seed].every((n) => Number.isInteger(n) && n >= 0)) {
  throw new RangeError("--rounds, --seconds, --takeovers and --seed are whole numbers");
}
const wanted = new Set(values.only.split(","));
console.log(`seed ${seed}`);

const dir = mkdtempSync(join(process.env.HOLDFAST_TEST_DIR ?? tmpdir(), "holdfast-contention-"));
let folders = 0;
const folder = () => {
  const path = join(dir, String(folders++));
  mkdirSync(path);
  return path;
};
const rows: Row[] = [];
const add = (row: Row, failures: readonly string[] = []) => {
  rows.push(row);
  console.log(`${row.what}: ${row.done} → ${row.found}`);
  if (row.good === false) console.log(failures.slice(0, 50).join("\n"));
};

async function contend(
  name: string,
  modules: Modules,
  kinds: readonly Kind[],
  expected: Parameters<typeof roundsRow>[1],
  count = rounds,
): Promise<void> {
  const recruits = kinds.map((kind) => ({ kind, modules, dir }));
  const limit = modules.lock === "holdfast" ? 20_000 : 4_000;
  const result = await runRounds({ name, recruits, rounds: count, seed, dir: folder(), limit });
  add(roundsRow(result, expected), result.failures);
}

/** A part that throws is a line of the table too, and the others are run all the same. */
async function part(name: string, run: () => Promise<void>): Promise<void> {
  if (!wanted.has(name)) return;
  try {
    await run();
  } catch (error) {
    add({ what: name, done: "broke off", found: String(error).split("\n")[0], good: false }, [String(error)]);
  }
}

try {
  // All at once, so that nobody's edit of src/ in the middle of the run comes between them.
  const own = ownModules(folder());
  const mutants = new Map<string, Modules>();
  await part("mutants", () => {
    for (const name of ["unlink and recreate", "no second read"]) mutants.set(name, mutantModules(name, folder()));
    return Promise.resolve();
  });
  const head = circumstances(seed, fingerprint(own.folder));
  await part("rounds", () => contend("**holdfast**, PID file", own, MIX, "nothing"));
  await part("mixed", async () => add(mixedRow(await runMixed(own, seconds, folder()), seconds)));
  await part("garbage", async () => {
    const result = await runGarbage(own, takeovers, seed, folder());
    add(garbageRow(result), result.failures);
  });
  await part("loop", async () => {
    for (const backend of ["flock", "pidfile"] as const) {
      add(loopRow(backend, await runLoop(own, backend, 10, folder()), 10));
    }
  });
  await part("mutants", async () => {
    const few = Math.max(20, Math.ceil(rounds / 5)); // fewer may all go well
    for (const [name, modules] of mutants) await contend(`mutant: ${name}`, modules, MUTANT_MIX, "doubles", few);
    await contend("naive lock", naiveModules, MIX, "doubles", few);
  });
  await part("peers", async () => {
    for (const name of ["proper-lockfile", "pidlockfile"] as const) {
      await contend(name, peerModules(name), Array<Kind>(8).fill("node26"), "anything");
    }
  });
  const text = `# Contention\n\nWritten by \`deno task contention --report\`.\n\n${head}\n\n${
    table(rows)
  }\n\n${notes()}`;
  console.log(`\n${text}`);
  if (values.report) {
    // Formatted, its table would get lines of 400 blanks.
    const file = fileURLToPath(new URL("REPORT.md", import.meta.url));
    writeFileSync(file, `<!-- deno-fmt-ignore-file -->\n\n${text}`);
  }
} finally {
  rmSync(dir, { recursive: true, force: true });
}
process.exit(rows.some(({ good }) => good === false) ? 1 : 0);

function notes(): string {
  return `- Contenders of the rounds: ${MIX.join(", ")}; the mutants': ${
    MUTANT_MIX.join(", ")
  } (a mutant is not compiled, ` +
    `so not Node 20); the peers': eight node26. Deno without FFI is not among them: it cannot judge a PID, so a dead ` +
    `owner's file is held for ever there; it takes part in the mixed run, by the kernel.
- Two inside: every holder puts a file into a folder of its own making and looks who else alive has one there.
- Rounds with two inside are counted once, however many were inside. Failed calls: releases and acquisitions that threw.
- A contender whose acquisition threw counts as never in; proper-lockfile throws ENOENT where two take over at once.
- A killed holder of proper-lockfile is waited for, 2 s; that is its shortest \`stale\`.
`;
}

/** Part 6: what an import and a first lock cost, and how large the package is. */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { command, type Crew, type Runtime, RUNTIMES } from "./crew.ts";
import { median, short } from "./numbers.ts";
import type { Part, Row, Verdict } from "./part.ts";
import { packageSize, SIZE_LIMIT } from "./size.ts";

/** Milliseconds above the script before. */
const LIMITS = { import: 3, lock: 10 };

const SCRIPTS = {
  empty: () => "",
  import: (module: string) => `import { Lock } from "${module}"; void Lock;`,
  lock: (module: string, path: string) =>
    `import { Lock } from "${module}"; const lock = new Lock(${JSON.stringify(path)});\n` +
    `if (!lock.tryAcquire()) throw new Error("held"); lock.release();`,
};
type Script = keyof typeof SCRIPTS;
const NAMES: readonly Script[] = ["empty", "import", "lock"];

export const importCostPart: Part = ({ crew, quick, dir }) => {
  const times = starts(crew, quick ? 5 : 20, dir);
  const size = packageSize(dir);
  const rows = RUNTIMES.flatMap((runtime) => rowsOf(runtime, times.get(runtime)!)); // `!`: each was started
  return Promise.resolve({
    title: "Import, first lock, size",
    notes: [
      "Whole processes, started in turns: an empty script, one that imports holdfast, one that also takes a first lock " +
      "and gives it back. Bun and Node run the package as npm users have it, Deno the source.",
      `The package, everything that mod.ts can load, minified by bun build and gzip -9: ${size} bytes.`,
    ],
    rows,
    verdicts: [
      ...RUNTIMES.filter((runtime) => runtime !== "Deno, no FFI").flatMap((runtime) =>
        verdicts(runtime, times.get(runtime)!) // `!`: as above
      ),
      {
        claim: `6: under ${SIZE_LIMIT} bytes minified and gzipped, command line not counted`,
        found: `${size} bytes`,
        met: size < SIZE_LIMIT,
      },
    ],
  });
};

type Times = Record<Script, number[]>;

function starts(crew: Crew, rounds: number, dir: string): Map<Runtime, Times> {
  const all = RUNTIMES.map((runtime) => ({
    times: { empty: [], import: [], lock: [] } as Times, // the cast: empty lists of numbers
    argv: (script: Script) => [...command(runtime), join(dir, `${script}-${runtime}.mjs`.replaceAll(/[ ,]/g, ""))],
    runtime,
  }));
  for (const { runtime, argv } of all) {
    for (const script of NAMES) {
      writeFileSync(argv(script).at(-1)!, SCRIPTS[script](crew.module(runtime), join(dir, "first.lock"))); // `!`: not empty
    }
  }
  for (let round = -1; round < rounds; round++) { // the first fills the caches
    for (const { argv, times } of all) {
      for (const script of NAMES) {
        const [program, ...args] = argv(script);
        const from = performance.now();
        const { status, stderr } = spawnSync(program, args, {
          env: { ...process.env, NO_COLOR: "1" },
          encoding: "utf8",
        });
        if (status !== 0) throw new Error(`${args.join(" ")} ended with ${status}: ${stderr}`);
        if (round >= 0) times[script].push(performance.now() - from);
      }
    }
  }
  return new Map(all.map(({ runtime, times }) => [runtime, times]));
}

/** The middle one of the differences of each round. */
const above = (more: number[], less: number[]) => median(more.map((each, i) => each - less[i]));

function rowsOf(runtime: Runtime, times: Times): Row[] {
  const row = (script: Script, before: Script, what: string): Row => ({
    key: `6 ${runtime}: ${script}`,
    what,
    who: `holdfast, ${runtime}`,
    ours: true,
    to: "an empty script",
    ratio: median(times[script].map((each, i) => each / times.empty[i])),
    figure: `${short(above(times[script], times[before]))} ms above (${short(median(times[before]))} ms)`,
  });
  return [row("import", "empty", "import"), row("lock", "import", "import and first lock")];
}

function verdicts(runtime: Runtime, times: Times): Verdict[] {
  const [first, then] = [above(times.import, times.empty), above(times.lock, times.import)];
  return [
    {
      claim: `6: import under ${LIMITS.import} ms above an empty script in ${runtime}`,
      found: `${short(first)} ms`,
      met: first < LIMITS.import,
    },
    {
      claim: `6: first lock under ${LIMITS.lock} ms above that in ${runtime}`,
      found: `${short(then)} ms`,
      met: then < LIMITS.lock,
    },
  ];
}

/**
 * How a runtime's test runner is called on some files of the tests, how its
 * output is counted, and a run of it that leaves no process behind.
 */
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";
import { stripVTControlCharacters } from "node:util";
import { cache, deno, tool } from "./tools.ts";

/** Where the runners are to be called. */
export const repository: string = fileURLToPath(new URL("../../", import.meta.url));

export const RUNNERS = ["deno", "bun", "node"] as const;
export type Runner = typeof RUNNERS[number];

/** What is run, and by which program. */
export interface Choice {
  /** From the repository, such as `tests/lock_test.ts`. */
  readonly files: readonly string[];
  /** The runtime, where it is not this machine's own. */
  readonly binary?: string;
  /** Further options of the runner. Deno's are, unless given, those that make our stand-in take the place of JSR. */
  readonly flags?: readonly string[];
}

/** The command that runs these files, each after the other. */
export function runner(kind: Runner, { files, binary, flags }: Choice): { command: string; args: string[] } {
  switch (kind) {
    case "deno": {
      const more = flags ?? ["--import-map=tests/stand_in/import_map.json"];
      return { command: binary ?? deno(), args: ["test", "-A", "--no-check", ...more, ...files] };
    }
    case "bun":
      return { command: binary ?? tool("bun"), args: ["test", ...flags ?? [], ...files.map((file) => `./${file}`)] };
    case "node": {
      const args = ["--disable-warning=ExperimentalWarning", "--import", "./tests/stand_in/node.mjs", "--test"];
      // In one process, which keeps its agents from file to file.
      const how = ["--test-isolation=none", "--test-reporter=spec", ...flags ?? []];
      return { command: binary ?? tool("node26"), args: [...args, ...how, ...files] };
    }
  }
}

/** A test that was skipped because something is missing on this machine. */
export interface Skip {
  readonly name: string;
  /** What it needs. */
  readonly needs: string;
  /** The Debian packages that have it, if any do. */
  readonly packages: readonly string[];
}

/** What a run said of its tests. */
export interface Count {
  readonly passed: number;
  /** At least 1 if it is `broken`. */
  readonly failed: number;
  /** Those that were left out by their names; see {@linkcode Circumstances.skip}. */
  readonly left: number;
  /** Those that need what is not there; see needs.ts. */
  readonly skips: readonly Skip[];
  /** The names of those that failed, and why the run is broken. */
  readonly failures: readonly string[];
  /** It ended badly without a failure, or said nothing that can be counted. */
  readonly broken?: string;
}

/** Finds the number of passed, failed and skipped tests, and the names of failed ones. */
interface Words {
  readonly passed: RegExp;
  readonly failed: RegExp;
  readonly skipped: RegExp;
  readonly name: RegExp;
}

const WORDS: Readonly<Record<Runner, Words>> = {
  deno: {
    passed: /^(?:ok|FAILED) \| (\d+) passed/m,
    failed: /^(?:ok|FAILED) \| .*?\| (\d+) failed/m,
    skipped: /^(?:ok|FAILED) \| .*?\| (\d+) ignored/m,
    name: /^(.*?) \.\.\. FAILED/gm,
  },
  bun: {
    passed: /^\s*(\d+) pass$/m,
    failed: /^\s*(\d+) fail$/m,
    skipped: /^\s*(\d+) skip$/m,
    name: /^\(fail\) (.*?)(?: \[[\d.]+m?s\])?$/gm,
  },
  node: {
    passed: /^\S+ pass (\d+)$/m,
    failed: /^\S+ fail (\d+)$/m,
    skipped: /^\S+ skipped (\d+)$/m,
    name: /^\s*✖ (.*) \([\d.]+ms\)$/gm,
  },
};

/** What harness.ts prints. Deno has no way to skip a test that runs already, and counts it as passed. */
const SKIP_LINE = /^skipped: (.*): it needs (.*?(?: \(apt-get install (.*)\))?)$/gm;

/** Counts what a run said; `code`: how it ended, where that can be relied on. A run that cannot be counted has failed. */
export function count(kind: Runner, output: string, code: number | string | null): Count {
  const text = stripVTControlCharacters(output);
  const words = WORDS[kind];
  const number = (pattern: RegExp) => Number(pattern.exec(text)?.[1] ?? NaN);
  const [passed, failed] = [number(words.passed), number(words.failed)];
  const failures = [...new Set([...text.matchAll(words.name)].map((match) => match[1]))];
  const skips = [...text.matchAll(SKIP_LINE)].map(([, name, needs, packages]) => {
    return { name, needs, packages: packages?.split(" ") ?? [] };
  });
  const uncounted = Number.isNaN(passed) || Number.isNaN(failed) || passed + failed + skips.length === 0;
  const broken = uncounted || (code !== 0 && failed === 0)
    ? `ended with ${code}, and its tests could not be counted: ${text.trim().split("\n").at(-1)}`
    : undefined;
  return {
    passed: (passed || 0) - (kind === "deno" ? skips.length : 0),
    failed: (failed || 0) + Number(broken !== undefined),
    left: (number(words.skipped) || 0) - (kind === "deno" ? 0 : skips.length),
    skips,
    failures: broken === undefined ? failures : [...failures, broken],
    broken,
  };
}

/** How a run is made. */
export interface Circumstances extends Choice {
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** What it is started by: a command and its arguments, such as `nsenter …`. */
  readonly by?: readonly string[];
  /** Names of tests, or parts of them, that are left out; each must be there. */
  readonly skip?: readonly string[];
  /** Milliseconds, after which it has failed, and is ended. */
  readonly limit?: number;
  /** Told of what it says, as it says it. */
  readonly onOutput?: (text: string) => void;
}

/**
 * The files as one, because Deno makes a new world for each that it is given, and loads all of the source again. It is
 * made in `folder`.
 */
function together(files: readonly string[], folder: string): readonly string[] {
  if (files.length < 2) return files;
  const file = join(folder, "all_test.ts");
  const urls = files.map((each) => pathToFileURL(join(repository, each)).href);
  writeFileSync(file, urls.map((url) => `import ${JSON.stringify(url)};\n`).join(""));
  return [file];
}

/** What a command is started by, so that a hangup ends it as usual, also where nohup(1) started these tests. */
function withHangup(): string[] {
  const ignored = /^SigIgn:\t\w*(\w)$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1] ?? "0";
  return parseInt(ignored, 16) & 1 ? ["env", "--default-signal=HUP"] : []; // SIGHUP is 1
}

/** Runs the tests, and ends whatever they have left. */
export async function runTests(kind: Runner, how: Circumstances): Promise<Count & { readonly output: string }> {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-run-"));
  try {
    return await runIn(folder, kind, how);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function runIn(folder: string, kind: Runner, how: Circumstances): Promise<Count & { readonly output: string }> {
  const files = kind === "deno" ? together(how.files, folder) : how.files;
  const { command, args } = runner(kind, { ...how, files });
  const [program, ...words] = [...withHangup(), ...how.by ?? [], command, ...args];
  const mark = randomUUID();
  const skip = how.skip ?? [];
  const child = spawn(program, words, {
    cwd: repository,
    env: {
      ...{ ...process.env, NO_COLOR: "1", FORCE_COLOR: undefined, HOLDFAST_TEST_DENO: deno() },
      // Node 26 takes 0.75 s of the processor to strip our types and start, and 0.25 s with this.
      ...{ NODE_COMPILE_CACHE: join(cache, "node-compile"), HOLDFAST_TEST_SKIP: JSON.stringify(skip), ...how.env },
      HOLDFAST_TEST_RUN: `${process.env.HOLDFAST_TEST_RUN ?? ""} ${mark}`, // a run within a run is a part of both
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text) => {
      output += text;
      how.onOutput?.(text);
    });
  }
  let late: string | undefined;
  const timer = how.limit === undefined ? undefined : setTimeout(() => {
    late = `not done within ${how.limit} ms`;
    endAll(mark);
  }, how.limit);
  const code = await new Promise<number | string>((resolve) => {
    child.on("error", (error) => resolve(error.message));
    child.on("close", (code, signal) => resolve(late ?? code ?? String(signal)));
  });
  clearTimeout(timer);
  endAll(mark);
  const counted = count(kind, output, code);
  if (counted.broken !== undefined || counted.left === skip.length) return { ...counted, output };
  const wrong = `${counted.left} tests were left out, and not the ${skip.length} that were to be`;
  return { ...counted, failed: counted.failed + 1, failures: [...counted.failures, wrong], output };
}

/** Kills every process that has this in the environment that it was started with, also one whose parent is gone. */
function endAll(mark: string): void {
  for (let found = true, rounds = 0; found && rounds < 5; rounds++) {
    found = false;
    for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
      try {
        if (!readFileSync(`/proc/${pid}/environ`, "latin1").includes(mark)) continue;
        process.kill(Number(pid), "SIGKILL");
        found = true; // and it may have started another meanwhile
      } catch {
        // It has ended, or is another user's.
      }
    }
  }
}

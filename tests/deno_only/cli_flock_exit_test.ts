/** `holdfast flock` beside the installed flock(1): status and output of every invocation in flock_cases.ts. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { type Case, type Difference, EVERYWHERE, type Kind, ONCE, REASONS } from "../support/flock_cases.ts";
import { compiled, FLOCKS } from "../support/flocks.ts";
import { type Place, test, within } from "../support/harness.ts";
import { needs, PYTHON } from "../support/needs.ts";

const repository = new URL("../../", import.meta.url);

/** What an invocation came to. */
interface Outcome {
  readonly status: number;
  readonly out: string;
  readonly err: string;
}

// One bash runs all cases, for speed; each has one of its own, so that none sees another's traps.
const DRIVER = `
mkdir -p template/dir template/mnt; cd template
echo plain >plain; printf 'echo script "$0" "$@"\\n' >script; printf '#!/nowhere\\n' >nointerpreter; : >lock
chmod +x script nointerpreter; ln -s loop loop; ln -s nowhere dangling; cd ..
for file in *.case; do
  cp -a template "\${file%.case}"; cd "\${file%.case}"
  bash -c ". ../prelude; $(<"../$file")" </dev/null >../out 2>../err
  echo $? >status; mv ../out ../err .; cd ..
done`;

const PRELUDE = `
flock() { command $flock "$@"; }; export -f flock
hold() { exec 8>>lock; command flock "$@" 8; }
weak() { setpriv --bounding-set=-dac_override,-dac_read_search bash -c '"$@"' - "$@"; }
disk() { unshare -m bash -c 'mount -t tmpfs -o "$1" tmpfs mnt; shift; "$@"' - "$@"; }
deaf() { ${PYTHON} -c 'from signal import *; import os, sys; signal(SIGCHLD, SIG_IGN); os.execvp(sys.argv[1], sys.argv[1:])' "$@"; }
descriptors() { sed -E 's/.* ([0-9]+ ->)/\\1/; s,(/proc/|pipe:.)[0-9]+,\\1N,'; }`;

const PRELUDE_NEEDS = ["flock", "mount", "python3", "root", "script", "setpriv", "unshare"];

/** What no two runs have in common; and signals 32 and 33, which glibc ignores in what this very test starts. */
const normal = (text: string, dir: string) =>
  text.replace(new RegExp(`${dir}(/\\d{3})?`, "g"), "DIR").replace(/took \d+\.\d{6} seconds/g, "took N seconds")
    .replace(
      /(line \d+): +\d+/g,
      "$1: PID",
    )
    .replace(/(?<=SigIgn:\t)\w+/g, (mask) => (BigInt(`0x${mask}`) & ~0x180000000n).toString(16).padStart(16, "0"));

/** Runs cases on a command. */
async function outcomes(place: Place, name: string, command: readonly string[], cases: readonly Case[]) {
  const dir = `${place.dir}/${name}`;
  mkdirSync(dir);
  const file = (i: number) => `${dir}/${String(i).padStart(3, "0")}`;
  cases.forEach(([script], i) => writeFileSync(`${file(i)}.case`, script));
  writeFileSync(`${dir}/prelude`, PRELUDE);
  const { PATH, HOME } = process.env;
  const NODE_COMPILE_CACHE = `${place.dir}/cache`; // Node starts in a third of the time
  const env = { PATH, HOME, NODE_COMPILE_CACHE, LC_ALL: "C", SHELL: "/bin/bash", flock: command.join(" ") };
  const driver = place.child("bash", ["-c", DRIVER], { cwd: dir, env });
  assertEquals(await within(290_000, driver.ended), { code: 0, signal: null }, driver.errors);
  const text = (i: number, kind: string) => normal(readFileSync(`${file(i)}/${kind}`, "latin1"), dir);
  return cases.map((_, i): Outcome => ({
    status: Number(text(i, "status")),
    out: text(i, "out"),
    err: text(i, "err"),
  }));
}

/** What ours should have come to: theirs, but for what is listed. */
function expected(theirs: Outcome, ours: Outcome, { status, out, err }: Difference): Outcome {
  return {
    status: status ?? theirs.status,
    // A pattern that does not match is shown in place of the output.
    out: out instanceof RegExp ? (out.test(ours.out) ? ours.out : String(out)) : out ?? theirs.out,
    err: err ?? theirs.err,
  };
}

function compare(kind: Kind, cases: readonly Case[], theirs: readonly Outcome[], ours: readonly Outcome[]): void {
  const wrong: unknown[] = [];
  cases.forEach(([script, ...differences], i) => {
    const difference = differences.find(({ only }) => !only || only.includes(kind));
    const should = difference ? expected(theirs[i], ours[i], difference) : theirs[i];
    const same = (a: Outcome, b: Outcome) => a.status === b.status && a.out === b.out && a.err === b.err;
    if (!same(ours[i], should)) wrong.push({ script, theirs: theirs[i], ours: ours[i], should });
    // One that is listed and no longer differs has to be taken off the list.
    else if (difference && same(ours[i], theirs[i])) wrong.push({ script, "no longer": difference.why });
  });
  assertEquals(wrong, []);
}

// By its bare name, which getopt puts before its messages as it was called.
const THEIRS = ["flock"];

test(`holdfast flock answers ${ONCE.length} invocations as flock(1) does, but for what is listed`, async (place) => {
  needs(...PRELUDE_NEEDS);
  assert(ONCE.length >= 60);
  const ours = compiled(place.dir);
  const half = ONCE.length >> 1;
  const [theirs, first, second] = await Promise.all([
    outcomes(place, "theirs", THEIRS, ONCE),
    outcomes(place, "first", ours, ONCE.slice(0, half)),
    outcomes(place, "second", ours, ONCE.slice(half)),
  ]);
  // That the disk was full and the file unreadable: else both would only have answered the same to nothing.
  const status = (script: string) => theirs[ONCE.findIndex(([each]) => each === script)].status;
  assertEquals([status("disk nr_inodes=1 flock mnt/x true"), status("disk ro flock mnt/x true")], [73, 73]);
  assertEquals(status("chmod 000 lock; weak flock lock true"), 66);
  compare("compiled", ONCE, theirs, [...first, ...second]);
}, { timeout: 300_000 }); // ten seconds on an idle machine

test("holdfast flock answers as flock(1) does in Deno, Bun and Node 26", async (place) => {
  needs(...PRELUDE_NEEDS);
  const theirs = await outcomes(place, "theirs", THEIRS, EVERYWHERE);
  const kinds = ["deno", "bun", "node26"] as const;
  const ours = await Promise.all(kinds.map((kind) => outcomes(place, kind, FLOCKS[kind](), EVERYWHERE)));
  kinds.forEach((kind, i) => compare(kind, EVERYWHERE, theirs, ours[i]));
}, { timeout: 300_000 });

test("docs/flock.md gives every reason for a difference, and each is one", () => {
  const text = readFileSync(new URL("docs/flock.md", repository), "utf8").replace(/\s+/g, " ");
  for (const reason of Object.values(REASONS)) assertStringIncludes(text, reason);
  const used = [...EVERYWHERE, ...ONCE].flatMap(([, ...differences]) => differences.map(({ why }) => why));
  assertEquals([...new Set(used)].sort(), Object.keys(REASONS).sort());
});

test("flock --version says the version of the package", () => {
  const { version } = JSON.parse(readFileSync(new URL("deno.json", repository), "utf8"));
  assertStringIncludes(
    readFileSync(new URL("src/cli/version.ts", repository), "utf8"),
    `const VERSION = "${version}";`,
  );
});

/** Which machine attacks which claim: one line for each row of "What is guaranteed" in README.md. */

/** The claim, word for word, and what attacks it: parts of the torture first, then other tests. */
export const CLAIMS: readonly (readonly [claim: string, attackers: readonly string[]])[] = [
  [
    "An exclusive lock has one holder at a time, among Deno, Bun, Node, flock(1) and Python, in any pair",
    ["soak", "deliberate", "places", "faults", "tests/deno_only/matrix_test.ts"],
  ],
  [
    "It is free the moment its holder ends, by `kill -9`, a crash, the OOM killer or `process.exit()`",
    ["soak", "places", "tests/death_test.ts"],
  ],
  ["A holder that is stopped, or blocks its event loop, keeps it", ["soak", "tests/death_test.ts"]],
  ["A lock that is lost while it is held is noticed, and the holder told", [
    "soak",
    "places",
    "tests/deno_only/lost_test.ts",
  ]],
  ["`inspect()` names who really has the lock, and never takes it", [
    "fuzz",
    "places",
    "tests/deno_only/inspect_test.ts",
  ]],
  ["Only the verified holder is ever signalled", ["fuzz", "tests/handover_test.ts"]],
  ["The next holder is told of one that died without releasing", ["fuzz", "tests/death_test.ts"]],
  ["No clock and no file time decides who holds the kernel lock", ["soak", "tests/files_untouched_test.ts"]],
  ["A try that is refused leaves bytes, mode and times of the file as they are", [
    "places",
    "tests/files_untouched_test.ts",
  ]],
  [
    "A file that holds your data keeps every byte of it (but see below: a bare number is taken for a PID file)",
    ["fuzz", "tests/files_test.ts"],
  ],
  [
    "A symlink, FIFO, device or directory in its place, or beside it, is refused in bounded time, untouched",
    ["tests/files_test.ts"],
  ],
  [
    "A file deleted or replaced during the claim is not held by mistake",
    ["soak", "deliberate", "tests/files_lost_test.ts"],
  ],
  ["`false` means held, and nothing else: every other failure throws", [
    "faults",
    "places",
    "tests/deno_only/errors_test.ts",
  ]],
  [
    "A dead owner's PID file is taken over by one process only, and the two back ends exclude each other",
    ["soak", "deliberate", "fuzz", "faults", "tests/deno_only/explore_test.ts", "tests/long/contention_test.ts"],
  ],
  [
    "A zombie, a thread's id, a reused PID, a PID from before a reboot is not alive; what cannot be known is not dead",
    ["fuzz", "tests/owner_test.ts"],
  ],
  [
    "Waiters of one process are served first come, first served, and leave no ghost behind",
    ["leaks", "tests/waiting_test.ts"],
  ],
  ["A signal keeps its default action", ["tests/death_test.ts"]],
  ["A C library planted in the current directory is not loaded", ["tests/deno_only/planted_test.ts"]],
  ["Deno asks nothing on the terminal", ["tests/deno_only/terminal_test.ts"]],
];

/** The claims of a README: the first cells of its table of guarantees. */
export function claimsOf(readme: string): string[] {
  const section = readme.split("\n## What is guaranteed\n")[1]?.split("\n## ")[0] ?? "";
  return section.split("\n").filter((line) => line.startsWith("| ")).slice(2).map((line) =>
    line.split(" | ")[0].slice(2).trim()
  );
}

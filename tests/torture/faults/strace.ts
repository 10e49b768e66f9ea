/** strace on a process that runs already: attached for one operation, so that no call of its start is counted. */
import { spawn } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import process from "node:process";

/** A system call as the log has it. */
export interface Call {
  readonly name: string;
  readonly text: string;
  /** What it was made to answer. */
  readonly injected: string | undefined;
}

/** What to trace, and what to answer. */
export interface Tracing {
  readonly pid: number;
  readonly calls: readonly string[];
  /** Such as `flock:error=EIO:when=2`. */
  readonly fault?: string;
  /** Its children too. */
  readonly children?: boolean;
  /** Where strace may write. */
  readonly log: string;
}

const LINE = /^(?:(\d+) +)?(\w+)\(.*\) += (?:\?|-?\w+)(?:<.*>)?(?: (E\w+) \([^()]*\))?(?:.*?( \(INJECTED\)))?$/;

/** Runs `use` under strace; returns what that came to, or what it threw, and the calls in their order. */
export async function traced<T>(
  tracing: Tracing,
  use: () => Promise<T>,
): Promise<{ value: T; calls: Call[] } | { error: unknown; calls: Call[] }> {
  const { pid, calls, fault, children, log } = tracing;
  const args = ["-y", "-s", "0", "-o", log, "-e", `trace=${calls.join(",")}`, "-e", "signal=none"];
  if (fault) args.push("-e", `inject=${fault}`);
  if (children) args.push("-f");
  const strace = spawn("strace", [...args, "-p", String(pid)], { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  const ended = new Promise<void>((resolve) => strace.once("exit", () => resolve()));
  await new Promise<void>((resolve, reject) => {
    // `!`: it is a pipe
    strace.stderr!.setEncoding("utf8").on("data", (text) => (said += text, said.includes("attached") && resolve()));
    strace.once("error", reject);
    strace.once("exit", () => reject(new Error(`strace did not attach to ${pid}: ${said}`)));
  });
  try {
    return { value: await use(), calls: await finish() };
  } catch (error) {
    return { error, calls: await finish() };
  }

  async function finish(): Promise<Call[]> {
    if (strace.exitCode === null && strace.signalCode === null) process.kill(strace.pid!, "SIGTERM"); // `!`: it runs
    await ended;
    const lines = readFileSync(log, "utf8").split("\n");
    rmSync(log);
    return lines.flatMap((text) => {
      const match = LINE.exec(text);
      // Of its children only flock(1)'s own call is of interest: they have loaders, and close what they inherit.
      if (!match || (match[1] && Number(match[1]) !== pid && match[2] !== "flock")) return [];
      return [{ name: match[2], text, injected: match[4] && match[3] }];
    });
  }
}

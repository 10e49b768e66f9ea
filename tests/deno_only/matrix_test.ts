/**
 * Every kind of process that takes the kernel lock against every other: five
 * ways of ours, flock(1), and Python. Our own PID-file back end is not one of
 * them, and nobody here is told of the others.
 */
import { assert, assertEquals } from "@std/assert";
import { fromFileUrl } from "@std/path";
import process from "node:process";
import { Lock } from "../../mod.ts";
import { type Child, KINDS, type Place, test } from "../support/harness.ts";
import { needs, PYTHON } from "../support/needs.ts";

type Mode = "exclusive" | "shared";
const MODES = ["exclusive", "shared"] as const;

/** One process that may hold the lock. */
interface Contender {
  /** One try; whether it holds now. */
  take(mode: Mode): Promise<boolean>;
  release(): Promise<void>;
  /** `kill -9` of the process that holds, and its end. */
  kill(): Promise<void>;
  /** Its PID while it holds, where it leaves a record. */
  recordedPid(): number | undefined;
}

/** Not ChildProcess.kill(): Deno's closes the pipes first, and the agent may get to an orderly end. */
async function kill9(child: Child): Promise<void> {
  process.kill(child.pid, "SIGKILL");
  assertEquals(await child.ended, { code: null, signal: "SIGKILL" });
}

type Start = (place: Pick<Place, "agent" | "child">, path: string) => Promise<Contender>;

const ours = (kind: typeof KINDS[number]): Start => async ({ agent }, path) => {
  const holder = await agent(kind);
  for (const mode of MODES) await holder.lock(path, { mode, backend: "flock" }, mode);
  let held: Mode | undefined;
  return {
    async take(mode) {
      const granted = await holder.tryAcquire(mode);
      if (granted) held = mode;
      return granted;
    },
    async release() {
      await holder.release(held);
    },
    kill: () => kill9(holder),
    recordedPid: () => holder.pid,
  };
};

/** The command holds for as long as the one that it runs: with -F both are one process. */
const flockCommand: Start = ({ child }, path) => {
  let holder: Child | undefined;
  return Promise.resolve({
    async take(mode) {
      const command = child("flock", ["-F", "-n", "-E", "9", `--${mode}`, path, "sh", "-c", "echo granted; exec cat"]);
      const answer = await Promise.race([command.line().catch(() => "ended"), command.ended.then(() => "ended")]);
      if (answer === "granted") {
        holder = command;
        return true;
      }
      // Any other code is a failure that must not pass for a refusal.
      assertEquals(await command.ended, { code: 9, signal: null }, command.errors);
      return false;
    },
    async release() {
      holder?.close();
      await holder?.ended;
    },
    async kill() {
      if (holder) await kill9(holder);
    },
    recordedPid: () => undefined,
  });
};

const python: Start = ({ child }, path) => {
  const script = child(PYTHON, [fromFileUrl(new URL("../fixtures/contender.py", import.meta.url)), path]);
  const ask = async (command: string) => {
    script.write(`${command}\n`);
    return await script.line();
  };
  return Promise.resolve({
    async take(mode) {
      const answer = await ask(mode);
      assert(answer === "granted" || answer === "refused", answer);
      return answer === "granted";
    },
    async release() {
      assertEquals(await ask("release"), "released");
    },
    kill: () => kill9(script),
    recordedPid: () => undefined,
  });
};

const CONTENDERS: Record<string, Start> = {
  ...Object.fromEntries(KINDS.map((kind) => [kind, ours(kind)])),
  "flock(1)": flockCommand,
  "Python fcntl.flock": python,
};
const NAMES = Object.keys(CONTENDERS);

/** What one pair in one pair of modes did, as a list of everything that was not right. */
async function clash(first: Contender, second: Contender, modes: readonly [Mode, Mode]): Promise<string[]> {
  const wrong: string[] = [];
  const expect = async (taker: Contender, mode: Mode, right: boolean, when: string) => {
    const granted = await taker.take(mode);
    if (granted !== right) wrong.push(`${when}: ${granted ? "granted" : "refused"}`);
    return granted;
  };
  const [mine, theirs] = modes;
  const together = mine === "shared" && theirs === "shared";
  if (!await expect(first, mine, true, "the first, on a free lock")) return wrong;
  let secondHolds = await expect(second, theirs, together, "the second, while the first holds");
  await first.release();
  if (secondHolds) {
    // Shared, and one of the two has left: what is left still keeps an exclusive holder out.
    if (await expect(first, "exclusive", false, "exclusive, while the second still holds")) await first.release();
  } else {
    secondHolds = await expect(second, theirs, true, "the second, after the release");
  }
  if (secondHolds) await second.release();
  return wrong;
}

test("tryAcquire() of any two of Deno with and without FFI, Bun, Node 26, Node 20, flock(1) and Python is never granted to both, but shared", async (place) => {
  needs("flock", "python3"); // before any is started
  const path = place.path();
  // Two processes of each kind, because a kind must also refuse its own.
  const start = () => Promise.all(NAMES.map((name) => CONTENDERS[name](place, path)));
  const [firsts, seconds] = [await start(), await start()];
  const wrong: string[] = [];
  let clashes = 0;
  for (const [i, first] of firsts.entries()) {
    for (const [j, second] of seconds.entries()) {
      for (const mine of MODES) {
        for (const theirs of MODES) {
          const found = await clash(first, second, [mine, theirs]);
          wrong.push(...found.map((what) => `${NAMES[i]} ${mine}, then ${NAMES[j]} ${theirs}: ${what}`));
          clashes++;
        }
      }
    }
  }
  assertEquals(wrong, []);
  assertEquals(clashes, 7 * 7 * 4);
});

for (const name of NAMES) {
  test(`tryAcquire() is true at once after kill -9 of a holder in ${name}, and is told of it where it left a record`, async (place) => {
    for (const mode of MODES) {
      const path = place.path(`${mode}.lock`);
      const holder = await CONTENDERS[name]({ child: place.child, agent: place.freshAgent }, path);
      assertEquals(await holder.take(mode), true);
      const stale: number[] = [];
      const lock = new Lock(path, { backend: "flock", onStale: ({ pid }) => stale.push(pid) });
      assertEquals(lock.tryAcquire(), false);
      const pid = holder.recordedPid();
      await holder.kill();
      assertEquals(lock.tryAcquire(), true, mode);
      // A shared holder writes no record: there may be many.
      assertEquals(stale, pid === undefined || mode === "shared" ? [] : [pid], mode);
      lock.release();
    }
  });
}

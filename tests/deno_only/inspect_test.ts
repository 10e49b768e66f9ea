/**
 * What inspect() sees, and that nobody is disturbed by it: every kind looks at
 * every way in which a lock can be held; and looks beside processes that fight.
 */
import { readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { Lock, type LockStatus } from "../../mod.ts";
import { Agent, type Kind, KINDS, ownKind, type Place, test, within } from "../support/harness.ts";
import { underStrace } from "../support/lockers.ts";
import { deadOwner, leave } from "../support/pid_files.ts";
import { PYTHON } from "../support/needs.ts";

/** What it sees. On a busy machine the second that it has for all processes may be too short, and then it says so. */
async function look(agent: Agent, path: string): Promise<LockStatus> {
  for (let tries = 1;; tries++) {
    const status: LockStatus = await agent.call("look", { path });
    if (tries === 20 || !status.reason.includes("was not found in time")) return status;
  }
}

/** A lock that is held, or was, and by whom that is to be seen. */
interface Scene {
  readonly name: string;
  readonly state: "held" | "stale" | "unknown";
  readonly mode: "exclusive" | "shared";
  readonly pids: number[];
  /** It has a record: Deno without FFI sees nothing else. */
  readonly recorded: boolean;
}

async function scenes(place: Place, heirs: number[]): Promise<Scene[]> {
  const { path, agent, child } = place;
  const all: Scene[] = [];
  const add = (name: string, pids: number[], other: Partial<Scene> = {}) =>
    all.push({ name, state: "held", mode: "exclusive", recorded: true, ...other, pids: pids.sort() });
  const holders = await Promise.all(KINDS.map((kind) => agent(kind)));
  const hold = async (holder: Agent, name: string, options: object = {}) => {
    await holder.lock(path(name), options, name);
    assertEquals(await holder.tryAcquire(name), true);
  };
  for (const holder of holders) {
    await hold(holder, holder.kind);
    add(holder.kind, [holder.pid]);
    await hold(holder, `${holder.kind} by PID file`, { backend: "pidfile" });
    // Its record does not say where it runs.
    const state = holder.kind === "deno-no-ffi" ? "unknown" : "held";
    add(`${holder.kind} by PID file`, [holder.pid], { state });
    await hold(holder, "shared", { mode: "shared" });
  }
  add("shared", holders.map(({ pid }) => pid), { mode: "shared", recorded: false });

  const says = "echo granted; cat";
  const python = `import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("granted", flush=True)
sys.stdin.read()`;
  for (
    const [name, command, ...args] of [
      ["flock", "flock", path("flock"), "sh", "-c", says],
      ["flock -F", "flock", "-F", path("flock -F"), "sh", "-c", says],
      ["python", PYTHON, "-SEc", python, path("python")],
    ]
  ) {
    const holder = child(command, args);
    assertEquals(await within(60_000, holder.line()), "granted", holder.errors);
    add(name, [holder.pid], { recorded: false });
  }
  for (const kind of ["deno", "bun", "node26", "node20"] as const) {
    for (const how of ["killed", "released"]) {
      const parent = await agent(kind);
      await hold(parent, `${kind}, ${how}`);
      const heir = await parent.call("heir", { name: `${kind}, ${how}`, program: "sleep", args: ["600"] });
      heirs.push(heir);
      if (how === "killed") await parent.kill();
      else await parent.release(`${kind}, ${how}`);
      add(`${kind}, ${how}`, [heir], { recorded: false });
    }
  }
  for (const backend of ["flock", "pidfile"]) {
    const dead = await agent("bun");
    await hold(dead, `dead, ${backend}`, { backend });
    await dead.kill();
    add(`dead, ${backend}`, [dead.pid], { state: "stale" });
  }
  return all;
}

test("inspect() in each kind names the holder right, however the lock is held", async (place) => {
  const heirs: number[] = [];
  try {
    const all = await scenes(place, heirs);
    for (const kind of KINDS) {
      const viewer = await place.agent(kind);
      for (const { name, state, mode, pids, recorded } of all) {
        const status = await look(viewer, place.path(name));
        const who = `${kind} looks at ${name}: ${status.reason}`;
        if (kind === "deno-no-ffi") { // it sees the record alone, and may not ask whether its writer lives
          if (recorded) assertEquals([status.state, status.holder?.pid], ["unknown", pids[0]], who);
          else assertMatch(status.reason, /a holder without a record would not be seen|it takes --allow-ffi/, who);
          continue;
        }
        assertEquals(
          [status.state, status.mode, status.holders.map(({ pid }) => pid).sort()],
          [state, mode, pids],
          who,
        );
        for (const { command } of status.holders) assert(command, who);
        assert(status.reason.length > 10, who);
      }
    }
  } finally {
    for (const heir of heirs) process.kill(heir, "SIGKILL");
  }
});

test("inspect() names a holder in another PID namespace by its number here", async ({ dir, path }) => {
  const by = ["unshare", "--kill-child", "-pf", "--mount-proc"];
  const holder = Agent.start(ownKind, { by, allow: dir });
  try {
    const inside = JSON.parse(await holder.line()).ready; // not ready(): here that number is another process's
    for (const mode of ["exclusive", "shared"]) {
      await holder.lock(path(mode), { mode }, mode);
      assertEquals(await holder.tryAcquire(mode), true);
      const status = Lock.inspect(path(mode));
      assertEquals([status.state, status.mode, status.holders.length], ["held", mode, 1], status.reason);
      const { pid, command } = status.holder!; // `!`: there is one
      assertEquals(readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim(), command);
      assertMatch(readFileSync(`/proc/${pid}/status`, "utf8"), new RegExp(`^NSpid:\\s+${pid}\\s+${inside}$`, "m"));
    }
  } finally {
    await holder.kill();
  }
});

/** The calls that only look. */
const LOOKS = /^(open|openat|stat|lstat|statfs|statx|newfstatat|readlink|readlinkat|access|faccessat2?)$/;

test("inspect() makes no system call that takes a lock, or writes, or opens to write", async ({ dir, path, agent }) => {
  const lock = new Lock(path("held")).acquireSync();
  writeFileSync(path("free"), "");
  leave(path("stale.pid"), deadOwner());
  for (const kind of KINDS) {
    const log = path(`${kind}.strace`);
    // -y: a descriptor is shown with its path.
    await underStrace(agent, kind, log, ["-y", "-e", "trace=%file,flock,ftruncate,write,pwrite64"], async (user) => {
      const states = [];
      for (const name of ["held", "free", "stale", "missing"]) states.push((await look(user, path(name))).state);
      const sure = kind !== "deno-no-ffi"; // which may not ask who lives
      assertEquals(states, [sure ? "held" : "unknown", "free", sure ? "stale" : "unknown", "free"]);
    });
    const calls = readFileSync(log, "utf8").split("\n").filter((line) => line.includes(`${dir}/`));
    assert(calls.some((line) => line.includes(path("held")) && /O_RDONLY/.test(line)), "or it shows nothing");
    for (const line of calls.filter((line) => !line.includes("execve("))) { // the agent's own start
      const name = /^\d+ +(?:<\.\.\. )?(\w+)/.exec(line)?.[1] ?? line;
      assert(LOOKS.test(name) && !/O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND/.test(line), `${kind}: ${line}`);
    }
  }
  lock.release();
});

/** The looks of two processes; HOLDFAST_INSPECTS=100000 is for a machine with nothing else to do. */
const INSPECTS = Number(process.env.HOLDFAST_INSPECTS ?? 300);
const ROUND = 1_000;

test(
  `inspect() ${INSPECTS} times beside eight processes that fight makes no try fail, and never calls a held lock free or stale`,
  async (place) => {
    const { path, agent, child } = place;
    const kinds: Kind[] = ["deno", "bun", "node26", "deno-no-ffi", "node20", "bun", "node26", "deno"];
    const fighters = await Promise.all(kinds.map((kind) => agent(kind)));
    for (const fighter of fighters) await fighter.lock(path("fight"), {}, "fight");
    const lone = await agent("bun");
    await lone.lock(path("lone"));
    const own = new Lock(path("own")).acquireSync();
    const command = child("flock", [path("command"), "sh", "-c", "echo granted; cat"]);
    assertEquals(await command.line(), "granted");
    const reader = new Lock(path("shared"), { mode: "shared" }).acquireSync();
    const viewers = await Promise.all((["deno", "node26"] as const).map((kind) => agent(kind)));

    for (const fighter of fighters) await fighter.call("hold", { names: ["fight"], milliseconds: 1 });
    await lone.call("insist", { name: "lock" });
    const total: Record<string, Record<string, number>> = {};
    const began = performance.now();
    const shares = { fight: 0.6, lone: 0.1, own: 0.1, command: 0.1, shared: 0.1 };
    for (let done = 0; done < INSPECTS; done += ROUND) {
      const round = Math.min(ROUND, INSPECTS - done);
      await Promise.all(viewers.map(async (viewer) => {
        for (const [name, share] of Object.entries(shares)) {
          const times = Math.ceil(round * share / viewers.length);
          const seen: Record<string, number> = await viewer.call("looks", { path: path(name), times });
          total[name] ??= {};
          for (const [what, count] of Object.entries(seen)) total[name][what] = (total[name][what] ?? 0) + count;
        }
      }));
      console.log(`${done + round} looks in ${Math.round(performance.now() - began)} ms:`, JSON.stringify(total));
    }
    const { granted, refused } = await lone.call("desist");
    // What a try of theirs failed with is what this fails with.
    const times = await Promise.all(fighters.map((fighter) => within(60_000, fighter.call("stop"))));
    console.log(`beside them ${times} acquisitions; alone, ${granted} tries granted and ${refused} refused`);
    assertEquals(refused, 0, "nobody else ever had it");
    assert(granted > 0 && times.every((count) => count > 0), "or there was nothing to be disturbed");
    for (const name of ["own", "command", "shared"]) assertEquals(Object.keys(total[name]), ["held"], name);
    // Nobody died, and none but the kernel's own locks were there.
    for (const name of ["fight", "lone"]) {
      assertEquals(Object.keys(total[name]).filter((what) => what !== "held" && what !== "free"), [], name);
    }
    own.release();
    reader.release();
  },
  { timeout: 3_000_000 },
);

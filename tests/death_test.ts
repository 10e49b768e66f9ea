/**
 * How a holder ends, and what is left: the lock is free at once, the file
 * stays, and the next holder is told if it was not released. And that a holder
 * which merely does nothing for a while keeps it.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { existsSync, readFileSync } from "node:fs";
import process from "node:process";
import { Lock, LockTimeoutError, processState } from "../mod.ts";
import { type Agent, type Kind, mustBlock, ownKind, test, within } from "./support/harness.ts";

/** The own kind, and with it those that no run of this suite is made in. */
const kinds: Kind[] = ownKind === "deno"
  ? ["deno", "deno-no-ffi"]
  : ownKind === "node26"
  ? ["node26", "node20"]
  : [ownKind];

/** Ways to end, and what the process ends with: its own code, or the signal. */
const ORDERLY = { return: 0, "process.exit": 0, "Deno.exit": 0 };
const CRASHES = {
  throw: 1,
  rejection: 1,
  abort: "SIGABRT",
  SIGTERM: "SIGTERM",
  SIGINT: "SIGINT",
  SIGHUP: "SIGHUP",
  SIGKILL: "SIGKILL",
};

/**
 * Sends a signal. Not by ChildProcess.kill(): Deno's closes the pipes first, so
 * that the agent may get to an orderly end, and after any signal it believes
 * that the child has ended.
 */
const send = (child: Agent, name: string) => process.kill(child.pid, name);

/** Ends a holder so. Signals come from outside, as they do in life; and so does the end of its input. */
async function end(holder: Agent, how: string): Promise<number | string | null> {
  if (how.startsWith("SIG")) send(holder, how);
  else if (how === "return") holder.close(); // its event loop has nothing left to wait for
  else await within(60_000, holder.die(how));
  const { code, signal } = await within(60_000, holder.ended);
  return signal ?? code;
}

for (const kind of kinds) {
  for (const [how, outcome] of Object.entries({ ...ORDERLY, ...CRASHES })) {
    if (how === "Deno.exit" && !kind.startsWith("deno")) continue; // there is no such function
    const told = how in CRASHES;

    test(`tryAcquire() is true at once after a holder in ${kind} ended by ${how}, and onStale is ${told ? "" : "not "}called`, async ({ freshAgent: agent, path }) => {
      const holder = await agent(kind);
      await holder.lock(path());
      assertEquals(await holder.tryAcquire(), true);
      const stale: number[] = [];
      const lock = new Lock(path(), { onStale: ({ pid }) => stale.push(pid) });
      assertEquals(lock.tryAcquire(), false);
      assertEquals(await end(holder, how), outcome, holder.errors);
      assert(existsSync(path()), "the lock file is gone");
      assertEquals(lock.inspect().state, told ? "stale" : "free");
      assertEquals(lock.tryAcquire(), true);
      assertEquals(stale, told ? [holder.pid] : []);
      lock.release();
    });
  }

  test(`onStale is not called after a holder in ${kind} released and then died of SIGKILL`, async ({ freshAgent: agent, path }) => {
    const holder = await agent(kind);
    await holder.lock(path());
    assertEquals(await holder.tryAcquire(), true);
    await holder.release();
    assertEquals(await end(holder, "SIGKILL"), "SIGKILL");
    const stale: number[] = [];
    const lock = new Lock(path(), { onStale: ({ pid }) => stale.push(pid) });
    assertEquals(lock.tryAcquire(), true);
    assertEquals(stale, []);
    lock.release();
  });

  test(`tryAcquire() is false while a holder in ${kind} blocks its event loop`, async ({ freshAgent: agent, path }) => {
    const holder = await agent(kind);
    await holder.lock(path());
    assertEquals(await holder.tryAcquire(), true);
    const blocked = await mustBlock(holder.call("block", { milliseconds: 1000 }));
    // Not a sleep: some forty tries in these 600 ms, and not one may be granted.
    await assertRejects(() => new Lock(path()).acquire({ timeout: 600 }), LockTimeoutError);
    assertEquals(await blocked.done(), true);
    await holder.release();
    const lock = new Lock(path());
    assertEquals(lock.tryAcquire(), true);
    lock.release();
  });

  test(`tryAcquire() is false while a holder in ${kind} is stopped by SIGSTOP`, async ({ freshAgent: agent, path }) => {
    const holder = await agent(kind);
    await holder.lock(path());
    assertEquals(await holder.tryAcquire(), true);
    send(holder, "SIGSTOP");
    const stopped = await mustBlock(holder.call("held", { name: "lock" }));
    await assertRejects(() => new Lock(path()).acquire({ timeout: 1000 }), LockTimeoutError);
    assertEquals(processState(holder.pid).state, "alive");
    send(holder, "SIGCONT");
    assertEquals(await stopped.done(), true);
    await holder.release();
    const lock = new Lock(path());
    assertEquals(lock.tryAcquire(), true);
    lock.release();
  });

  test(`tryAcquire() is true at once after a holder in ${kind} died that had started a detached child`, async ({ freshAgent: agent, path, dir }) => {
    const allowed = ["--allow-read", `--allow-write=${dir}`, "--allow-run=sleep", "--allow-env"]; // to start one
    const holder = await agent(kind, kind === "deno-no-ffi" ? { flags: allowed } : {});
    await holder.lock(path());
    assertEquals(await holder.tryAcquire(), true);
    const child: number = await holder.call("spawn", { program: "sleep", args: ["30"] });
    try {
      assertEquals(await end(holder, "SIGKILL"), "SIGKILL");
      assertEquals(processState(child).state, "alive");
      const lock = new Lock(path(), { onStale: () => {} });
      assertEquals(lock.tryAcquire(), true);
      lock.release();
    } finally {
      process.kill(child, "SIGKILL"); // nobody else knows that PID: its parent is dead
    }
  });

  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"]) {
    test(`import leaves ${name} its default in ${kind}`, async ({ freshAgent: agent }) => {
      const importer = await agent(kind);
      send(importer, name);
      assertEquals(await within(60_000, importer.ended), { code: null, signal: name });
    });
  }

  test(`release() leaves SIGINT its default in ${kind}`, async ({ freshAgent: agent, path }) => {
    const former = await agent(kind);
    await former.lock(path());
    assertEquals(await former.tryAcquire(), true);
    await former.release();
    send(former, "SIGINT");
    assertEquals(await within(60_000, former.ended), { code: null, signal: "SIGINT" });
    assertEquals(readFileSync(path(), "utf8"), "");
  });
}

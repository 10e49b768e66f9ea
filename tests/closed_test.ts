/** Other code in the process closes a descriptor that is a lock's: the lock is lost, and the number is not ours any more. */
import { readFileSync, unlinkSync, writeFileSync } from "node:fs";
import process from "node:process";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { Lock } from "../mod.ts";
import { type Agent, type Kind, type Place, test, within } from "./support/harness.ts";
import { failure, kernelHolders, openDescriptors } from "./support/lockers.ts";
import { kinds, recordIn, until } from "./support/pid_files.ts";

/** Those whose locks have a number, which other code can close. */
const numbered: readonly Kind[] = kinds.filter((kind) => kind !== "deno-no-ffi");

const USERS = "the user's\n";

const deed = (agent: Agent, deed: string, more: object) => agent.call("deed", { deed, name: "lock", ...more });

/** An agent that holds the lock. */
async function holding({ agent, path }: Place, kind: Kind, options: object = {}): Promise<Agent> {
  const holder = await agent(kind);
  if (kind === "deno-no-ffi") await deed(holder, "watchOpening", {});
  await holder.lock(path(), options);
  assertEquals(await holder.tryAcquire(), true);
  return holder;
}

/** The user's file is open as it was, is not locked, and has what the user has written. */
function assertLeft(agent: Agent, file: string, what: string): void {
  assert(openDescriptors(agent.pid).includes(file), `${what}: ${file} was closed`);
  assertEquals([kernelHolders(file), readFileSync(file, "utf8")], [[], USERS], what);
}

async function assertLost(holder: Agent, why: RegExp, what: string): Promise<void> {
  const { name, code, message } = await failure(holder.release());
  assertEquals([name, code], ["LockLostError", "ELOST"], `${what}: ${message}`);
  assertMatch(message, why, what);
  assertMatch(message, /look for what closes descriptors/, what);
  assertEquals((await failure(holder.release())).code, "ENOTHELD", what);
}

for (const kind of kinds) {
  for (const mode of ["exclusive", "shared"] as const) {
    test(`verify() in ${kind} is false after other code closed the descriptor (${mode}), and leaves the file that has its number now`, async (place) => {
      const { path } = place;
      for (const file of kind === "deno-no-ffi" ? [undefined] : [undefined, path("users")]) {
        writeFileSync(path("users"), USERS);
        const holder = await holding(place, kind, { mode });
        assertEquals(await holder.call("verify", { name: "lock" }), true);
        await deed(holder, "closeUnder", { file });
        const other = new Lock(path(), { onStale: () => {} });
        assertEquals(other.tryAcquire(), true, "the kernel has freed it");
        const what = `${file}`;
        assertEquals(await holder.call("fd", { name: "lock" }), null, what);
        assertEquals(await holder.call("verify", { name: "lock" }), false, what);
        assertEquals(await holder.call("held", { name: "lock" }), false, what);
        assertEquals(await within(60_000, holder.call("lost", { name: "lock" })), "ELOST", what);
        await assertLost(holder, /because its descriptor was closed by other code in this process\. /, what);
        if (file) assertLeft(holder, file, what);
        assertEquals([other.verify(), recordIn(path()).pid], [true, process.pid]);
        assertEquals(await holder.tryAcquire(), false, "and tries again, as before");
        other.release();
        assertEquals(await holder.tryAcquire(), true);
        await holder.release();
        if (file) assertLeft(holder, file, what);
      }
    });
  }

  test(`release() in ${kind} of a lock whose descriptor other code closed says so, and leaves the file that has its number now`, async (place) => {
    const { path } = place;
    writeFileSync(path("users"), USERS);
    const file = kind === "deno-no-ffi" ? undefined : path("users");
    for (const mode of ["exclusive", "shared"]) {
      for (const wait of [0, 150]) { // before anything has looked at it, and after
        const holder = await holding(place, kind, { mode });
        await holder.call("block", { milliseconds: wait });
        await deed(holder, "closeUnder", { file });
        await assertLost(holder, /closed by other code/, `${mode}, ${wait}`);
        if (file) assertLeft(holder, file, `${mode}, ${wait}`);
        new Lock(path(), { onStale: () => {} }).acquireSync({ timeout: 0 }).release();
        await holder.kill();
      }
    }
  });

  test(`signal in ${kind} aborts though nobody asks when other code has closed the descriptor`, async (place) => {
    const holder = await holding(place, kind);
    writeFileSync(place.path("users"), USERS);
    const file = kind === "deno-no-ffi" ? undefined : place.path("users");
    await deed(holder, "closeUnder", { file });
    assertEquals(await within(8_000, holder.call("lost", { name: "lock" })), "ELOST");
    assertEquals(await holder.call("held", { name: "lock" }), false);
    if (file) assertLeft(holder, file, "lost");
  });

  test(`exit in ${kind} after other code closed the descriptor takes no record away, and writes to no other file`, async (place) => {
    const { path } = place;
    writeFileSync(path("users"), USERS);
    const file = kind === "deno-no-ffi" ? undefined : path("users");
    const holder = await holding(place, kind);
    await deed(holder, "closeUnder", { file });
    const other = new Lock(path(), { onStale: () => {} });
    assertEquals(other.tryAcquire(), true);
    const record = readFileSync(path(), "utf8");
    await holder.die("process.exit");
    assertEquals([readFileSync(path(), "utf8"), readFileSync(path("users"), "utf8")], [record, USERS]);
    other.release();
  });
}

for (const kind of numbered) {
  test(`verify() in ${kind} is false when other code has opened the lock file itself, and that has the number now`, async (place) => {
    const { path } = place;
    const holder = await holding(place, kind);
    assertEquals(await holder.call("verify", { name: "lock" }), true); // as a watcher does in the first 100 ms
    const fd = await deed(holder, "closeUnder", { file: path() });
    assertEquals(await holder.call("verify", { name: "lock" }), false);
    await assertLost(holder, /closed by other code in this process, or unlocked\. /, "reopened");
    assert(openDescriptors(holder.pid).includes(path()), "it was closed");
    assertEquals(new Lock(path(), { onStale: () => {} }).tryAcquire(), true, `and ${fd} has no lock`);
  });

  test(`verify() in ${kind} is false when a child that has the descriptor has unlocked it`, async (place) => {
    const { path } = place;
    const holder = await holding(place, kind);
    assertEquals(await holder.call("verify", { name: "lock" }), true);
    await holder.call("hand", { name: "lock", program: "flock", args: ["-u", "3"], index: 3 });
    await until("it is unlocked", () => kernelHolders(path()).length === 0);
    assertEquals(await holder.call("verify", { name: "lock" }), false);
    await assertLost(holder, /or unlocked/, "unlocked");
  });

  test(`release() in ${kind} after the file was made again leaves what has the deleted one's number now`, async (place) => {
    const { path } = place;
    writeFileSync(path("users"), USERS);
    const holder = await holding(place, kind);
    unlinkSync(path());
    assertEquals(await holder.call("verify", { name: "lock" }), true);
    await deed(holder, "closeAt", { path: `${path()} (deleted)`, file: path("users") });
    await holder.release();
    assertLeft(holder, path("users"), "the deleted file's number");
  });

  test(`verify() in ${kind} does not make a deleted file again whose descriptor other code closed`, async (place) => {
    const { path } = place;
    writeFileSync(path("users"), USERS);
    for (const ask of ["verify", "release"]) {
      const holder = await holding(place, kind);
      await deed(holder, "closeUnder", { file: path("users") });
      unlinkSync(path());
      if (ask === "verify") assertEquals(await holder.call("verify", { name: "lock" }), false);
      await assertLost(holder, /closed by other code/, ask);
      assertLeft(holder, path("users"), ask);
    }
  });

  test(`acquire() in ${kind} does not lock the file that has the number of the one that it kept open`, async (place) => {
    const { path, agent } = place;
    writeFileSync(path("users"), USERS);
    const lock = new Lock(path()).acquireSync();
    const waiter = await agent(kind);
    await waiter.lock(path());
    await waiter.call("begin", { name: "lock" });
    await deed(waiter, "closeAt", { path: path(), file: path("users") });
    lock.release();
    await within(60_000, waiter.call("granted", { name: "lock" }));
    assertEquals(Lock.inspect(path()).holders.map(({ pid }) => pid), [waiter.pid]);
    assertEquals(recordIn(path()).pid, waiter.pid);
    assertLeft(waiter, path("users"), "held");
    await waiter.release();
    assertLeft(waiter, path("users"), "released");
  });
}

/** What stands of a lock while a process ends in order: the user's own exit handlers may still rely on it. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { assertEquals } from "@std/assert";
import { Lock } from "../mod.ts";
import { ownKind, test, within } from "./support/harness.ts";
import { kinds, names, until } from "./support/pid_files.ts";

const FLOCK = { backend: "flock" } as const;
const PIDFILE = { backend: "pidfile" } as const;

for (const kind of kinds) {
  test(`held is true and the kernel refuses others in a user's exit handler in ${kind}, and release() and dispose there close nothing else`, async ({ dir, path, freshAgent: agent, child }) => {
    const holder = await agent(kind);
    const hows = ["release", "dispose"];
    for (const how of hows) {
      await holder.lock(path(how), FLOCK, how);
      assertEquals(await holder.tryAcquire(how), true);
    }
    await holder.call("deed", { deed: "atExit", dir, names: hows });
    const ending = holder.die("process.exit");
    await until("the exit handler runs", () => existsSync(path("before")));
    assertEquals(JSON.parse(readFileSync(path("before"), "utf8")), { release: true, dispose: true });
    for (const how of hows) {
      assertEquals((await child("flock", ["-n", path(how), "true"]).ended).code, 1);
      assertEquals(new Lock(path(how), FLOCK).tryAcquire(), false);
    }
    writeFileSync(path("go"), "");
    assertEquals((await within(60_000, ending)).code, 0, holder.errors);
    const after = JSON.parse(readFileSync(path("after"), "utf8"));
    const held = { release: false, dispose: false };
    assertEquals(after, { given: ["nothing", "nothing"], second: "nothing", held });
    assertEquals(readFileSync(path("users"), "utf8"), "one two");
    for (const how of hows) {
      const next = new Lock(path(how), { onStale: ({ pid }) => assertEquals(pid, 0, "nobody crashed") });
      assertEquals(next.tryAcquire(), true);
      next.release();
    }
  });

  test(`a rejection that the program handles with once() ends nothing in ${kind}, as without a lock`, async ({ path, freshAgent: agent }) => {
    const holder = await agent(kind);
    assertEquals(await holder.call("deed", { deed: "handleOnce", path: path() }), "one request failed");
    await holder.lock(path());
    assertEquals(await holder.tryAcquire(), false, "it lives, and the lock is held");
  });

  test(`held is false in a user's exit handler in ${kind} once the PID file is gone, and dispose there throws nothing`, async ({ dir, path, freshAgent: agent }) => {
    const holder = await agent(kind);
    await holder.lock(path(), PIDFILE);
    assertEquals(await holder.tryAcquire(), true);
    await holder.call("deed", { deed: "atExit", dir, names: ["lock"] });
    const ending = holder.die("process.exit");
    await until("the exit handler runs", () => existsSync(path("before")));
    assertEquals(JSON.parse(readFileSync(path("before"), "utf8")), { lock: false });
    assertEquals(names(dir), ["before"]);
    const next = new Lock(path(), PIDFILE);
    assertEquals(next.tryAcquire(), true); // what dispose must not touch
    const theirs = readFileSync(path("a.lock.pid"), "utf8");
    writeFileSync(path("go"), "");
    assertEquals((await within(60_000, ending)).code, 0, holder.errors);
    const after = JSON.parse(readFileSync(path("after"), "utf8"));
    assertEquals(after, { given: ["nothing"], second: "nothing", held: { lock: false } });
    assertEquals(readFileSync(path("a.lock.pid"), "utf8"), theirs);
    next.release();
  });

  test(`tryAcquire() in ${kind} is true again after a Worker that held the lock has ended`, async ({ path, freshAgent: agent }) => {
    const owner = await agent(kind);
    for (const [how, { backend }] of [["return", FLOCK], ["exit", FLOCK], ["exit", PIDFILE]] as const) {
      const file = path(backend + how);
      const options = { backend };
      const seen = await within(60_000, owner.call("deed", { deed: "worker", path: file, options, how }));
      assertEquals(seen, { granted: true, meanwhile: false }, `${backend}, ${how}`);
      await owner.lock(file, options);
      assertEquals(await owner.tryAcquire(), true, `${backend}, ${how}`);
      assertEquals(await owner.call("stale"), [], `${backend}, ${how}`);
      await owner.release();
    }
  });
}

test("acquireSync() in a user's exit handler is a LockDeadlockError where another Lock of the process holds the lock", async ({ path, child }) => {
  const module = new URL("../mod.ts", import.meta.url).href;
  const script = `
    import process from "node:process";
    import { Lock } from ${JSON.stringify(module)};
    const [holder, other] = [1, 2].map(() => new Lock(${JSON.stringify(path())}, { backend: "flock" }));
    holder.tryAcquire();
    process.on("exit", () => {
      try {
        other.acquireSync({ timeout: 50 });
      } catch (error) {
        console.log(error.name);
      }
    });
  `;
  writeFileSync(path("exit.mjs"), script);
  const flags = ownKind === "deno" ? ["run", "-A", "--quiet", "--no-check"] : [];
  const ending = child(process.execPath, [...flags, path("exit.mjs")]);
  assertEquals(await within(20_000, ending.line()), "LockDeadlockError");
  assertEquals((await within(20_000, ending.ended)).code, 0);
});

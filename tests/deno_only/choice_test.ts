/**
 * Which back end is taken where there is no kernel lock, and that whoever took
 * the PID file for it excludes everybody else. CASES row 48; what each errno of
 * flock(2) leads to is in errors_test.ts.
 */
import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { existsSync, readFileSync } from "node:fs";
import { Lock, LockTimeoutError } from "../../mod.ts";
import { type Agent, AgentError, type Kind, KINDS, mustBlock, type Place, test, within } from "../support/harness.ts";
import { names, recordIn } from "../support/pid_files.ts";

/** Lets agents work under an injected fault of flock(2); each must have been given it. */
async function injected(place: Place, kinds: readonly Kind[], code: string, use: (agents: Agent[]) => Promise<void>) {
  const log = (i: number) => place.path(`${i}.strace`);
  const by = (i: number) => ["strace", "-f", "--seccomp-bpf", "-qq", "-o", log(i), "-e", `inject=flock:error=${code}`];
  const agents = await Promise.all(kinds.map((kind, i) => place.agent(kind, { by: by(i) })));
  try {
    await use(agents);
  } finally {
    // Not killed: that would end strace and leave its agent.
    for (const agent of agents) agent.close();
    for (const agent of agents) await within(60_000, agent.ended);
  }
  for (const [i] of agents.entries()) assertStringIncludes(readFileSync(log(i), "utf8"), `${code} `);
}

/** Every pair of neighbours, so that each kind is once the first and once the second. */
const PAIRS = KINDS.map((kind, i) => [kind, KINDS[(i + 1) % KINDS.length]] as const);
const CODES = ["ENOLCK", "EOPNOTSUPP", "ENOSYS"];

for (const [i, [one, two]] of PAIRS.entries()) {
  const code = CODES[i % CODES.length];
  test(`tryAcquire() with backend "auto" after ${code} excludes the same in another process: ${one}, ${two}`, async (place) => {
    const { dir, path } = place;
    await injected(place, [one, two], code, async ([first, second]) => {
      for (const agent of [first, second]) await agent.lock(path());
      for (const [holder, other] of [[first, second], [second, first]]) {
        assertEquals(await holder.tryAcquire(), true);
        assertEquals(recordIn(path("a.lock.pid")).pid, holder.pid);
        assertEquals(await other.tryAcquire(), false);
        const waiting = await mustBlock(other.call("acquire", { name: "lock" }));
        await holder.release();
        await waiting.done(); // refused first, it must not have settled for a kernel lock that it never asked for
        const { backend, reason } = await other.call("backend", { name: "lock" });
        assertEquals(backend, "pidfile");
        assertMatch(reason, /there is no kernel lock on this file system/);
        assertEquals(await holder.tryAcquire(), false);
        await other.release();
        assertEquals(names(dir).filter((name) => name.includes(".pid")), []);
      }
    });
  });

  test(`tryAcquire() with backend "auto" after ${code} in ${one} excludes the kernel's lock in ${two}, and is excluded`, async (place) => {
    const { path } = place;
    const kernel = await place.agent(two);
    await kernel.lock(path());
    await injected(place, [one], code, async ([agent]) => {
      await agent.lock(path());
      assertEquals(await agent.tryAcquire(), true);
      assertEquals(await kernel.tryAcquire(), false);
      await agent.release();
      assertEquals(await kernel.tryAcquire(), true);
      assertEquals((await kernel.call("backend", { name: "lock" })).backend, "flock");
      assertEquals(await agent.tryAcquire(), false);
      const waiting = await mustBlock(agent.call("acquire", { name: "lock" }));
      await kernel.release();
      await waiting.done();
      assertEquals(await kernel.tryAcquire(), false);
      await agent.release();
    });
  });
}

test("tryAcquire() that once held the kernel's lock throws LockUnsupportedError when that is gone, and takes no PID file", async (place) => {
  const { path } = place;
  const log = path("strace");
  // Twice it works; giving the lock up is a close(2) and no call of flock(2).
  const inject = ["-e", "trace=flock", "-e", "inject=flock:error=ENOLCK:when=3+"];
  const agent = await place.agent("bun", { by: ["strace", "-f", "--seccomp-bpf", "-qq", "-o", log, ...inject] });
  await agent.lock(path());
  for (let i = 0; i < 2; i++) {
    assertEquals(await agent.tryAcquire(), true);
    await agent.release();
  }
  const error = await assertRejects(() => agent.tryAcquire(), AgentError);
  assertEquals([error.name, error.code], ["LockUnsupportedError", "ENOTSUP"]);
  assertEquals((await agent.call("backend", { name: "lock" })).backend, "flock");
  assert(!existsSync(path("a.lock.pid")));
  agent.close();
  await within(60_000, agent.ended);
});

/** Node 20 on a machine without flock(1): what is executable there is no more, for the agent alone. */
const WITHOUT_COMMAND = `for file in /usr/bin/flock /bin/flock /usr/local/bin/flock; do
  if [ -e $file ]; then mount --bind /dev/null $file || exit 1; fi
done
export PATH="$0"
exec "$@"`;
const bare = ({ agent, dir }: Place) => agent("node20", { by: ["unshare", "-m", "sh", "-c", WITHOUT_COMMAND, dir] });

test('tryAcquire() in Node 20 without flock(1) throws LockUnsupportedError with backend "flock", which says what is missing', async (place) => {
  const { dir, path } = place;
  const agent = await bare(place);
  for (const mode of ["exclusive", "shared"]) {
    await agent.lock(path(), { backend: "flock", mode });
    const error = await assertRejects(() => agent.tryAcquire(), AgentError);
    assertEquals([error.name, error.code, error.path], ["LockUnsupportedError", "ENOTSUP", path()]);
    assertMatch(error.message, /Node 20\S+ has no node:ffi.*there is no flock\(1\) command on the PATH/);
    assertEquals(names(dir), []);
  }
});

test('tryAcquire() in Node 20 without flock(1) takes the PID file with backend "auto", and says why', async (place) => {
  const { dir, path } = place;
  const [agent, twin] = [await bare(place), await bare(place)];
  for (const each of [agent, twin]) await each.lock(path());
  assertEquals(await agent.tryAcquire(), true);
  const { backend, reason } = await agent.call("backend", { name: "lock" });
  assertEquals(backend, "pidfile");
  assertMatch(reason, /Node 20\S+ has no node:ffi.*there is no flock\(1\) command on the PATH/);
  assertEquals(names(dir), ["a.lock.pid"]);
  assertEquals(await twin.tryAcquire(), false);
  const lock = new Lock(path());
  assertEquals(lock.tryAcquire(), false);
  const error = await assertRejects(() => lock.acquire({ timeout: 0 }), LockTimeoutError);
  assertStringIncludes(error.message, `held by pid ${agent.pid} (`);
  await agent.release();
  lock.acquireSync();
  assertEquals(lock.backend, "flock");
  assertEquals(await twin.tryAcquire(), false);
  lock.release();
  assertEquals(await twin.tryAcquire(), true);
  await agent.lock(path(), { mode: "shared" }, "shared");
  const unsupported = await assertRejects(() => agent.tryAcquire("shared"), AgentError, "cannot be held shared");
  assertEquals(unsupported.name, "LockUnsupportedError");
});

/**
 * Other PID namespaces, other mounts: what /proc/locks hides or shows there, and
 * inode numbers beyond 2^53.
 */
import { writeFileSync } from "node:fs";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { Lock } from "../../mod.ts";
import { readEntry } from "../../src/backend/entry.ts";
import { system } from "../../src/sys/mod.ts";
import { Agent, type Child, type Kind, KINDS, type Place, test } from "../support/harness.ts";
import { failure } from "../support/lockers.ts";
import { deadPid, leave, ownerOf, sleeper } from "../support/pid_files.ts";

const BACKENDS = ["flock", "pidfile"] as const;

/** An agent in a PID namespace of its own, which ends with it. */
async function inNamespace(kind: Kind, dir: string, fn: (agent: Agent, inside: number) => Promise<void>) {
  const by = ["unshare", "--kill-child", "-pf", "--mount-proc"];
  const agent = Agent.start(kind, { by, allow: dir });
  try {
    // Not ready(): the PID that it tells is some other process's here, and would be killed in the end.
    await fn(agent, JSON.parse(await agent.line()).ready);
  } finally {
    await agent.kill();
  }
}

for (
  const [what, mode, content] of [
    ["of a user's data, without a record", "exclusive", "the user's\n"],
    ["with a record", "exclusive", ""],
    ["shared", "shared", ""],
  ] as const
) {
  test(`tryAcquire() is false for each kind while a holder in another PID namespace has the kernel's lock ${what}`, async ({ dir, path, agent }) => {
    writeFileSync(path(), content);
    await inNamespace("node20", dir, async (holder, inside) => {
      await holder.lock(path(), { backend: "flock", mode });
      assertEquals(await holder.tryAcquire(), true);
      for (const kind of KINDS) {
        const user = await agent(kind);
        for (const backend of BACKENDS) {
          await user.lock(path(), { backend });
          assertEquals(await user.tryAcquire(), false, `${kind}, ${backend}`);
          const error = await failure(user.call("acquire", { name: "lock", options: { timeout: 0 } }));
          assert(!new RegExp(`\\bkill ${inside}\\b`).test(error.message), `${kind}, ${backend}: ${error.message}`);
        }
      }
      await holder.release();
      const lock = new Lock(path(), { backend: "pidfile" });
      assertEquals(lock.tryAcquire(), true);
      assertEquals(await holder.tryAcquire(), false);
      lock.release();
    });
  });
}

test("tryAcquire() in a PID namespace is false for each kind while a holder outside has the kernel's lock, and inspect() does not call it free", async ({ dir, path }) => {
  writeFileSync(path("data"), "the user's\n");
  const locks = [path(), path("data")].map((file) => new Lock(file, { backend: "flock" }).acquireSync());
  for (const kind of KINDS) {
    await inNamespace(kind, dir, async (user) => {
      for (const { path } of locks) {
        for (const backend of BACKENDS) {
          await user.lock(path, { backend });
          assertEquals(await user.tryAcquire(), false, `${kind}, ${backend}`);
          const error = await failure(user.call("acquire", { name: "lock", options: { timeout: 0 } }));
          assert(!/\bkill \d/.test(error.message), `${kind}, ${backend}: ${error.message}`);
        }
      }
      await user.lock(locks[0].path);
      const { state, reason } = await user.call("inspect", { name: "lock" });
      assertEquals(state, "unknown", `${kind}: ${reason}`);
      await user.lock(locks[1].path);
      const data = await user.call("inspect", { name: "lock" });
      assertMatch(data.reason, /a holder without a record would not be seen/, `${kind}: ${data.state}`);
    });
  }
  for (const lock of locks) lock.release();
});

/** A mount namespace, with what was mounted in it; it ends with its child. */
async function mounts({ child, dir }: Place, script: string): Promise<{ holder: Child; by: string[]; root: string }> {
  const holder = child("unshare", ["-m", "sh", "-euc", `cd "$0"\n${script}\necho mounted; exec cat`, dir]);
  assertEquals(await holder.line(), "mounted", holder.errors);
  return { holder, by: ["nsenter", "-t", String(holder.pid), "-m"], root: `/proc/${holder.pid}/root` };
}

test("inspect() calls a lock free while another tmpfs has a held one with the same inode number", async (place) => {
  const { path, child } = place;
  const { by, root } = await mounts(place, "for m in x y; do mkdir $m; mount -t tmpfs none $m; echo > $m/a.lock; done");
  const inode = (file: string) => system().stat(`${root}${path(file)}`)?.inode;
  assertEquals(inode("x/a.lock"), inode("y/a.lock"), "it would show nothing");
  const held = child(by[0], [...by.slice(1), "flock", "-F", path("x/a.lock"), "sh", "-c", "echo granted; exec cat"]);
  assertEquals(await held.line(), "granted");
  for (const kind of KINDS.filter((kind) => kind !== "deno-no-ffi")) { // which may not read /proc/locks
    const user = await place.agent(kind, { by });
    for (const [file, state] of [["x/a.lock", "held"], ["y/a.lock", "free"]]) {
      await user.lock(path(file));
      const status = await user.call("inspect", { name: "lock" });
      assertEquals(status.state, state, `${kind}, ${file}: ${status.reason}`);
    }
  }
});

/** A file of the lower of two file systems has its number in the highest bits of the inode's. */
const OVERLAY = `mkdir l u m; mount -t tmpfs none l; mount -t tmpfs none u; mkdir u/up u/work
for f in a.lock kernel.lock dead.lock; do touch l/$f; done; echo "$DEAD" > l/dead.lock.pid
mount -t overlay none -o lowerdir=l,upperdir=u/up,workdir=u/work,xino=on m`;

/** An overlay whose old files have inode numbers beyond 2^53. */
async function overlay(place: Place, dead: number) {
  const { by, root } = await mounts(place, `DEAD=${dead}\n${OVERLAY}`);
  const file = (name: string) => place.path(`m/${name}`);
  const inode = BigInt(system().stat(`${root}${file("a.lock")}`)?.inode ?? 0);
  assert(inode > 2n ** 53n, `overlayfs with xino=on has no large inode numbers here: ${inode}`);
  return { by, root, file };
}

test("tryAcquire() excludes, and release() works, in each kind where inode numbers are beyond 2^53", async (place) => {
  const { by, file } = await overlay(place, deadPid());
  const agents = await Promise.all(KINDS.map((kind) => place.agent(kind, { by })));
  for (const [i, holder] of agents.entries()) {
    const other = agents[(i + 1) % agents.length];
    for (const [one, two] of [["flock", "flock"], ["flock", "pidfile"], ["pidfile", "flock"], ["pidfile", "pidfile"]]) {
      const who = `${holder.kind} by ${one}, ${other.kind} by ${two}`;
      await holder.lock(file("a.lock"), { backend: one });
      await other.lock(file("a.lock"), { backend: two });
      assertEquals([await holder.tryAcquire(), await other.tryAcquire()], [true, false], who);
      await holder.release();
      assertEquals([await other.tryAcquire(), await holder.tryAcquire()], [true, false], who);
      await other.release();
    }
    assertEquals(await holder.call("stale"), []);
  }
});

test("inspect() sees flock(1) and names it in each kind where inode numbers are beyond 2^53", async (place) => {
  const { by, file } = await overlay(place, deadPid());
  const script = ["flock", "-F", file("kernel.lock"), "sh", "-c", "echo granted; exec cat"];
  const stranger = place.child(by[0], [...by.slice(1), ...script]);
  assertEquals(await stranger.line(), "granted");
  for (const kind of KINDS.filter((kind) => kind !== "deno-no-ffi")) { // which may not read /proc/locks
    const user = await place.agent(kind, { by });
    await user.lock(file("kernel.lock"));
    const { state, holder, reason } = await user.call("inspect", { name: "lock" });
    assertEquals([state, holder?.pid], ["held", stranger.pid], `${kind}: ${reason}`);
  }
});

test("tryAcquire() by PID file finds another kind's takeover of a bare PID file whose inode number is beyond 2^53", async (place) => {
  const { by, root, file } = await overlay(place, deadPid());
  const entry = readEntry(system(), `${root}${file("dead.lock")}`, `${root}${file("dead.lock.pid")}`);
  assertEquals(entry?.owner.state, "dead");
  // A takeover by a live process, under the name that this runtime gives to the dead one.
  leave(`${root}${file(`dead.lock.pid.${entry?.nonce}`)}`, ownerOf(sleeper(place)));
  const agents = await Promise.all(
    KINDS.filter((kind) => kind !== "deno-no-ffi").map((kind) => place.agent(kind, { by })), // which cannot tell who is dead
  );
  for (const user of agents) {
    await user.lock(file("dead.lock"), { backend: "pidfile" });
    assertEquals(await user.tryAcquire(), false, user.kind);
  }
  system().unlink(`${root}${file(`dead.lock.pid.${entry?.nonce}`)}`);
  const granted = await Promise.all(agents.map((user) => user.tryAcquire()));
  assertEquals(granted.filter(Boolean).length, 1, granted.join());
});

/** Two containers' worth of namespaces, with the lock's folder in both. */
import { join } from "node:path";
import { Agent, type Kind } from "../../support/harness.ts";
import { soon, type Wrong } from "./site.ts";

const BY = ["unshare", "--kill-child", "-pf", "--mount-proc", "-u"];

/** An agent in namespaces of its own. Not `ready()`: the PID that it tells is another process's out here. */
async function container(kind: Kind, dir: string): Promise<Agent> {
  const agent = Agent.start(kind, { by: BY, allow: dir });
  await soon(agent.line());
  return agent;
}

/** The kernel lock knows no containers; a PID file's owner cannot be judged across them, and is held. */
export async function betweenContainers(kind: Kind, dir: string, wrong: Wrong): Promise<void> {
  const path = join(dir, "containers.lock");
  const [one, two] = [await container(kind, dir), await container(kind, dir)];
  try {
    for (const backend of ["flock", "pidfile"]) {
      for (const each of [one, two]) await each.lock(path, { backend });
      for (const [holder, other] of [[one, two], [two, one]]) {
        wrong.expect(`by ${backend} on a free lock`, await soon(holder.tryAcquire()), true);
        wrong.expect(`by ${backend} while the other container holds`, await soon(other.tryAcquire()), false);
        const { state } = await soon(other.call("inspect", { name: "lock" }));
        wrong.expect(`called free by the other container, held by ${backend}`, state === "free", false);
        await soon(holder.release());
      }
    }
    for (const backend of ["flock", "pidfile"]) {
      const victim = await container(kind, dir);
      await victim.lock(path, { backend });
      wrong.expect(`a third by ${backend}`, await soon(victim.tryAcquire()), true);
      await victim.kill();
      // A container that is gone as a whole: by the kernel it is free, by a PID file it cannot be known.
      await one.lock(path, { backend, onStale: undefined });
      // unshare has ended, and what it ran ends a moment later.
      const end = performance.now() + (backend === "flock" ? 10_000 : 0);
      let granted = false;
      while (!(granted = await soon(one.tryAcquire())) && performance.now() < end);
      wrong.expect(`by ${backend} after the end of the container that held`, granted, backend === "flock");
      if (granted) await soon(one.release());
    }
  } finally {
    for (const each of [one, two]) await each.kill();
  }
}

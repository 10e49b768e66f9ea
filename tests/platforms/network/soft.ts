/** A soft mount whose server has stopped: a typed error, in bounded time, and no lock that nobody has. */
import { assert, assertEquals } from "@std/assert";
import { execFileSync } from "node:child_process";
import { Agent, type Kind, within } from "../../support/harness.ts";

/** Once it took over a minute. */
const PATIENCE = 120_000;

/** What the kernel answers when it has asked often enough. */
const CODES = ["EIO", "ETIMEDOUT"];

/** What is wrong, by kind; nothing where all is well. Afterwards nothing on the server's mounts can be used any more. */
export async function onStoppedServer(kinds: readonly Kind[]): Promise<Map<Kind, string | undefined>> {
  const agents = await Promise.all(kinds.map((kind) => Agent.start(kind, { allow: "/m" }).ready()));
  for (const agent of agents) {
    await agent.lock(`/m/soft/${agent.kind}.lock`);
    assertEquals(await agent.tryAcquire(), true, `${agent.kind}, while the server runs`);
    await agent.release();
  }
  execFileSync("rpc.nfsd", ["0"]);
  const results = new Map<Kind, string | undefined>();
  await Promise.all(agents.map(async (agent) => {
    const began = performance.now();
    try {
      const error = await within(PATIENCE, agent.tryAcquire().then((value) => ({ value }), (error) => error));
      const took = `after ${Math.round((performance.now() - began) / 1000)} s`;
      assert("code" in error, `${took} the try was ${error.value}`);
      assertEquals([error.name, CODES.includes(error.code)], ["LockError", true], `${took} ${error.message}`);
      console.log(`${agent.kind}: ${error.code} ${took}`);
      results.set(agent.kind, undefined);
    } catch (error) {
      results.set(agent.kind, String(error));
    }
  }));
  for (const agent of agents) void agent.kill(); // one that hangs in the kernel cannot be waited for
  return results;
}

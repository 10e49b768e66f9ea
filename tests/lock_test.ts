import { assertEquals } from "@std/assert";
import { Lock } from "../mod.ts";
import { test } from "./support/harness.ts";

test("tryAcquire() is false while another process holds the lock", async ({ path, agent }) => {
  const holder = await agent();
  await holder.lock(path());
  assertEquals(await holder.tryAcquire(), true);
  const lock = new Lock(path());
  assertEquals(lock.tryAcquire(), false);
  await holder.release();
  assertEquals(lock.tryAcquire(), true);
  lock.release();
});

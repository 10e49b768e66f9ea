/** `holdfast history`: the acquisitions that have no end in the journal. */
import { assertEquals } from "@std/assert";
import { hostname } from "node:os";
import process from "node:process";
import { Lock } from "../../mod.ts";
import { holdsNow, unended } from "../../src/cli/unended.ts";
import { LockHolder } from "../../src/record/record.ts";
import { test } from "../support/harness.ts";
import { deadOwner, leave } from "../support/pid_files.ts";

test("holdfast history counts a crash once, and nobody of another host as holding it now", ({ path }) => {
  const event = {
    at: "2026-11-30T10:00:00.000Z",
    path: path(),
    mode: "exclusive",
    pid: process.pid,
    host: "a",
  } as const;
  const acquired = { ...event, event: "acquired" } as const;
  // A torn record tells of the number alone.
  const stale = { ...event, event: "stale", pid: 4711, holder: new LockHolder({ pid: process.pid }) } as const;
  assertEquals(unended([acquired, stale]), []);
  assertEquals(unended([acquired, { ...event, event: "released", host: "b" }]), [acquired]);
  const lock = new Lock(path());
  assertEquals(lock.tryAcquire(), true);
  assertEquals(holdsNow(path())(acquired), false);
  assertEquals(holdsNow(path())({ ...acquired, host: hostname() }), true);
  lock.release();
  // Deno without FFI tells neither its record nor the journal its host.
  const record = { ...deadOwner(), pid: process.pid, host: undefined, bootId: undefined, pidNamespace: undefined };
  leave(`${path()}.pid`, record);
  assertEquals(holdsNow(path())({ ...acquired, host: undefined }), true);
  assertEquals(holdsNow(path())({ ...acquired, host: hostname() }), false);
});

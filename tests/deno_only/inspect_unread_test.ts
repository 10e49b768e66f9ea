/**
 * A lock file that can be opened and not be read: what an SMB server does with
 * one that is locked through another mount, which this kernel does not list.
 */
import { assertEquals, assertMatch } from "@std/assert";
import { readFileSync, writeFileSync } from "node:fs";
import { describe } from "../../src/inspect/describe.ts";
import { inspectPath } from "../../src/inspect/inspect.ts";
import { system } from "../../src/sys/mod.ts";
import { type System, SystemError } from "../../src/sys/contract.ts";
import { KINDS, test } from "../support/harness.ts";
import { underStrace } from "../support/lockers.ts";

/** A machine on which no file can be read once it is open, and whose files are on this file system. */
const unread = (fileSystem: string | undefined): System => ({
  ...system(),
  fileSystem: () => fileSystem,
  openRead(path) {
    const file = system().openRead(path);
    return file && {
      ...file,
      stat: () => file.stat(),
      close: () => file.close(),
      read() {
        throw new SystemError("EACCES", "permission denied, read");
      },
    };
  },
});

test("inspect() takes a file on SMB that can be opened and not be read for held, and elsewhere does not know", ({ path }) => {
  writeFileSync(path(), "");
  const held = inspectPath(unread("cifs"), path());
  assertEquals([held.state, held.backend, held.mode, held.holders], ["held", "flock", "exclusive", []], held.reason);
  assertEquals([held.unread, describe(unread("cifs"), path(), { token: undefined }).unread], [true, true]);
  assertMatch(held.reason, /its SMB server refuses every reader, as it does while another mount or host has it locked/);
  for (const fileSystem of ["local", "nfs", undefined]) {
    const { state, holders, unread: isUnread, reason } = inspectPath(unread(fileSystem), path());
    assertEquals([state, holders, isUnread], ["unknown", [], true], reason);
    assertMatch(reason, /^the kernel shows no lock on it, but it can be opened and not be read/);
  }
});

test("inspect() in each kind does not say free of a file whose read(2) answers EACCES", async ({ path, agent }) => {
  writeFileSync(path(), "");
  for (const kind of KINDS) {
    const log = path(`${kind}.strace`);
    const calls = "read,pread64";
    const inject = ["-P", path(), "-e", `trace=${calls}`, "-e", `inject=${calls}:error=EACCES`];
    await underStrace(agent, kind, log, inject, async (viewer) => {
      const { state, reason } = await viewer.call("look", { path: path() });
      assertEquals(state, "unknown", `${kind}: ${reason}`);
    });
    assertMatch(readFileSync(log, "utf8"), /EACCES.*INJECTED/, kind);
  }
});

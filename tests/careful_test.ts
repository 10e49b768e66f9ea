/** The race between a look at a path and the open: what another process puts there in between. */
import { assertEquals, assertThrows } from "@std/assert";
import { type Making, openAsItStands } from "../src/sys/careful.ts";
import { type FileStat, type OpenFile, SystemError } from "../src/sys/contract.ts";
import { test } from "./support/harness.ts";

type Kind = FileStat["kind"];
const statOf = (identity: string, kind: Kind = "file"): FileStat => ({
  kind,
  identity,
  inode: "1",
  size: 0,
  changed: 0,
});

/** A path whose looks and opens come to what is given, each in its turn; the last of each is repeated. */
function path(looks: (FileStat | undefined)[], opens: (string | SystemError)[]) {
  const log: string[] = [];
  const next = <T>(from: T[]): T => from.length > 1 ? from.shift()! : from[0]; // `!`: there is one
  const lstat = () => next(looks);
  const open = (how: string): OpenFile => {
    const outcome = next(opens);
    log.push(how);
    if (outcome instanceof SystemError) throw outcome;
    const file: Partial<OpenFile> = { stat: () => statOf(outcome), close: () => log.push(`close ${outcome}`) };
    return file as OpenFile; // the cast: nothing else of it is called
  };
  return { log, openFor: (making: Making) => openAsItStands("P", making, { lstat, open }).stat().identity };
}

const failure = (code: string) => new SystemError(code, code);

test("openAsItStands() refuses what is no regular file, and opens nothing", () => {
  const codes: Partial<Record<Kind, string>> = {
    symlink: "ELOOP",
    directory: "EISDIR",
    socket: "ENXIO",
    fifo: "EINVAL",
    device: "EINVAL",
  };
  for (const [kind, code] of Object.entries(codes)) {
    const { log, openFor } = path([statOf("1", kind as Kind)], ["1"]); // the cast: they are its keys
    const error = assertThrows(() => openFor("may"), SystemError, `"P" is a ${kind}`);
    assertEquals([error.code, log], [code, []]);
  }
});

test("openAsItStands() closes another file than the one that it looked at, such as a link's target, and looks again", () => {
  for (const making of ["may", "never"] as const) {
    const { log, openFor } = path([statOf("1"), statOf("2")], ["target", "2"]);
    assertEquals(openFor(making), "2");
    assertEquals(log, ["existing", "close target", "existing"]);
  }
});

test("openAsItStands() opens nothing where a link may come to stand after the look, but what it makes itself", () => {
  const missing = path([undefined], ["target"]);
  assertEquals(assertThrows(() => missing.openFor("never"), SystemError).code, "ENOENT");
  assertEquals(missing.log, []);
  const made = path([undefined, statOf("2")], [failure("EEXIST"), "2"]);
  assertEquals(made.openFor("may"), "2");
  assertEquals(made.log, ["new", "existing"]);
  const gone = path([statOf("1"), undefined], [failure("ENOENT"), "2"]);
  assertEquals(gone.openFor("may"), "2");
  assertEquals(gone.log, ["existing", "new"]);
  const linked = path([undefined, statOf("9", "symlink")], [failure("EEXIST")]);
  assertEquals(assertThrows(() => linked.openFor("may"), SystemError).code, "ELOOP");
});

test("openAsItStands() says EEXIST of what must not exist, and every other failure at once", () => {
  const there = path([statOf("1")], ["1"]);
  assertEquals(assertThrows(() => there.openFor("must"), SystemError).code, "EEXIST");
  const faster = path([undefined], [failure("EEXIST")]);
  assertEquals(assertThrows(() => faster.openFor("must"), SystemError).code, "EEXIST");
  for (const [before, code] of [[undefined, "ENOENT"], [statOf("1"), "EACCES"]] as const) {
    const { log, openFor } = path([before], [failure(code)]);
    assertEquals(assertThrows(() => openFor("may"), SystemError).code, code);
    assertEquals(log.length, 1, code);
  }
});

test("openAsItStands() gives up with ESTALE where the path changes again and again, and leaves nothing open", () => {
  const replaced = path([statOf("1")], ["target"]);
  assertEquals(assertThrows(() => replaced.openFor("never"), SystemError).code, "ESTALE");
  assertEquals(replaced.log.length, 200);
  assertEquals(replaced.log.filter((each) => each === "close target").length, 100);
  const flickering = path([undefined], [failure("EEXIST")]);
  assertEquals(assertThrows(() => flickering.openFor("may"), SystemError).code, "ESTALE");
});

/** The verdict on an owner for every combination of known, different and unknown facts. */
import { assert, assertEquals } from "@std/assert";
import { judge } from "../../src/record/owner.ts";
import { type Case, faults, given, RELATIONS, right } from "../support/owner_table.ts";
import { test } from "../support/harness.ts";

const NAMESPACES = {
  "both in the initial one": ["equal", "4026531836", "4026531836"],
  "both in one container": ["equal", "4026532201", "4026532201"],
  "reader in a container": ["different", "4026532201", "4026531836"],
  "owner in a container": ["different", "4026531836", "4026532201"],
  "unknown here": ["unknown here", undefined, "4026531836"],
  "unknown there": ["unknown there", "4026531836", undefined],
  "unknown": ["unknown on both sides", undefined, undefined],
} as const;

const ALL_EQUAL: Case = {
  boot: "equal",
  namespaces: NAMESPACES["both in the initial one"],
  time: "equal",
  host: "equal",
  start: "equal",
  user: "equal",
  found: "a process",
  local: true,
  seen: "local",
};

/** The rows that people ask about: what differs from "all is equal, the disk is local, and a process has the number". */
const ROWS: [what: string, differs: Partial<Case>, state: "alive" | "dead" | "unknown"][] = [
  ["all is equal, and it lives", {}, "alive"],
  ["all is equal, and the number is gone", { found: "nothing" }, "dead"],
  ["all is equal, and the number is a later process's", { start: "different" }, "dead"],
  ["the start time is not in the record", { start: "unknown there" }, "alive"],
  ["the start time cannot be seen", { start: "unknown here" }, "alive"],
  ["another user's", { user: "different" }, "alive"],
  // Another boot.
  ["the machine was restarted", { boot: "different" }, "dead"],
  ["restarted, on a network disk", { boot: "different", local: false }, "unknown"],
  ["a guest of the same name, in a shared folder of the reader's", { boot: "different", seen: "vboxsf" }, "unknown"],
  ["restarted, and called otherwise since", { boot: "different", host: "different" }, "unknown"],
  ["restarted, and the host's name is not known", { boot: "different", host: "unknown there" }, "unknown"],
  [
    "a system container beside its host, of the same name",
    { boot: "different", namespaces: NAMESPACES["owner in a container"] },
    "unknown",
  ],
  [
    "the host, as its system container sees it",
    { boot: "different", namespaces: NAMESPACES["reader in a container"], found: "nothing" },
    "unknown",
  ],
  [
    "two system containers whose namespaces have one number by chance",
    { boot: "different", namespaces: NAMESPACES["both in one container"], found: "nothing" },
    "unknown",
  ],
  // The same kernel under another name.
  ["the host was renamed, and it ended", { host: "different", found: "nothing" }, "dead"],
  ["the host was renamed, and it lives", { host: "different" }, "alive"],
  [
    "a container whose host name is random, restarted within its namespace",
    { host: "different", namespaces: NAMESPACES["both in one container"], found: "nothing" },
    "dead",
  ],
  ["the host's name is not known", { host: "unknown on both sides", found: "nothing" }, "dead"],
  ["another host's name, on a network disk", { host: "different", found: "nothing", local: false }, "unknown"],
  ["no host's name, on a network disk", { host: "unknown here", found: "nothing", local: false }, "unknown"],
  ["all is equal, on a network disk", { found: "nothing", local: false }, "dead"],
  // Deno without FFI, here or there.
  ["the reader does not know its namespace", { namespaces: NAMESPACES["unknown here"], found: "nothing" }, "unknown"],
  ["the record has no namespace", { namespaces: NAMESPACES["unknown there"], found: "nothing" }, "unknown"],
  ["neither knows a namespace", { namespaces: NAMESPACES.unknown, found: "nothing" }, "unknown"],
  ["the record has no boot", { boot: "unknown there", found: "nothing" }, "unknown"],
  ["neither knows a boot", { boot: "unknown on both sides", found: "nothing" }, "unknown"],
  ["a living process has the number, and the reader knows nothing", { namespaces: NAMESPACES.unknown }, "unknown"],
  // Containers of one machine.
  ["an owner in a container", { namespaces: NAMESPACES["owner in a container"], found: "nothing" }, "unknown"],
  ["a reader in a container", { namespaces: NAMESPACES["reader in a container"], found: "nothing" }, "unknown"],
  // Time namespaces shift start times.
  ["another start time of another time namespace", { start: "different", time: "different" }, "unknown"],
  ["another start time, and no time namespace here", { start: "different", time: "unknown here" }, "unknown"],
  ["another start time, and no time namespace there", { start: "different", time: "unknown there" }, "unknown"],
  ["another time namespace, and the number is gone", { time: "different", found: "nothing" }, "dead"],
  ["it may not be asked", { found: "no answer" }, "unknown"],
];

for (const [what, differs, state] of ROWS) {
  test(`judge() says ${state}: ${what}`, () => {
    const each = { ...ALL_EQUAL, ...differs };
    assertEquals([judge(...given(each)).state, right(each)], [state, state]);
  });
}

test("judge() is right in every combination of facts, and says dead of no owner that may live", () => {
  assertEquals(faults(judge), []);
});

test("judge() says why it does not know, in every combination, and what shows it", () => {
  for (const boot of RELATIONS) {
    for (const namespaces of Object.values(NAMESPACES)) {
      for (const host of RELATIONS) {
        for (const local of [true, false]) {
          const each = { ...ALL_EQUAL, boot, namespaces, host, local };
          const { state, reason } = judge(...given(each));
          if (state !== "unknown") continue;
          assert(/^[^;]{12,};.*"ps -o pid,lstart,args -p 4711" shows whether it lives$/.test(reason), reason);
          assert(!/undefined|kill/.test(reason), reason);
        }
      }
    }
  }
});

test("judge() goes by the number alone where nothing says where it is from, as of another program's PID file", () => {
  const [{ pid }, processes] = given({ ...ALL_EQUAL, namespaces: NAMESPACES.unknown });
  assertEquals(judge({ pid }, processes).state, "alive");
  const [, gone] = given({ ...ALL_EQUAL, namespaces: NAMESPACES.unknown, found: "nothing" });
  assertEquals(judge({ pid }, gone).state, "dead");
  // A record of this library has more than that, however little its writer knew.
  for (const fields of [{ nonce: "1" }, { runtime: "deno/2.9.6" }, { host: "web-1" }]) {
    assertEquals(judge({ pid, ...fields }, gone).state, "unknown");
  }
});

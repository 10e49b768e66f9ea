/** src/sys/proc.ts and src/sys/locks.ts: what the system's own texts say. */
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import process from "node:process";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { Lock } from "../mod.ts";
import { LockTable } from "../src/sys/locks.ts";
import { system } from "../src/sys/mod.ts";
import {
  namespaceOf,
  parsePs,
  parseStat,
  processInfo,
  type Reader,
  showsOwnNamespace,
  surroundings,
} from "../src/sys/proc.ts";
import type { FileStat } from "../src/sys/contract.ts";
import { ownKind, test } from "./support/harness.ts";
import { needs } from "./support/needs.ts";

/** Fields 4 to 21 of proc(5), then the start time, then 23 to 52. */
const REST = `1 4711 4711 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 1 0 8731234 ${"0 ".repeat(30).trim()}\n`;

test("parseStat() counts from the last parenthesis, whatever the name holds", () => {
  const names = ["sleep", "a b", ") Z (", "x) Z 1 2 3", "((()))", ")", "(", "", "a\nb) Z (", "Web Content", "1) R 1 1"];
  for (const name of names) {
    assertEquals(parseStat(`4711 (${name}) S ${REST}`), { state: "S", startTime: "8731234" }, name);
    assertEquals(parseStat(`4711 (${name}) Z ${REST}`)?.state, "Z", name);
  }
});

test("parseStat() keeps a start time as text, whatever its size", () => {
  const huge = "18446744073709551615";
  assertEquals(parseStat(`1 (a) R ${REST.replace("8731234", huge)}`), { state: "R", startTime: huge });
  assertEquals(parseStat(`1 (a) R ${REST.replace("8731234", "0")}`)?.startTime, "0"); // a kernel thread
});

test("parseStat() is undefined for a text that ends too early", () => {
  const whole = `4711 (sleep) S ${REST}`;
  const end = whole.indexOf("8731234");
  for (let length = 0; length <= end; length++) assertEquals(parseStat(whole.slice(0, length)), undefined, `${length}`);
});

/** A system that is made of texts. */
const reader = (files: Record<string, string>, ps?: string): Reader & { asked: string[][] } => {
  const asked: string[][] = [];
  const text = (path: string) => files[path];
  return {
    asked,
    text,
    link: text,
    list: () => undefined,
    stat: () => undefined,
    ps: (args) => (asked.push(args), ps),
  };
};

test("processInfo() on Linux reads stat, status and cmdline", () => {
  const files = {
    "/proc/7/task/7/stat": `7 (a) Z (b) T ${REST}`,
    "/proc/7/status": "Name:\tTgid: 1\nUmask:\t0022\nTgid:\t4711\nNgid:\t0\nPid:\t7\nUid:\t1000\t0\t0\t0\n",
    "/proc/7/cmdline": "deno\0run\0a b.ts\0\0",
  };
  const found = { state: "T", startTime: "8731234", threadGroup: 4711, uid: 1000, command: "deno run a b.ts" };
  for (const platform of ["linux", "android"]) assertEquals(processInfo(platform, 7, reader(files)), found);
  // A kernel thread and a zombie have no command line; what may not be read is left out.
  const bare = { ...files, "/proc/7/cmdline": "", "/proc/7/status": "" };
  assertEquals(processInfo("linux", 7, reader(bare)), {
    ...found,
    threadGroup: undefined,
    uid: undefined,
    command: undefined,
  });
  assertEquals(
    processInfo("linux", 7, reader({ "/proc/7/task/7/stat": files["/proc/7/task/7/stat"] }))?.startTime,
    "8731234",
  );
  // What may be read of a process may be a short list (AppArmor).
  assertEquals(processInfo("linux", 7, reader({ "/proc/7/stat": files["/proc/7/task/7/stat"] }))?.startTime, "8731234");
  assertEquals(processInfo("linux", 8, reader(files)), undefined);
  assertEquals(processInfo("linux", 7, reader({ ...files, "/proc/7/task/7/stat": "" })), undefined);
});

/**
 * What FreeBSD's ps makes of its options (bin/ps/keyword.c, parsefmt()): of a list of keywords one with a `=` is the
 * last, because all that follows is the text of its header. Where no header has a text there is no line of them.
 */
function freebsdPs(args: readonly string[]): string {
  const columns: [keyword: string, header: string][] = [];
  args.forEach((arg, i) => {
    if (args[i - 1] !== "-o") return;
    const [keywords, ...header] = arg.split("=");
    for (const keyword of keywords.split(",")) columns.push([keyword, ""]);
    columns[columns.length - 1][1] = header.join("=");
  });
  const values: Record<string, string> = { lstart: "Sun Nov 29 17:00:00 2026", stat: "Ss", args: "/sbin/launchd" };
  const lines = [columns.map(([keyword]) => values[keyword])];
  if (columns.some(([, header]) => header !== "")) lines.unshift(columns.map(([, header]) => header));
  return lines.map((line) => `${line.join("     ")}\n`).join("");
}

test("processInfo() elsewhere asks ps for one process, as ps takes it there", () => {
  for (const platform of ["darwin", "freebsd"]) {
    const ps = reader({}, "");
    const found = processInfo(platform, 4711, { ...ps, ps: (args) => (ps.ps(args), freebsdPs(args)) });
    assertEquals([found?.state, found?.command], ["S", "/sbin/launchd"]);
    assertEquals(ps.asked.map((args) => args.slice(-2)), [["-p", "4711"]]);
    assertEquals(processInfo(platform, 4711, reader({}, undefined)), undefined);
  }
});

test("processInfo() elsewhere gives this machine's ps options that it knows too", () => {
  needs("/bin/ps");
  const ps = (args: string[]) => execFileSync("/bin/ps", args, { encoding: "utf8", env: { LC_ALL: "C", TZ: "UTC" } });
  const { startTime, command } = processInfo("darwin", process.pid, { ...reader({}), ps }) ?? {};
  assertMatch(String(startTime), /^\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}$/);
  assertMatch(String(command), ownKind === "node26" ? /node/ : new RegExp(ownKind));
});

test("processInfo() says of this very process what the kernel says", () => {
  if (process.platform !== "linux") throw new Error("only run on Linux");
  const { processInfo } = system();
  const found = processInfo(process.pid);
  // Others have to see the same: what it reads of itself may be its emulator's invention.
  const stat = execFileSync("cat", [`/proc/${process.pid}/stat`], { encoding: "utf8" });
  assertEquals(found?.startTime, stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]);
  assertEquals(found?.threadGroup, process.pid);
  assertMatch(String(found?.command), ownKind === "node26" ? /node/ : new RegExp(ownKind));
  assertEquals(processInfo(2 ** 31 - 1), undefined); // beyond pid_max
});

// As ps(1) of macOS 14 and of FreeBSD 14 print `lstart=,stat=,args=` in the C locale.
const LINES: [string, { startTime: string; state: string; command: string | undefined }][] = [
  ["Sun Nov 29 17:00:00 2026     Ss     /sbin/launchd\n", {
    startTime: "Sun Nov 29 17:00:00 2026",
    state: "S",
    command: "/sbin/launchd",
  }],
  ["Tue Mar  3 04:05:06 2026 S+   deno run a b.ts  --x", {
    startTime: "Tue Mar  3 04:05:06 2026",
    state: "S",
    command: "deno run a b.ts  --x",
  }],
  ["Tue Mar  3 04:05:06 2026     Z      (node)  ", {
    startTime: "Tue Mar  3 04:05:06 2026",
    state: "Z",
    command: "(node)",
  }],
  ["Tue Mar  3 04:05:06 2026     Z+     <defunct>", {
    startTime: "Tue Mar  3 04:05:06 2026",
    state: "Z",
    command: "<defunct>",
  }],
  ["Thu Jan  1 00:00:00 1970     DLs    [kernel]", {
    startTime: "Thu Jan  1 00:00:00 1970",
    state: "D",
    command: "[kernel]",
  }],
  ["Thu Jan  1 00:00:00 1970 Is", { startTime: "Thu Jan  1 00:00:00 1970", state: "I", command: undefined }],
];

test("parsePs() reads start time, state and command of macOS", () => {
  for (const [line, found] of LINES) assertEquals(parsePs(line, "darwin"), { ...found }, line);
});

test("parsePs() leaves the start time out on FreeBSD, where it moves with the wall clock", () => {
  for (const [line, { state, command }] of LINES) {
    assertEquals(parsePs(line, "freebsd"), { state, command, jailed: false }, line);
  }
});

test("parsePs() sees a jail in FreeBSD's state, but not in its first letter or in the command", () => {
  const jailed = (state: string, args = "J") => parsePs(`Tue Mar  3 04:05:06 2026 ${state} ${args}`, "freebsd")?.jailed;
  assertEquals(["SJ", "IsJ", "R+J", "SCJ"].map((state) => jailed(state)), [true, true, true, true]);
  assertEquals(["S", "Is+", "J"].map((state) => jailed(state)), [false, false, false]);
});

test("parsePs() is undefined for what is no line of ps", () => {
  const lines = [
    "",
    "\n",
    "ps: illegal option",
    "Sun Nov 29 17:00:00 2026",
    "So. 29 Nov. 17:00:00 2026 S x",
    "4711 S sleep",
  ];
  for (const line of lines) assertEquals(parsePs(line, "darwin"), undefined, line);
});

test("surroundings() are the boot and the PID namespace, and nothing where they are hidden", () => {
  const files = { "/proc/sys/kernel/random/boot_id": "198cc724\n", "/proc/self/ns/pid": "pid:[4026531836]" };
  const here = { bootId: "198cc724", pidNamespace: "4026531836", timeNamespace: undefined }; // not known, so not the first
  assertEquals(surroundings(reader(files)), here);
  const time = (number: string) => surroundings(reader({ ...files, "/proc/self/ns/time": `time:[${number}]` }));
  assertEquals(time("4026531834"), { ...here, timeNamespace: "4026531834" });
  assertEquals(time("4026532000"), { ...here, timeNamespace: "4026532000" });
  // A kernel that knows none has one clock; one that hides them may have many.
  const listing = (names: string[] | undefined) => surroundings({ ...reader(files), list: () => names }).timeNamespace;
  assertEquals([["mnt", "pid"], ["pid", "time"], undefined].map(listing), ["4026531834", undefined, undefined]);
  const nothing = { bootId: undefined, pidNamespace: undefined, timeNamespace: undefined };
  assertEquals(surroundings(reader({})), nothing);
  const odd = { "/proc/sys/kernel/random/boot_id": "\n", "/proc/self/ns/pid": "mnt:[1]" };
  assertEquals(surroundings(reader(odd)), nothing);
});

test("showsOwnNamespace() is false where the numbers in /proc are those of another PID namespace", () => {
  const shows = (status: string | undefined) =>
    showsOwnNamespace(reader(status === undefined ? {} : { "/proc/self/status": `Name:\tx\n${status}PPid:\t1\n` }), 7);
  assertEquals(shows("Pid:\t7\nNSpid:\t7\n"), true);
  assertEquals(shows("Pid:\t7\n"), true); // before Linux 4.1
  assertEquals(shows("Pid:\t4711\n"), false);
  assertEquals(shows("Pid:\t4711\nNSpid:\t4711\t7\n"), false); // an outer one's
  assertEquals(shows("Pid:\t7\nNSpid:\t7\t7\n"), false); // its number there happens to be the same
  assertEquals(shows(undefined), false); // an inner one's, where this process has no number
});

test("namespaceOf() is the system's name on macOS, and on FreeBSD whether it is a jail, if that is known", () => {
  assertEquals([true, false, undefined].map((jailed) => namespaceOf("freebsd", jailed)), ["jail", "host", undefined]);
  assertEquals([namespaceOf("darwin", undefined), namespaceOf("linux", undefined)], ["darwin", undefined]);
});

/** A file of that device and inode; the rest is not looked at. */
const file = (dev: number | bigint, inode: string): FileStat => ({
  kind: "file",
  identity: `${dev}:${inode}`,
  inode,
  size: 0,
  changed: 0,
});

// Device fd:00 (253, 0) is dev_t 64768.
const PROC_LOCKS = `1: FLOCK  ADVISORY  WRITE 4711 fd:00:2146371 0 EOF
1: -> FLOCK  ADVISORY  WRITE 4712 fd:00:2146371 0 EOF
2: FLOCK  ADVISORY  READ  4713 fd:00:99 0 EOF
3: FLOCK  ADVISORY  READ  4714 fd:00:99 0 EOF
3: -> FLOCK  ADVISORY  WRITE 4715 fd:00:99 0 EOF
4: POSIX  ADVISORY  WRITE 4716 fd:00:100 0 EOF
5: OFDLCK ADVISORY  WRITE -1 fd:00:100 0 EOF
6: LEASE  ACTIVE    READ  4717 fd:00:100 0 EOF
7: FLOCK  ADVISORY  WRITE 4718 fd:01:100 0 EOF
8: FLOCK  ADVISORY  WRITE 4719 fd:00:1100 0 EOF
9: FLOCK  ADVISORY  WRITE 4720 fd:00:10 0 EOF
10: FLOCK  ADVISORY  WRITE 0 fd:00:101 0 EOF
11: FLOCK  ADVISORY  WRITE 4721 00:2a:258 0 EOF
12: FLOCK  ADVISORY  WRITE 4722 103:10001:300 0 EOF
`;

const flocksOn = (text: string, stat: FileStat, mounts?: string, vaguely?: boolean) =>
  new LockTable(text, mounts).flocks(stat, vaguely);

test("flocks() finds who holds a file exclusively, and leaves those who wait for it out", () => {
  assertEquals(flocksOn(PROC_LOCKS, file(64768, "2146371")), [{ pid: 4711, mode: "exclusive" }]);
});

test("flocks() finds every shared holder", () => {
  const shared = [4713, 4714].map((pid) => ({ pid, mode: "shared" as const }));
  assertEquals(flocksOn(PROC_LOCKS, file(64768, "99")), shared);
});

test("flocks() leaves locks of other kinds, other inodes and other devices out", () => {
  assertEquals(flocksOn(PROC_LOCKS, file(64768, "100")), []); // POSIX, OFD, lease; 1100 and 10 are others
  assertEquals(flocksOn(PROC_LOCKS, file(64769, "100")), [{ pid: 4718, mode: "exclusive" }]); // fd:01
  assertEquals(flocksOn(PROC_LOCKS, file(64768, "2146372")), []);
  assertEquals(flocksOn("", file(64768, "99")), []);
});

test("flocks() takes 9p's locks, which Linux lists as those of fcntl(2), and no other file system's", () => {
  const line = "1: POSIX  ADVISORY  WRITE 4711 00:1a:258 0 EOF\n";
  const mounts = (type: string) => `36 25 0:26 / /mnt rw,relatime shared:5 - ${type} 127.0.0.1 rw,trans=tcp\n`;
  assertEquals(flocksOn(line, file(26, "258"), mounts("9p")), [{ pid: 4711, mode: "exclusive" }]);
  for (const type of ["nfs4", "cifs", "tmpfs"]) assertEquals(flocksOn(line, file(26, "258"), mounts(type)), [], type);
  assertEquals(flocksOn(line, file(26, "258")), [], "what it is on is not known");
  assertEquals(flocksOn(line, file(27, "258"), mounts("9p")), [], "another mount");
});

test("flocks() shows the pid 0 of a holder in another PID namespace", () => {
  assertEquals(flocksOn(PROC_LOCKS, file(64768, "101")), [{ pid: 0, mode: "exclusive" }]);
});

test("flocks() goes by the inode where a file system has no disk of its own (btrfs, overlayfs)", () => {
  for (const minor of [0x2a, 0x31]) assertEquals(flocksOn(PROC_LOCKS, file(minor, "258")).length, 1, `0:${minor}`);
  assertEquals(flocksOn(PROC_LOCKS, file(64768, "258")), []); // but a disk's file is not meant
});

test("flocks() does not take a tmpfs file's lock for one of an overlayfs file with the same inode number", () => {
  const line = "1: FLOCK  ADVISORY  WRITE 4711 00:1a:258 0 EOF\n";
  const mounts = (type: string) => `36 25 0:26 / /run rw,nosuid shared:5 - ${type} ${type} rw,size=1024k\n`;
  assertEquals(flocksOn(line, file(0x31, "258"), mounts("tmpfs")), []);
  for (const type of ["btrfs", "overlay"]) assertEquals(flocksOn(line, file(0x31, "258"), mounts(type)).length, 1);
  assertEquals(flocksOn(line, file(0x1a, "258"), mounts("tmpfs")).length, 1); // its own file's is
});

test("flocks() splits a large device number as <sys/sysmacros.h> does", () => {
  // gnu_dev_makedev(0x103, 0x10001): major 259 is blkext, its minor beyond 8 bits goes above the major
  const dev = (0x01n) | (0x103n << 8n) | (0x10000n << 12n);
  assertEquals(flocksOn(PROC_LOCKS, file(dev, "300")), [{ pid: 4722, mode: "exclusive" }]);
  assertEquals(flocksOn(PROC_LOCKS, file(0x01n | (0x103n << 8n), "300")), []);
});

test("flocks() takes the identity that Deno's FsFile gives an inode beyond 2^53", () => {
  const stat = { ...file(64768, "99"), identity: "64768:99:1700000000000" };
  assertEquals(flocksOn(PROC_LOCKS, stat).length, 2);
});

test("flocks() finds our own lock in the kernel's list, for as long as it is held", ({ path }) => {
  writeFileSync(path(), "");
  const { kernelLocks, stat } = system();
  // More than once: longer than a page, the list is no snapshot, and a line can be missing.
  const found = () => [1, 2, 3].map(() => flocksOn(kernelLocks() ?? "", stat(path()) ?? file(0, "0")));
  const lock = new Lock(path());
  assertEquals(lock.tryAcquire(), true);
  assert(found().some(([first]) => first?.pid === process.pid && first.mode === "exclusive"));
  lock.release();
  assertEquals(found(), [[], [], []]);
});

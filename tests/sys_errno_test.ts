/** src/sys/errno.ts and src/sys/libc.ts: tables of numbers, against the headers that they are from. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import process from "node:process";
import { assert, assertEquals } from "@std/assert";
import { basename } from "@std/path";
import { ERRNO, errnoName, messageErrno, osErrorName } from "../src/sys/errno.ts";
import { ERRNO_SIGNATURE, LOCK_EX, LOCK_NB, LOCK_SH, O_NOCTTY, PLATFORMS, SYMBOLS } from "../src/sys/libc.ts";
import { test } from "./harness.ts";

// Linux, include/uapi/asm-generic/errno-base.h and errno.h. Only mips, alpha, parisc and sparc have others.
const LINUX_HEADER = `
#define EPERM 1
#define ENOENT 2
#define ESRCH 3
#define EINTR 4
#define EIO 5
#define EBADF 9
#define EAGAIN 11
#define ENOMEM 12
#define EACCES 13
#define EINVAL 22
#define EFBIG 27
#define ENOSPC 28
#define ENOLCK 37
#define ENOSYS 38
#define EWOULDBLOCK EAGAIN
#define EOPNOTSUPP 95
#define ESTALE 116
#define EDQUOT 122
`;

// macOS, bsd/sys/errno.h of apple-oss-distributions/xnu, as a program sees it (__DARWIN_UNIX03).
const DARWIN_HEADER = `
#define EPERM 1
#define ENOENT 2
#define ESRCH 3
#define EINTR 4
#define EIO 5
#define EBADF 9
#define ENOMEM 12
#define EACCES 13
#define EINVAL 22
#define EFBIG 27
#define ENOSPC 28
#define EAGAIN 35
#define EWOULDBLOCK EAGAIN
#define ENOTSUP 45
#define EDQUOT 69
#define ESTALE 70
#define ENOLCK 77
#define ENOSYS 78
#define EOPNOTSUPP 102
`;

// FreeBSD, sys/sys/errno.h of freebsd/freebsd-src.
const FREEBSD_HEADER = `
#define EPERM 1
#define ENOENT 2
#define ESRCH 3
#define EINTR 4
#define EIO 5
#define EBADF 9
#define ENOMEM 12
#define EACCES 13
#define EINVAL 22
#define EFBIG 27
#define ENOSPC 28
#define EAGAIN 35
#define EWOULDBLOCK EAGAIN
#define EOPNOTSUPP 45
#define ENOTSUP EOPNOTSUPP
#define EDQUOT 69
#define ESTALE 70
#define ENOLCK 77
#define ENOSYS 78
`;

/** The names that a header gives each number. */
function namesByNumber(header: string): Map<number, string[]> {
  const values = new Map<string, string>();
  for (const [, name, value] of header.matchAll(/^#define\s+(E\w+)\s+(\w+)/gm)) values.set(name, value);
  const names = new Map<number, string[]>();
  for (const [name, value] of values) {
    const number = Number(values.get(value) ?? value);
    names.set(number, [...names.get(number) ?? [], name]);
  }
  return names;
}

function assertTable(platform: string, header: string, alsoNamed: Record<number, string> = {}): void {
  const names = namesByNumber(header);
  for (const [number, name] of Object.entries(ERRNO[platform])) {
    const allowed = [...names.get(Number(number)) ?? [], alsoNamed[Number(number)]];
    assert(allowed.includes(name), `${platform}: ${number} is ${allowed}, not ${name}`);
    assertEquals(errnoName(platform, Number(number)), name);
  }
  // And nothing that we tell apart is missing.
  for (const number of namesByNumber(header).keys()) {
    if (names.get(number)?.some((name) => LINUX_HEADER.includes(`#define ${name} `))) {
      assert(number in ERRNO[platform], `${platform} lacks ${names.get(number)}`);
    }
  }
}

test("errnoName() on Linux and Android names the numbers of the kernel's headers", () => {
  const files = ["errno-base.h", "errno.h"].map((name) => `/usr/include/asm-generic/${name}`);
  assertTable("linux", LINUX_HEADER);
  assertTable("android", LINUX_HEADER);
  if (!files.every(existsSync)) return; // no headers here: the quotation above is all there is
  const header = files.map((name) => readFileSync(name, "utf8")).join("\n");
  const real = namesByNumber(header);
  for (const [number, names] of namesByNumber(LINUX_HEADER)) {
    for (const name of names) assert(real.get(number)?.includes(name), `the quotation is wrong in ${name}`);
  }
});

test("errnoName() on macOS names the numbers of its header, and both of its names for not supported", () => {
  assertTable("darwin", DARWIN_HEADER, { 45: "EOPNOTSUPP" });
});

test("errnoName() on FreeBSD names the numbers of its header", () => {
  assertTable("freebsd", FREEBSD_HEADER, { 102: "EOPNOTSUPP" }); // a number that FreeBSD never answers
});

test("errnoName() shows a number that it does not know, and never takes it for another", () => {
  for (const platform of ["linux", "darwin", "freebsd", "android"]) {
    assertEquals(errnoName(platform, 71), "errno 71");
    assertEquals(errnoName(platform, 0), "errno 0");
  }
  assertEquals(errnoName("win32", 1), "errno 1");
  assertEquals([errnoName("linux", 35), errnoName("darwin", 11)], ["errno 35", "errno 11"]); // EDEADLK, both
});

test("messageErrno() knows what glibc's strerror(3) says of each error of flock(2)", () => {
  const names = ["EBADF", "EIO", "ENOLCK", "ENOSYS", "EOPNOTSUPP", "EACCES", "EINVAL", "ESTALE"];
  const script = "import errno, os, sys\nfor name in sys.argv[1:]: print(os.strerror(getattr(errno, name)))";
  const env = { ...process.env, LC_ALL: "C" };
  const messages = execFileSync("python3", ["-c", script, ...names], { encoding: "utf8", env }).trim().split("\n");
  assertEquals(messages.length, names.length);
  messages.forEach((message, i) => {
    assertEquals(messageErrno(`flock: 3: ${message}\n`), names[i], message); // as util-linux prints it
    assertEquals(messageErrno(`flock: ${message}`), names[i], message);
  });
});

test("messageErrno() knows musl's words, and says nothing of what it does not know", () => {
  // musl, src/errno/__strerror.h
  const musl = { "I/O error": "EIO", "Not supported": "EOPNOTSUPP", "No locks available": "ENOLCK" };
  for (const [message, name] of Object.entries(musl)) assertEquals(messageErrno(`flock: ${message}\n`), name);
  for (
    const text of ["", "\n", "flock: bad usage", "flock: 3: Bad file descriptor at noon", "constructor", "x: toString"]
  ) {
    assertEquals(messageErrno(text), undefined, text);
  }
  assertEquals(messageErrno("flock: 3: Bad file descriptor\nTry 'flock --help'"), "EBADF");
});

test("osErrorName() reads the number in Deno's message", () => {
  assertEquals(osErrorName("linux", "No locks available (os error 37)"), "ENOLCK");
  assertEquals(
    osErrorName("linux", "Resource temporarily unavailable (os error 11): lock '/a (os error x)'"),
    "EWOULDBLOCK",
  );
  assertEquals(osErrorName("darwin", "No locks available (os error 77)"), "ENOLCK");
  assertEquals(osErrorName("linux", "odd (os error 71)"), "errno 71");
  for (const text of ["", "os error 37", "(os error )", "(os error -1)"]) {
    assertEquals(osErrorName("linux", text), undefined);
  }
});

test("LOCK_SH, LOCK_EX and LOCK_NB are the header's", () => {
  // Linux include/uapi/asm-generic/fcntl.h, macOS and FreeBSD <sys/fcntl.h>: all the same
  assertEquals([LOCK_SH, LOCK_EX, LOCK_NB], [1, 2, 4]);
  // Linux octal 00000400; macOS 0x00020000; FreeBSD 0x8000
  assertEquals(O_NOCTTY, { linux: 0o400, android: 0o400, darwin: 0x20000, freebsd: 0x8000 });
  const file = "/usr/include/asm-generic/fcntl.h";
  if (!existsSync(file)) return; // no headers here: the values above are all there is
  const header = readFileSync(file, "utf8");
  const value = (name: string) => new RegExp(`^#define\\s+${name}\\s+(\\w+)`, "m").exec(header)?.[1] ?? "";
  assertEquals(["LOCK_SH", "LOCK_EX", "LOCK_NB"].map((name) => Number(value(name))), [LOCK_SH, LOCK_EX, LOCK_NB]);
  assertEquals(parseInt(value("O_NOCTTY"), 8), O_NOCTTY.linux);
});

test("PLATFORMS name each C library so that nothing in the current directory can take its place", () => {
  assertEquals(Object.keys(PLATFORMS).sort(), Object.keys(ERRNO).sort());
  assertEquals(Object.keys(PLATFORMS).sort(), Object.keys(O_NOCTTY).sort());
  for (const [platform, { library, paths, errnoSymbol }] of Object.entries(PLATFORMS)) {
    assert(library.startsWith("/") || !library.includes("/"), platform); // the loader's own folders, or one file
    assert(paths.length > 0 && new Set(paths).size === paths.length, platform);
    for (const path of paths) assertEquals([path[0], basename(path)], ["/", basename(library)], path);
    assert(["__errno_location", "__error", "__errno"].includes(errnoSymbol), errnoSymbol);
  }
  if (process.platform !== "linux") throw new Error("only run on Linux");
  assert(PLATFORMS.linux.paths.some(existsSync), "none of the paths is there");
});

test("SYMBOLS are functions with fixed parameters, since a variadic one gets garbage on Apple arm64", () => {
  for (const variadic of ["open", "openat", "fcntl", "ioctl", "printf", "fprintf", "syscall", "execl", "prctl"]) {
    assert(!(variadic in SYMBOLS), variadic);
  }
  const types = new Set(["i32", "u32", "usize", "buffer", "pointer"]);
  for (const [name, { parameters, result }] of Object.entries({ ...SYMBOLS, ERRNO_SIGNATURE })) {
    for (const type of [...parameters, result]) assert(types.has(type), `${name}: ${type}`);
  }
});

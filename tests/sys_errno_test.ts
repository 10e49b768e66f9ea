/** src/sys/errno.ts: what is made of numbers and messages. Its tables: tests/deno_only/platform_tables_test.ts. */
import { execFileSync } from "node:child_process";
import process from "node:process";
import { assertEquals } from "@std/assert";
import { errnoName, messageErrno, osErrorName, reasonOf } from "../src/sys/errno.ts";
import { test } from "./support/harness.ts";
import { command, PYTHON } from "./support/needs.ts";

test("errnoName() shows a number that it does not know, and never takes it for another", () => {
  for (const platform of ["linux", "darwin", "freebsd", "android"]) {
    assertEquals(errnoName(platform, 71), "errno 71");
    assertEquals(errnoName(platform, 0), "errno 0");
  }
  assertEquals(errnoName("win32", 71), "errno 71");
  assertEquals([errnoName("linux", 35), errnoName("darwin", 11)], ["errno 35", "errno 11"]); // EDEADLK, both
});

test("messageErrno() knows what glibc's strerror(3) says of each error of flock(2)", () => {
  const names = [
    "EBADF",
    "EIO",
    "ENOLCK",
    "ENOSYS",
    "EOPNOTSUPP",
    "EACCES",
    "EINVAL",
    "ESTALE",
    "ENOTCONN",
    "ETIMEDOUT",
  ];
  const script = "import errno, os, sys\nfor name in sys.argv[1:]: print(os.strerror(getattr(errno, name)))";
  const env = { ...process.env, LC_ALL: "C" };
  const messages = execFileSync(command(PYTHON), ["-c", script, ...names], { encoding: "utf8", env }).trim().split(
    "\n",
  );
  assertEquals(messages.length, names.length);
  messages.forEach((message, i) => {
    assertEquals(messageErrno(`flock: 3: ${message}\n`), names[i], message); // as util-linux prints it
    assertEquals(messageErrno(`flock: ${message}`), names[i], message);
  });
});

test("messageErrno() knows musl's words, and says nothing of what it does not know", () => {
  // musl, src/errno/__strerror.h
  const musl = {
    "I/O error": "EIO",
    "Not supported": "EOPNOTSUPP",
    "No locks available": "ENOLCK",
    "Socket not connected": "ENOTCONN",
    "Operation timed out": "ETIMEDOUT",
  };
  for (const [message, name] of Object.entries(musl)) assertEquals(messageErrno(`flock: ${message}\n`), name);
  for (
    const text of ["", "\n", "flock: bad usage", "flock: 3: Bad file descriptor at noon", "constructor", "x: toString"]
  ) {
    assertEquals(messageErrno(text), undefined, text);
  }
  assertEquals(messageErrno("flock: 3: Bad file descriptor\nTry 'flock --help'"), "EBADF");
});

test("messageErrno() knows the words of macOS, FreeBSD and bionic", () => {
  const words = {
    // bsd/sys/errno.h of xnu and sys/sys/errno.h of FreeBSD, in the comments
    "Bad file descriptor": "EBADF",
    "Input/output error": "EIO",
    "No locks available": "ENOLCK",
    "Function not implemented": "ENOSYS",
    "Operation not supported": "EOPNOTSUPP", // of 45; whether it is called ENOTSUP makes no difference to us
    "Operation not supported on socket": "EOPNOTSUPP", // macOS, of 102
    "Stale NFS file handle": "ESTALE",
    "Socket is not connected": "ENOTCONN",
    "Operation timed out": "ETIMEDOUT",
    // bionic_errdefs.h of bionic
    "I/O error": "EIO",
    "No record locks available": "ENOLCK",
    "Operation not supported on transport endpoint": "EOPNOTSUPP",
  };
  // As err(3) of discoteq's flock prints them, and perror(3) of toybox's.
  for (const [message, name] of Object.entries(words)) {
    assertEquals(messageErrno(`flock: OS error: ${message}\n`), name);
    assertEquals(messageErrno(`flock: flock: ${message}\n`), name);
  }
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

test("reasonOf() names an error by its code or its number, else it has its words", () => {
  assertEquals(reasonOf(Object.assign(new Error("ENOENT: no such file"), { code: "ENOENT" })), "ENOENT");
  if (process.platform === "linux") assertEquals(reasonOf(new Error("Text file busy (os error 26)")), "ETXTBSY");
  assertEquals(reasonOf(new Error("something else")), "something else");
});

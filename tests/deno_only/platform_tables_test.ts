/** The tables of src/sys/libc.ts, libc_command.ts and errno.ts, against the headers in platform_headers.ts. */
import { existsSync, readFileSync } from "node:fs";
import process from "node:process";
import { assert, assertEquals } from "@std/assert";
import { basename } from "@std/path";
import { ERRNO, errnoName } from "../../src/sys/errno.ts";
import type { Signature } from "../../src/sys/abi.ts";
import * as libc from "../../src/sys/libc.ts";
import * as command from "../../src/sys/libc_command.ts";
import { test } from "../support/harness.ts";
import {
  ACTIONS,
  HEADERS,
  LIBRARIES,
  NOFOLLOW_ARM64,
  PROTOTYPES,
  type Quotation,
  STRUCTS,
} from "../support/platform_headers.ts";

/** A number as C writes it: octal, hexadecimal, shifted, cast to a pointer; undefined for what is none. */
function numberOf(text: string): number | undefined {
  const shift = /^\(1<<(\d+)\)$/.exec(text)?.[1];
  if (shift) return 2 ** Number(shift);
  const digits = /^(?:\(.*\) ?)?(-?(?:0x[0-9a-f]+|\d+))U?\)?$/i.exec(text)?.[1];
  if (digits === undefined) return undefined;
  return /^-?0\d/.test(digits) ? parseInt(digits, 8) : Number(digits);
}

/** The numbers that a header gives to names. */
function definitions(header: string): Map<string, number> {
  const texts = new Map<string, string>();
  for (const [, name, text] of header.matchAll(/^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(.*?)[ \t]*(?:\/\*.*)?$/gm)) {
    texts.set(name, texts.get(name) ?? text);
  }
  const found = new Map<string, number>();
  for (const [name, text] of texts) {
    const number = numberOf(texts.get(text) ?? text);
    if (number !== undefined) found.set(name, number);
  }
  return found;
}

const quoted = (platform: string) => definitions(HEADERS[platform].map(({ lines }) => lines).join("\n"));
const platforms = Object.keys(libc.PLATFORMS);

/** That each name has its number in the platform's headers. */
function assertQuoted(platform: string, table: Record<string, number>): void {
  const header = quoted(platform);
  assert(Object.keys(table).length > 0);
  for (const [name, number] of Object.entries(table)) assertEquals(number, header.get(name), `${platform}: ${name}`);
}

test("platform_headers.ts quotes this machine's headers as they are", () => {
  const quotations = HEADERS.linux.filter(({ here }) => here !== undefined);
  assertEquals(quotations.length, 6);
  for (const { here, lines } of quotations) {
    if (!here || !existsSync(here)) continue; // no headers here: the quotation is all there is
    const real = definitions(readFileSync(here, "utf8"));
    if (here.endsWith("/errno.h")) real.set("EWOULDBLOCK", 11); // EAGAIN, of the other file
    const names = [...lines.matchAll(/#define (\w+)/g)].map(([, name]) => name);
    for (const name of names) assertEquals(quoted("linux").get(name), real.get(name), `${here}: ${name}`);
  }
  for (const { from, here, lines } of Object.values(STRUCTS)) {
    if (!here || !existsSync(here)) continue; // likewise
    const text = readFileSync(here, "utf8").replace(/\/\*.*?\*\//gs, "").replace(/[ \t]+/g, " ");
    assert(text.replace(/\s*\n\s*/g, "\n").includes(lines), from);
  }
});

for (const platform of platforms) {
  test(`ERRNO of ${platform} has the numbers of its header, and all that we tell apart`, () => {
    const header = quoted(platform);
    for (const [number, name] of Object.entries(ERRNO[platform])) {
      assertEquals(header.get(name), Number(number), `${platform}: ${name}`);
      assertEquals(errnoName(platform, Number(number)), name);
    }
    // What is told apart on one system is on all.
    const names = Object.values(ERRNO[platform]);
    assertEquals(new Set(names).size, names.length);
    for (const name of Object.values(ERRNO.linux)) assert(names.includes(name), `${platform} lacks ${name}`);
    // And every number that a header gives one of these names: macOS has two of EOPNOTSUPP and ENOTSUP.
    for (const [name, number] of header) if (/^E[A-Z]/.test(name)) assert(number in ERRNO[platform], name);
  });

  test(`the constants of fcntl, flock, access, signal and waitpid have the numbers of ${platform}'s headers`, () => {
    const { LOCK_SH, LOCK_EX, LOCK_NB, LOCK_UN, O_NOCTTY } = libc;
    const { F_GETFD, F_GETFL, O_ACCMODE, R_OK, W_OK, X_OK, SIG_DFL, SIG_IGN, WNOHANG } = command;
    assertQuoted(platform, { LOCK_SH, LOCK_EX, LOCK_NB, LOCK_UN, O_NOCTTY: O_NOCTTY[platform] });
    assertQuoted(platform, { F_GETFD, F_GETFL, O_ACCMODE, R_OK, W_OK, X_OK, SIG_DFL, SIG_IGN, WNOHANG });
  });

  test(`PLATFORMS names ${platform}'s C library and its errno as the system does`, () => {
    const { library, paths, errnoSymbol } = libc.PLATFORMS[platform];
    const functions = HEADERS[platform].flatMap(({ lines }) =>
      [...lines.matchAll(/^(?:extern )?int ?\* ?(\w+)\(void\);$/gm)].map(([, name]) => name)
    );
    assertEquals(functions, [errnoSymbol]);
    assertEquals(new Set([library, ...paths]), new Set(Object.keys(LIBRARIES[platform])));
    // So that nothing in the current directory can take its place: the loader's own folders, or one file.
    assert(library.startsWith("/") || !library.includes("/"));
    assert(paths.length > 0 && new Set(paths).size === paths.length);
    for (const path of paths) assertEquals([path[0], basename(path)], ["/", basename(library)], path);
  });
}

test("PLATFORMS, ERRNO and O_NOCTTY are of the same systems, and each has its headers quoted", () => {
  for (const table of [ERRNO, libc.O_NOCTTY, HEADERS, LIBRARIES]) {
    assertEquals(Object.keys(table).sort(), platforms.toSorted());
  }
  for (const { from, lines } of Object.values(HEADERS).flat()) assert(from !== "" && lines.trim() !== "");
  if (process.platform !== "linux") throw new Error("only run on Linux");
  assert(libc.PLATFORMS.linux.paths.some(existsSync), "none of the paths is there");
});

test("LINUX_OPEN, LINUX_NOFOLLOW, LINUX_STATX and the locks of open files have the numbers of Linux's headers", () => {
  assertQuoted("linux", libc.LINUX_OPEN);
  assertQuoted("linux", libc.LINUX_STATX);
  const { x64, arm64, ...others } = libc.LINUX_NOFOLLOW;
  assertQuoted("linux", { O_NOFOLLOW: x64 });
  assertEquals(arm64, definitions(NOFOLLOW_ARM64.lines).get("O_NOFOLLOW"));
  assertEquals(others, {});
  const { F_OFD_SETLK, F_OFD_SETLKW, F_RDLCK, F_WRLCK, F_UNLCK } = command;
  for (const platform of ["linux", "android"]) {
    assertQuoted(platform, { F_OFD_SETLK, F_OFD_SETLKW, F_RDLCK, F_WRLCK, F_UNLCK });
  }
});

test("FREEBSD_SIGNALS have the numbers of FreeBSD's header", () => {
  assertQuoted("freebsd", libc.FREEBSD_SIGNALS);
  const signals = [...quoted("freebsd").keys()].filter((name) => /^SIG[A-Z]/.test(name));
  assertEquals(Object.keys(libc.FREEBSD_SIGNALS).sort(), signals.sort());
});

test("LINUX_KINDS are the types of <linux/stat.h>", () => {
  const header = quoted("linux");
  const types = { fifo: "S_IFIFO", directory: "S_IFDIR", file: "S_IFREG", symlink: "S_IFLNK", socket: "S_IFSOCK" };
  assertEquals(header.get("S_IFMT"), 0xf000);
  const kinds = Object.entries(types).map(([kind, name]) => [(header.get(name) ?? 0) >> 12, kind]);
  assertEquals(libc.LINUX_KINDS, Object.fromEntries(kinds));
});

/** In bytes, on a system of 64 bits. */
const SIZES: Record<string, number> = {
  "__u16": 2,
  "__u32": 4,
  "__u64": 8,
  "char": 1,
  "unsigned char": 1,
  "short": 2,
  "unsigned short": 2,
  "unsigned short int": 2,
  "int": 4,
  "ino_t": 8,
  "__ino_t": 8,
  "__off_t": 8,
  "off64_t": 8,
  "__kernel_off_t": 8,
  "__kernel_pid_t": 4,
  "struct statx_timestamp": 16, // a __s64, a __u32 and an __s32
};

/** Where the fields of a structure are, and its whole size. */
function layout({ lines }: Quotation): { at: Map<string, number>; size: number } {
  const at = new Map<string, number>();
  let end = 0, widest = 1;
  for (const [, type, name, count = "1"] of lines.matchAll(/^(.*?[ *])(\w+)(?:\[(\d+)\])?;$/gm)) {
    const size = type.endsWith("*") ? 8 : SIZES[type.trim()];
    assert(size > 0, `how large is a ${type}?`);
    const alignment = Math.min(size, 8);
    widest = Math.max(widest, alignment);
    end = Math.ceil(end / alignment) * alignment;
    at.set(name, end);
    end += size * Number(count);
  }
  return { at, size: Math.ceil(end / widest) * widest };
}

test("STATX_WORDS, DIRENT and LINUX_FLOCK are where the headers' structures have their fields", () => {
  const statx = layout(STRUCTS.statx);
  const { length, ...words } = libc.STATX_WORDS;
  for (const [name, word] of Object.entries(words)) assertEquals(statx.at.get(name), word * 4, name);
  assertEquals(length * 4, 0x100); // the header's last comment: `/* 0x100 */`
  assert(statx.size <= length * 4);
  for (const name of ["dirent of glibc", "dirent of bionic"]) {
    const { at, size } = layout(STRUCTS[name]);
    assertEquals(libc.DIRENT, { d_reclen: at.get("d_reclen") ?? -1, d_name: at.get("d_name") ?? -1, size }, name);
  }
  const { at, size } = layout(STRUCTS.flock);
  const fields = { l_type: at.get("l_type"), l_start: at.get("l_start"), l_len: at.get("l_len") };
  assertEquals(command.LINUX_FLOCK, { ...fields, size } as typeof command.LINUX_FLOCK); // the cast: they are there
});

test("ACTIONS_SIZE has room for each system's posix_spawn_file_actions_t", () => {
  assertEquals(Object.keys(ACTIONS).sort(), ["android", "darwin", "freebsd", "glibc"]);
  for (const [name, quotation] of Object.entries(ACTIONS)) {
    const { size } = layout(quotation);
    assert(size >= 8 && size <= command.ACTIONS_SIZE, `${name}: ${size}`);
  }
});

/** What a C type may be to an FFI. Of a ssize_t half is enough for what is short; a pointer may go as a number. */
function kindsOf(type: string): string[] {
  if (/[*[]/.test(type)) return ["buffer", "pointer", "usize"];
  if (type === "size_t" || type === "off_t" || type === "sighandler_t") return ["usize"];
  if (type === "ssize_t") return ["usize", "i32"];
  return type === "uid_t" || type === "unsigned" ? ["u32"] : ["i32"]; // int, pid_t, void
}

test("SYMBOLS, LINUX_SYMBOLS and COMMAND_SYMBOLS have the parameters and results that C declares", () => {
  const declared = new Map(
    [...PROTOTYPES.matchAll(/^(.*?[ *])(\w+)\((.*)\);$/gm)].map(([, result, name, parameters]) =>
      [name, { result: result.trim(), parameters: parameters === "void" ? [] : parameters.split(", ") }] as const
    ),
  );
  const symbols: Record<string, Signature> = {
    ...libc.SYMBOLS,
    ...libc.LINUX_SYMBOLS,
    ...command.COMMAND_SYMBOLS,
  };
  assertEquals([...declared.keys()].sort(), Object.keys(symbols).sort());
  for (const [name, { parameters, result }] of Object.entries(symbols)) {
    const { result: type, parameters: types } = declared.get(name)!; // the same names, as was seen
    assert(kindsOf(type).includes(result), `${name} returns ${type}, not ${result}`);
    const variadic = types.at(-1) === "...";
    // Apple arm64 passes what stands for `...` elsewhere: open is called so on Linux only, fcntl with a third there only.
    if (variadic) assert(name === "fcntl" || (name in libc.LINUX_SYMBOLS && !(name in libc.SYMBOLS)), name);
    const fixed = variadic ? types.slice(0, -1) : types;
    assertEquals(parameters.length, types.length, name);
    fixed.forEach((declaration, i) => {
      const kinds = kindsOf(declaration.replace(/\w+(\[\])?$/, "$1").trim());
      assert(kinds.includes(parameters[i]), `${name}: ${declaration} is no ${parameters[i]}`);
    });
  }
  assertEquals(libc.ERRNO_SIGNATURE, { parameters: [], result: "pointer" });
});

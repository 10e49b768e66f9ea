/**
 * What becomes of a try where flock(2) is answered with an error, whichever: by
 * FUSE, so that the kernel and each runtime's own way to call it have a say.
 */
import { writeFileSync } from "node:fs";
import { type Kind, KINDS } from "../support/harness.ts";
import { fuse } from "../torture/places/grounds.ts";
import { Keeper } from "../torture/places/keeper.ts";
import { compileLiar } from "../torture/places/liar.ts";
import { Crew, granted, type Site, Wrong } from "../torture/places/site.ts";
import type { Circumstances, Row } from "./row.ts";
import { folder } from "./suite.ts";

export const NAMES: Readonly<Record<Kind, string>> = {
  deno: "Deno",
  "deno-no-ffi": "Deno without FFI",
  bun: "Bun",
  node26: "Node 26",
  node20: "Node 20",
};

/** The places' names, before the error's. */
export const REFUSALS = "FUSE, flock(2) answers";

/** What a try comes to with `backend: "auto"`, and with `"flock"`. */
interface Outcome {
  readonly auto: string;
  readonly flock: string;
  /** As the README has it. */
  readonly words: string;
}

const HELD: Outcome = { auto: "try was false", flock: "try was false", words: "held by another" };
const NO_LOCKS: Outcome = {
  auto: "try was true by pidfile",
  flock: "LockUnsupportedError ENOTSUP",
  words: 'the PID file instead; with backend: "flock" LockUnsupportedError',
};
const fails = (code: string): Outcome => ({
  auto: `LockError ${code}`,
  flock: `LockError ${code}`,
  words: `LockError with the code ${code}`,
});

/** By the name that the C library has for it. */
const ERRORS: Readonly<Record<string, Outcome>> = {
  EAGAIN: HELD,
  EACCES: HELD, // SMB says so
  ENOLCK: NO_LOCKS,
  ENOSYS: NO_LOCKS,
  EOPNOTSUPP: NO_LOCKS,
  // The kernel makes it its own ERESTARTSYS, 512, to call again after a signal, and there was none.
  EINTR: fails("errno 512"),
  ...Object.fromEntries(
    ["EIO", "EBADF", "EINVAL", "EPERM", "ENOMEM", "ENOSPC", "EROFS", "ENOTCONN", "ETIMEDOUT", "ESTALE"]
      .map((code) => [code, fails(code)]),
  ),
};

/** flock(1) makes Node 20's call, and tells in words, of which src/sys/errno.ts knows those that flock(2) should have. */
const WORDLESS = new Set(["EINTR", "EPERM", "ENOMEM", "ENOSPC", "EROFS"]);

/** One error in one runtime. */
async function check(code: string, site: Site, wrong: Wrong): Promise<void> {
  const { crew, a, b, folder, seen } = site;
  const name = `${code}.lock`; // liar.c goes by its beginning
  const path = `${folder}/${name}`;
  const expected = crew.kind === "node20" && WORDLESS.has(code) ? fails("EIO") : ERRORS[code];
  const [auto, other] = [await crew.lock(a, path, { backend: "auto" }), await crew.lock(b, path, { backend: "auto" })];
  const kernel = await crew.lock(b, path, { backend: "flock" });

  wrong.expect('a try with backend: "flock"', await kernel.failure(), expected.flock);
  const outcome = await auto.failure();
  const held = outcome === "try was true";
  const by = held ? ` by ${(await auto.call("backend")).backend}` : "";
  wrong.expect("a try", outcome + by, expected.auto);
  if (held) {
    wrong.expect("the next process meanwhile", await other.try(), false);
    await auto.release();
    if (wrong.expect("the next process, after the release", await other.try(), true)) await other.release();
  }
  writeFileSync(`${seen}/${name}.honest`, "");
  // It is answered a moment after another has closed its file. Node 20 does not take flock(1)'s word, as no kernel shows
  // that lock, and has the PID file.
  const next = crew.kind === "node20" ? other : kernel;
  wrong.expect("the next process, once flock(2) works", await granted(site, next.try), true);
}

/** Each error, in all runtimes. */
export async function refusals({ dir }: Circumstances): Promise<Row[]> {
  const own = folder(dir, "refusals");
  const found = new Map<string, { passed: number; wrong: string[] }>();
  const liar = compileLiar(own);
  for (const kind of KINDS) {
    const home = folder(own, kind);
    const at = folder(home, "place");
    const keeper = new Keeper(home);
    const crew = new Crew(kind, { by: keeper.by, allow: home });
    try {
      const untried = await keeper.run(`LIAR='${liar}'\n${fuse('"$LIAR" named "$0.src" "$0"')}`, at);
      if (untried !== undefined) return [{ ...ROW, place: REFUSALS, notRun: untried }];
      const site = { crew, a: await crew.agent(), b: await crew.agent(), folder: at, seen: `${at}.src`, remote: true };
      for (const code of Object.keys(ERRORS)) {
        const wrong = new Wrong();
        await check(code, site, wrong).catch((error) => wrong.expect("the checks", String(error), "done"));
        const sum = found.get(code) ?? { passed: 0, wrong: [] };
        sum.passed += wrong.checks - wrong.sentences.length;
        sum.wrong.push(...wrong.sentences.map((each) => `${NAMES[kind]}: ${each}`));
        found.set(code, sum);
      }
    } finally {
      await crew.end();
      await keeper.end();
    }
  }
  return [...found].map(([code, { passed, wrong }]) => ({
    ...ROW,
    place: `${REFUSALS} ${code}`,
    passed,
    failed: wrong.length,
    remark: wrong.length > 0
      ? `failed: ${wrong.join("; ")}`
      : ERRORS[code].words + (WORDLESS.has(code) ? "; in Node 20 EIO, with what flock(1) said" : ""),
  }));
}

const ROW = { runtime: Object.values(NAMES).join(", "), passed: 0, failed: 0 };

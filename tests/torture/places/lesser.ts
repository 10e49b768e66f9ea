/** What a lock must do in a place that cannot do everything: say which, by a typed error, and lock what can be locked. */
import { unlinkSync, writeFileSync } from "node:fs";
import { flock1, names, type Site, type Trial, type Wrong } from "./site.ts";

const PIDFILE = { backend: "pidfile" } as const;

/** A file that is there but that cannot be written, or not with a record: it is locked all the same. */
export const lockedAsItIs: Trial = async ({ crew, a, b, folder }, wrong) => {
  const path = `${folder}/there.lock`;
  const [mine, other] = [await crew.lock(a, path), await crew.lock(b, path)];
  const they = flock1(crew, path, true);
  wrong.expect("ours on a file that was there", await mine.try(), true);
  await excludes(mine, other, they, wrong);
  const victim = await crew.agent();
  wrong.expect("ours after the release of flock(1)", await (await crew.lock(victim, path)).try(), true);
  wrong.expect("ours while another of ours holds", await mine.try(), false);
  await victim.kill();
  if (wrong.expect("ours after kill -9 of the holder", await mine.try(), true)) await mine.release();
};

/** What cannot be made is an error with the system's own code, and nothing is left of it. */
export const refuses = (code: string): Trial => async ({ crew, a, b, folder, seen }, wrong) => {
  const before = names(seen);
  for (const options of [{ backend: "auto" }, PIDFILE] as const) {
    const lock = await crew.lock(a, `${folder}/missing.lock`, options);
    wrong.expect(`a missing lock by ${options.backend}`, await lock.failure(), `LockError ${code}`);
    wrong.expect(`held, after that`, await lock.call("held"), false);
  }
  const file = await crew.lock(b, `${folder}/there.lock`, PIDFILE);
  wrong.expect("a PID file beside what is there", await file.failure(), `LockError ${code}`);
  wrong.expect("what is in the folder", names(seen), before);
};

/** The PID file of a full disk is an error, until there is room. */
export const noRoom: Trial = async ({ crew, a, b, folder, seen }, wrong) => {
  const before = names(seen);
  const file = await crew.lock(a, `${folder}/there.lock`, PIDFILE);
  wrong.expect("a PID file without room", await file.failure(), "LockError ENOSPC");
  wrong.expect("what is in the folder", names(seen), before);
  unlinkSync(`${seen}/filler`);
  const other = await crew.lock(b, `${folder}/there.lock`);
  wrong.expect("a PID file with room", await file.try(), true);
  wrong.expect("the kernel lock while that holds", await other.try(), false);
  await file.release();
};

/** A name that leaves no room for `.pid`: the kernel lock, or a typed error, and never both of two. */
export const longName = (path: (folder: string) => string): Trial => async ({ crew, a, b, folder }, wrong) => {
  const long = path(folder);
  const [mine, other] = [await crew.lock(a, long), await crew.lock(b, long)];
  await either(mine, other, long, { crew, a, b, folder, seen: folder }, wrong);
  wrong.expect("a PID file", await (await crew.lock(a, long, PIDFILE)).failure(), "LockError ENAMETOOLONG");
};

type Lock = Awaited<ReturnType<Site["crew"]["lock"]>>;

/** What is held by the first excludes ours and flock(1), and is excluded by it. */
async function excludes(mine: Lock, other: Lock, they: ReturnType<typeof flock1>, wrong: Wrong) {
  wrong.expect("ours while we hold", await other.try(), false);
  wrong.expect("flock(1) while we hold", await they.take("exclusive"), false);
  await mine.release();
  wrong.expect("flock(1) after our release", await they.take("exclusive"), true);
  wrong.expect("ours while flock(1) holds", await mine.try(), false);
  await they.release();
}

/** Held by one, or refused with an error. */
async function either(mine: Lock, other: Lock, path: string, { crew }: Site, wrong: Wrong) {
  const they = flock1(crew, path);
  const outcome = await mine.failure();
  if (outcome === "try was true") {
    await excludes(mine, other, they, wrong);
  } else {
    wrong.expect("a name that is too long", outcome, "LockError ENAMETOOLONG");
  }
}

/** Another user's FIFO, planted where a lock is to be, in a sticky folder. */
export const plantedFifo: Trial = async ({ crew, a, folder }, wrong) => {
  const lock = await crew.lock(a, `${folder}/fifo.lock`, { backend: "auto" });
  // The code is the system's: EACCES from open(2) where fs.protected_fifos keeps us off, else EINVAL.
  const answer = await lock.call("try").catch(({ name, code, message }) => `${name} ${code} ${message}`);
  wrong.expect("a planted FIFO", /^LockError (EACCES|EINVAL) .*it is a fifo/.test(answer) || answer, true);
};

/** One file by two paths, each through a mount of its own. */
export const acrossMounts: Trial = async ({ crew, a, b, folder }, wrong) => {
  const [mine, other] = [
    await crew.lock(a, `${folder}/one/across.lock`),
    await crew.lock(b, `${folder}/two/across.lock`),
  ];
  const they = flock1(crew, `${folder}/two/across.lock`);
  wrong.expect("ours by the one mount", await mine.try(), true);
  wrong.expect("ours by the other mount meanwhile", await other.try(), false);
  wrong.expect("flock(1) by the other mount meanwhile", await they.take("exclusive"), false);
  await mine.release();
  if (wrong.expect("ours by the other mount afterwards", await other.try(), true)) await other.release();
};

/** A reader who may not write has the lower file of an overlay open; then a writer's open copies it up. */
export const copiedUp: Trial = async ({ crew, a, b, folder, seen }, wrong) => {
  const path = `${folder}/lower.lock`;
  const [mine, other] = [await crew.lock(a, path), await crew.lock(b, path)];
  const they = flock1(crew, path); // which opens it to read
  wrong.expect("flock(1) on the lower file", await they.take("exclusive"), true);
  writeFileSync(`${seen}/lower.lock`, ""); // copied up
  wrong.expect("ours on the file that was copied up", await mine.try(), false);
  await they.release();
  if (!wrong.expect("ours after that release", await mine.try(), true)) return;
  wrong.expect("another of ours meanwhile", await other.try(), false);
  await mine.release();
};

/** No kernel lock here: the PID file takes its place if that is allowed, and the error says so if it is not. */
export const instead: Trial = async ({ crew, a, b, folder }, wrong) => {
  const path = `${folder}/instead.lock`;
  const options = { backend: "auto" } as const;
  const [mine, other] = [await crew.lock(a, path, options), await crew.lock(b, path, options)];
  wrong.expect("ours on a free lock", await mine.try(), true);
  wrong.expect("by which back end", (await mine.call("backend")).backend, "pidfile");
  wrong.expect("ours while we hold", await other.try(), false);
  await mine.release();
  if (wrong.expect("ours after our release", await other.try(), true)) await other.release();
  const kernel = await crew.lock(a, path, { backend: "flock" });
  wrong.expect("the kernel lock or nothing", await kernel.failure(), "LockUnsupportedError ENOTSUP");
};

/** The fixed list of behaviours: what a lock must do in every place that can do it at all. */
import { readFileSync, renameSync, unlinkSync } from "node:fs";
import { snapshot } from "../../support/lockers.ts";
import { flock1, granted, type Locked, names, put, python, type Site, type Trial, type Wrong } from "./site.ts";

const PIDFILE = { backend: "pidfile" } as const;
/** It cannot ask whether a process is alive, so it takes over nothing: unknown is held. */
export const judges = ({ crew }: Site): boolean => crew.kind !== "deno-no-ffi";

/** Ours and flock(1), ours and Python, in both orders; and ours among themselves. */
export const exclusive: Trial = async (site, wrong) => {
  const { crew, a, b, folder } = site;
  const path = `${folder}/exclusive.lock`;
  const [mine, other] = [await crew.lock(a, path), await crew.lock(b, path)];
  for (const they of [flock1(crew, path), python(crew, path)]) {
    if (!wrong.expect("ours on a free lock", await granted(site, mine.try), true)) return;
    wrong.expect(`${they.who} while we hold`, await they.take("exclusive"), false);
    wrong.expect("ours while we hold", await other.try(), false);
    await mine.release();
    if (!wrong.expect(`${they.who} after our release`, await granted(site, () => they.take("exclusive")), true)) {
      continue;
    }
    wrong.expect(`ours while ${they.who} holds`, await mine.try(), false);
    await they.release();
    if (wrong.expect(`ours after the release of ${they.who}`, await granted(site, mine.try), true)) {
      await mine.release();
    }
  }
};

/** Readers together; no writer beside them, of any kind. */
export const shared: Trial = async (site, wrong) => {
  const { crew, a, b, folder } = site;
  const path = `${folder}/shared.lock`;
  const [reader, writer] = [await crew.lock(a, path, { mode: "shared" }), await crew.lock(b, path)];
  const they = python(crew, path);
  wrong.expect("our reader on a free lock", await reader.try(), true);
  wrong.expect("Python's reader beside ours", await they.take("shared"), true);
  wrong.expect("our writer beside two readers", await writer.try(), false);
  wrong.expect("the writer of flock(1) beside two readers", await flock1(crew, path).take("exclusive"), false);
  await reader.release();
  wrong.expect("our writer beside Python's reader", await writer.try(), false);
  await they.release();
  if (wrong.expect("our writer when all have left", await granted(site, writer.try), true)) await writer.release();
};

/** A refused try leaves bytes, mode, times and the folder as they are. */
export const untouched: Trial = async ({ crew, a, folder, seen }, wrong) => {
  const file = `${seen}/untouched.lock`;
  put(seen, "untouched.lock", "the user's\n");
  const they = python(crew, `${folder}/untouched.lock`);
  wrong.expect("Python on a free file", await they.take("exclusive"), true);
  const look = () => {
    const { mode, size, inode, modified, changed } = snapshot(file);
    return [readFileSync(file, "utf8"), mode, size, inode, modified, changed, names(seen)].join();
  };
  const before = look();
  wrong.expect("ours while Python holds", await (await crew.lock(a, `${folder}/untouched.lock`)).try(), false);
  wrong.expect("the file after a refused try", look(), before);
  await they.release();
};

/** kill -9 of a holder frees both kinds of lock, for one of two who come at once; and they are told of it. */
export const killed: Trial = async (site, wrong) => {
  const { crew, a, b, folder, seen } = site;
  const victim = await crew.agent();
  const [kernel, file] = [`${folder}/killed.lock`, `${folder}/killed-file.lock`];
  await (await crew.lock(victim, kernel)).try();
  await (await crew.lock(victim, file, PIDFILE)).try();
  const next = await crew.lock(a, kernel);
  wrong.expect("ours while another of ours holds", await next.try(), false);
  await victim.kill();
  if (wrong.expect("ours after kill -9 of the holder", await granted(site, next.try), true)) await next.release();
  const takers = [await crew.lock(a, file, PIDFILE), await crew.lock(b, file, PIDFILE)];
  const taken = await Promise.all(takers.map((each) => each.try()));
  const count = taken.filter(Boolean).length;
  wrong.expect("how many of two took over a dead owner's PID file", count, judges(site) ? 1 : 0);
  for (const [i, taker] of takers.entries()) if (taken[i]) await taker.release();
  if (judges(site)) wrong.expect("what is left of the PID file", names(seen).includes("killed-file.lock.pid"), false);
  else unlinkSync(`${seen}/killed-file.lock.pid`);
  const told = [...await a.call("stale"), ...await b.call("stale")].filter((pid) => pid === victim.pid).length;
  wrong.expect("how often we were told of the dead holder", told, judges(site) ? 2 : 1);
};

/** A deleted file is made again and locked; a replaced one is a loss. */
export const deleted: Trial = async (site, wrong) => {
  const { crew, a, b, folder, seen } = site;
  const path = `${folder}/deleted.lock`;
  const [mine, other] = [await crew.lock(a, path), await crew.lock(b, path)];
  const they = python(crew, path);
  wrong.expect("ours on a free lock", await mine.try(), true);
  unlinkSync(`${seen}/deleted.lock`);
  wrong.expect("verify() after the file was deleted", await mine.verify(), true);
  wrong.expect("ours on the file made again", await other.try(), false);
  wrong.expect("Python on the file made again", await they.take("exclusive"), false);
  put(seen, "new", "");
  renameSync(`${seen}/new`, `${seen}/deleted.lock`);
  wrong.expect("verify() after the file was replaced", await mine.verify(), false);
  wrong.expect("release() of what was lost", await mine.failure("release"), "LockLostError ELOST");
  if (wrong.expect("Python on the file that replaced it", await granted(site, () => they.take("exclusive")), true)) {
    await they.release();
  }
};

/** The PID file excludes the PID file and the kernel lock, both ways, and leaves nothing. */
export const pidFile: Trial = async (site, wrong) => {
  const { crew, a, b, folder, seen } = site;
  const path = `${folder}/file.lock`;
  const file = await crew.lock(a, path, PIDFILE);
  const others: [string, Locked][] = [
    ["another PID file", await crew.lock(b, path, PIDFILE)],
    ["the kernel lock", await crew.lock(b, path)],
  ];
  for (const [what, other] of others) {
    if (!wrong.expect("a PID file on a free lock", await granted(site, file.try), true)) return;
    wrong.expect(`${what} while a PID file holds`, await other.try(), false);
    await file.release();
    if (!wrong.expect(`${what} after the release of a PID file`, await other.try(), true)) continue;
    wrong.expect(`a PID file while ${what} holds`, await file.try(), false);
    await other.release();
  }
  const left = names(seen).split(" ").filter((name) => name.startsWith("file.lock.")).join(" ");
  wrong.expect("what is left beside the lock", left, "");
};

/** Who has it can be read, and that nobody has it. */
export const inspected: Trial = async (site, wrong) => {
  const { crew, a, b, folder } = site;
  for (const backend of ["flock", "pidfile"] as const) {
    const path = `${folder}/inspected-${backend}.lock`;
    const [mine, other] = [await crew.lock(a, path, { backend, label: "näml" }), await crew.lock(b, path)];
    wrong.expect(`ours by ${backend} on a free lock`, await mine.try(), true);
    await seenBy(other, mine, judges(site) && !site.remote, `by ${backend}`, wrong);
    await mine.release();
    wrong.expect(`the state after the release by ${backend}`, (await other.inspect()).state, "free");
  }
};

async function seenBy(other: Locked, mine: Locked, judges: boolean, how: string, wrong: Wrong) {
  const { state, holder } = await other.inspect();
  wrong.expect(`the holder ${how}`, `${holder?.pid} ${holder?.label}`, `${mine.agent.pid} näml`);
  wrong.expect(`the state while held ${how}`, judges ? state : state.replace("unknown", "held"), "held");
}

/** What a place that can do everything is tried with. */
export const ALL: Readonly<Record<string, Trial>> = {
  exclusive,
  shared,
  "refused try": untouched,
  "kill -9": killed,
  "deleted file": deleted,
  "PID file": pidFile,
  inspect: inspected,
};

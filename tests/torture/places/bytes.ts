/** A folder whose name is not UTF-8, which no JavaScript string can name: only as the current directory. */
import type { Kind } from "../../harness.ts";
import { Crew, flock1, type Wrong } from "./site.ts";

const INSIDE = 'cd "$0"; at=$(printf "a\\377b"); mkdir -p "$at"; cd "$at"; exec "$@"';

/** The lock in that very folder, or an error: never one elsewhere. */
export async function inBytes(kind: Kind, dir: string, wrong: Wrong): Promise<void> {
  const crew = new Crew(kind, { by: ["sh", "-euc", INSIDE, dir], allow: dir });
  try {
    const lock = await crew.lock(await crew.agent(), "bytes.lock");
    const outcome = await lock.failure();
    const held = outcome === "try was true";
    wrong.expect("ours in the folder", held || /^LockError (ENOENT|EACCES)$/.test(outcome) || outcome, true);
    const they = flock1(crew, "bytes.lock");
    wrong.expect(`flock(1) there, after ours: ${outcome}`, await they.take("exclusive"), !held);
  } finally {
    await crew.end();
  }
}

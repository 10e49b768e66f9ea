/** A folder whose name is not UTF-8, which no JavaScript string can name: only as the current directory. */
import type { Kind } from "../../support/harness.ts";
import { Crew, flock1, type Wrong } from "./site.ts";

const INSIDE = 'cd "$0"; at=$(printf "a\\377b"); mkdir -p "$at"; cd "$at"; exec "$@"';

/** An error, and never a lock elsewhere. */
export async function inBytes(kind: Kind, dir: string, wrong: Wrong): Promise<void> {
  const crew = new Crew(kind, { by: ["sh", "-euc", INSIDE, dir], allow: dir });
  try {
    // What may not ask for the folder's name, a Deno with few permissions, may not open the file either.
    const outcome = await crew.lock(await crew.agent(), "bytes.lock")
      .then((lock) => lock.failure(), ({ name }: Error) => name);
    wrong.expect("ours in the folder", /^(?:TypeError|LockError EACCES)$/.test(outcome) || outcome, true);
    wrong.expect(`flock(1) there, after ours: ${outcome}`, await flock1(crew, "bytes.lock").take("exclusive"), true);
  } finally {
    await crew.end();
  }
}

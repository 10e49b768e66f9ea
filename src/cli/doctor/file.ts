/** The lock file itself, as `holdfast run` would find it. */
import { existsSync } from "node:fs";
import { Lock, LockError } from "../../../mod.ts";
import { isLeased } from "../../backend/entry.ts";
import { reasonOf } from "../../record/errors.ts";
import { explain } from "../../record/explain.ts";
import { system } from "../../sys/mod.ts";
import { shown } from "../../sys/printable.ts";
import { SystemError } from "../../sys/contract.ts";
import { isUncertain } from "../../inspect/status.ts";
import { NAME } from "../version.ts";
import { stateOf } from "../words.ts";
import { error, type Finding, ok, warning } from "./finding.ts";

const ABOUT = "lock";

/** What is to be said of it; `usable`: it is there, and may be opened. */
export function judgeFile(path: string): { finding: Finding; usable: boolean } {
  try {
    const status = Lock.inspect(path);
    const { state, reason, holder } = status;
    const closed = whyNotOpened(path);
    if (closed !== undefined) {
      const advice = `a lock on it takes the right to read it: "ls -l ${shown(path)}" shows who has that`;
      return { finding: error(ABOUT, `${shown(path)} cannot be opened: ${closed}`, advice), usable: false };
    }
    const what = `${shown(path)} is ${stateOf(status)}: ${reason}${holder && state !== "free" ? `; ${holder}` : ""}`;
    const advice = state === "unknown"
      ? `find out whether its owner lives; "${NAME} break" removes what it left`
      : `whether it is held only a try tells: "${NAME} run -n ${shown(path)} true"; or ask outside of the container`;
    const doubtful = state === "unknown" || isUncertain(status);
    return { finding: doubtful ? warning(ABOUT, what, advice) : ok(ABOUT, what), usable: existsSync(path) };
  } catch (failure) {
    if (!(failure instanceof LockError)) throw failure;
    const advice = "a lock file must be a regular file that this user may read";
    return { finding: error(ABOUT, failure.message, advice), usable: false };
  }
}

/** Asks the kernel about a file that may not be opened, too: a free lock is no help to a user without the right to lock it. */
function whyNotOpened(path: string): string | undefined {
  const sys = system();
  try {
    sys.openRead(path)?.close();
    return undefined;
  } catch (failure) {
    if (!(failure instanceof SystemError)) throw failure;
    return isLeased(failure) ? undefined : reasonOf(explain(sys, path, failure));
  }
}

/** Which users may make lock files in a directory, and delete them. */
import { accessSync, constants, statSync } from "node:fs";
import { isWindows } from "../../sys/mod.ts";
import { shown } from "../../sys/printable.ts";
import { error, type Finding, ok, warning } from "./finding.ts";

const ABOUT = "permissions";

/** Whether this user has a right there. */
function may(directory: string, right: number): boolean {
  try {
    accessSync(directory, right);
    return true;
  } catch {
    return false; // EACCES or EROFS: the answer that was asked for
  }
}

/** Whether this user may make files there. */
export const mayMakeFiles = (directory: string): boolean => may(directory, constants.W_OK | constants.X_OK);

/** Whether this user may use what is in it. On Windows a directory has no such right that is ever missing. */
export const mayEnter = (directory: string): boolean => isWindows() || may(directory, constants.X_OK);

/** Which users may delete files there: a deleted lock file is two locks. */
export function judgeRights(directory: string): Finding[] {
  if (isWindows()) return []; // it has access control lists; the mode that a runtime shows is made up
  const { mode, uid } = statSync(directory);
  const own = process.getuid?.();
  const octal = (mode & 0o7777).toString(8).padStart(4, "0");
  const what = `${shown(directory)} has mode ${octal} and belongs to uid ${uid}`;
  const found: Finding[] = [];
  if (!mayEnter(directory)) {
    const advice = "its owner can allow that; else use another directory";
    return [error(ABOUT, `${what}, and this user (uid ${own}) may not enter it`, advice)];
  }
  if (!mayMakeFiles(directory)) {
    const advice = "lock files that are there already can be used: make others beforehand, or use another directory";
    found.push(warning(ABOUT, `${what}, and this user (uid ${own}) may not make files in it`, advice));
  }
  const sticky = (mode & 0o1000) !== 0;
  if ((mode & 0o002) !== 0) {
    found.push(warning(
      ABOUT,
      sticky
        ? `${what}: any user may make a lock's file there first, and hold it`
        : `${what}: any user may delete a lock's file there, and so have two hold the lock`,
      // Never a chmod of /tmp: it is to be as it is.
      sticky
        ? "use a directory that only those who lock may write to, such as the lock directory"
        : `use a directory that only those who lock may write to: chmod o-w ${shown(directory)}, or another`,
    ));
  } else if ((mode & 0o020) !== 0 && !sticky) {
    found.push(
      warning(
        ABOUT,
        `${what}: its whole group may delete a lock's file there`,
        `chmod +t ${shown(directory)}, unless the group is trusted`,
      ),
    );
  } else if (uid !== 0 && own !== undefined && uid !== own) {
    found.push(
      warning(
        ABOUT,
        `${what}: that user may delete a lock's file there`,
        "use a directory of your own, unless that user is trusted",
      ),
    );
  }
  return found.length > 0 ? found : [ok(ABOUT, what)];
}

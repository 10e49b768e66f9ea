/**
 * Who is inside, told by no lock: each who enters puts a file with its PID into
 * a folder and only then looks who else has one there. Of two who are inside at
 * once the later one therefore sees the earlier one.
 *
 * A file whose process is dead says nothing: whoever is killed inside leaves it,
 * and the next holder may come before anybody has cleared it away.
 */
import { closeSync, openSync, readdirSync, readFileSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";

let entries = 0;

/**
 * Goes in; `others` are the PIDs of those who are inside too.
 * @param {string} dir
 * @param {number} pid
 */
export function enter(dir, pid = process.pid) {
  const name = `${pid}-${++entries}`;
  const file = join(dir, name);
  closeSync(openSync(file, "wx"));
  const others = readdirSync(dir)
    .filter((other) => other !== name)
    .map((other) => Number(other.split("-")[0]))
    .filter(isAlive);
  return { others, leave: () => unlinkSync(file) };
}

/**
 * Not by holdfast's own verdict. What cannot be told counts as alive: a false alarm is better than none.
 * @param {number} pid
 */
export function isAlive(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return !"ZX".includes(stat[stat.lastIndexOf(")") + 2]);
  } catch (error) {
    return error.code !== "ENOENT" && error.code !== "ESRCH"; // ESRCH: it ended while it was read
  }
}

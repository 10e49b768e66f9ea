/** What deletes files there: systemd-tmpfiles by its rules (tmpfiles.d(5)), and whatever clears /tmp. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Finding, ok, warning } from "./finding.ts";

/** The first directory that has a file of a name wins. */
const DIRECTORIES = ["/etc/tmpfiles.d", "/run/tmpfiles.d", "/usr/local/lib/tmpfiles.d", "/usr/lib/tmpfiles.d"];

/** Those of Linux, and of macOS, whose TMPDIR is the last two: what was not accessed for 3 days goes (confstr(3)). */
const TEMPORARY = [
  "/tmp",
  "/var/tmp",
  "/private/tmp",
  "/private/var/tmp",
  "/var/folders/*/*/T",
  "/private/var/folders/*/*/T",
];

/** A rule by which files of some age go. */
export interface Rule {
  readonly path: string;
  readonly age: string;
  readonly file: string;
}

/** The rules that apply here; `root` is put before every path, for tests. */
export function cleaningRules(root = ""): { rules: Rule[]; kept: string[] } {
  const files = new Map<string, string>();
  for (const directory of DIRECTORIES) {
    for (const name of namesIn(root + directory)) {
      if (name.endsWith(".conf") && !files.has(name)) files.set(name, join(directory, name));
    }
  }
  const rules: Rule[] = [], kept: string[] = [];
  for (const file of files.values()) {
    for (const line of textOf(root + file).split("\n")) {
      const [type = "", path = "", , , , age = "-"] = line.trim().split(/\s+/).map((each) =>
        each.replace(/^"|"$/g, "")
      );
      if (/^[xX]/.test(type)) kept.push(path);
      // The types that an age cleans.
      else if (/^[dDevqQC]/.test(type) && age !== "-" && age !== "") rules.push({ path, age, file });
    }
  }
  return { rules, kept };
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return []; // no such directory, no rules
  }
}

function textOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return ""; // a link to /dev/null turns a file of rules off, and one that cannot be read says nothing
  }
}

/** Whether a rule's path, which may be a pattern, is this one or one above it. */
function covers(pattern: string, path: string): boolean {
  const source = pattern.replace(/\/+$/, "").replace(/[.+^${}()|\\]/g, "\\$&")
    .replaceAll("*", "[^/]*").replaceAll("?", "[^/]");
  try {
    return new RegExp(`^${source}(?:/|$)`).test(path);
  } catch {
    return false; // a bracket that is none of a pattern's
  }
}

const LONG_HELD =
  "a lock file is as old as the last time that it was taken: a lock that is held for longer loses its file, and is then two locks; " +
  "use the lock directory (a plain name for LOCK), or another that no cleaner works in";

/** What is to be said of a file in this directory. */
export function judgeCleaners(path: string, { rules, kept } = cleaningRules()): Finding {
  const about = "cleaners";
  if (kept.some((pattern) => covers(pattern, path))) return ok(about, "systemd-tmpfiles is told to leave it alone");
  const [rule] = rules.filter((rule) => covers(rule.path, path)).sort((a, b) => b.path.length - a.path.length);
  if (rule) {
    return warning(
      about,
      `systemd-tmpfiles deletes what is older than ${rule.age} in ${rule.path} (${rule.file})`,
      LONG_HELD,
    );
  }
  const temporary = TEMPORARY.find((each) => covers(each, path));
  return temporary
    ? warning(
      about,
      `${temporary} is cleared by many systems, at a restart or by age, though no rule for it was found here`,
      LONG_HELD,
    )
    : ok(about, "no rule of systemd-tmpfiles deletes files there");
}

/**
 * Debian's packages by an apt that has folders of its own, so that the machine's
 * is as before. Where they come from is what the machine is configured with, in
 * /etc/apt.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { command } from "./needs.ts";

export interface AptOptions {
  /** Such as `arm64`; the machine's own unless given. */
  readonly architecture?: string;
  /** Source packages instead of those for a machine. */
  readonly sources?: boolean;
}

/** The machine's sources, by the names of their files. */
function configured(): [name: string, text: string][] {
  const folder = "/etc/apt/sources.list.d";
  const parts = existsSync(folder) ? readdirSync(folder).map((name) => join(folder, name)) : [];
  const files = ["/etc/apt/sources.list", ...parts].filter((file) =>
    /\.(list|sources)$/.test(file) && existsSync(file)
  );
  return files.map((file) => [file.split("/").at(-1)!, readFileSync(file, "utf8")]); // `!`: a path has a last part
}

/** Has apt-get fetch packages into a folder that is empty; throws what it says if it cannot. */
export function fetchPackages(folder: string, packages: readonly string[], options: AptOptions = {}): void {
  const { architecture, sources = false } = options;
  const apt = join(folder, "apt");
  for (const each of ["lists/partial", "archives/partial", "sources"]) mkdirSync(join(apt, each), { recursive: true });
  for (const [name, text] of configured()) {
    const types = name.endsWith(".list")
      ? text.replace(/^deb\s/gm, "deb-src ")
      : text.replace(/^Types:.*$/gm, "Types: deb-src");
    writeFileSync(join(apt, "sources", name), sources ? types : text);
  }
  const foreign = architecture ? [`APT::Architecture=${architecture}`, `APT::Architectures::=${architecture}`] : [];
  if (architecture) writeFileSync(join(apt, "status"), ""); // nothing for it is installed
  const configuration = [
    ...foreign,
    ...(architecture ? [`Dir::State::status=${apt}/status`] : []),
    "Dir::Etc::SourceList=/dev/null",
    `Dir::Etc::SourceParts=${apt}/sources`,
    `Dir::State::Lists=${apt}/lists`,
    `Dir::Cache=${apt}`,
    "APT::Sandbox::User=root", // else it warns that _apt may not read our folder
    "Acquire::Retries=3",
  ].flatMap((option) => ["-o", option]);
  const run = (...args: string[]) =>
    spawnSync(command("apt-get"), [...configuration, "-qq", ...args], { cwd: folder, encoding: "utf8" });
  const updated = run("update"); // it fails too for one source of many that has no such packages
  const { status, error, stderr } = sources
    ? run("source", "--download-only", ...packages)
    : run("download", ...packages);
  if (status !== 0) throw new Error(`apt-get: ${error?.message ?? `${updated.stderr}${stderr}`.trim()}`);
  rmSync(apt, { recursive: true });
}

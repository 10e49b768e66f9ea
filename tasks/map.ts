/**
 * `deno task map`: the shape of the source, in figures that a change can be held
 * against: files and lines by folder, circles, imports against the direction,
 * what one tryAcquire() runs through, and the variables that outlive a call.
 */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { deno, tool } from "../tests/support/tools.ts";
import { against, circles, readSources, variables } from "./map/source.ts";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

const sources = readSources();
const folderOf = (name: string) => name.includes("/") ? name.slice(0, name.lastIndexOf("/")) : ".";

console.log("## Files and lines by folder\n");
const folders = Map.groupBy(sources.values(), ({ name }) => folderOf(name));
for (const [folder, files] of [...folders].sort()) {
  const lines = files.reduce((sum, file) => sum + file.lines, 0);
  console.log(`${folder.padEnd(20)} ${String(files.length).padStart(3)} files ${String(lines).padStart(6)} lines`);
}
const total = [...sources.values()].reduce((sum, { lines }) => sum + lines, 0);
console.log(`${"all".padEnd(20)} ${String(sources.size).padStart(3)} files ${String(total).padStart(6)} lines`);

const found = circles(sources);
console.log(`\n## Circles of imports, types included: ${found.length}\n`);
for (const circle of found) console.log(`${circle.length} files: ${circle.join(" ")}`);

const wrong = against(sources);
console.log(`\n## Imports against the direction: ${wrong.length}\n`);
for (const each of wrong) console.log(each);

/** What a probe prints: a JSON text on its last line. */
function probe<T>(command: string, ...args: string[]): T {
  const { stdout, stderr, status } = spawnSync(command, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${args.join(" ")} ended with ${status}: ${stderr}`);
  return JSON.parse(stdout.trim().split("\n").at(-1)!); // `!`: split gives one part at least
}

const frames = probe<string[]>(deno(), "run", "-A", "--no-check", here("map/frames.ts"));
const files = new Set(frames.map((frame) => frame.split(" ")[1]));
console.log(`\n## From tryAcquire() to flock(2): ${frames.length} frames in ${files.size} files\n`);
console.log(frames.join("\n"));

const touched = probe<string[]>(tool("node26"), "--disable-warning=ExperimentalWarning", here("map/touched.ts"));
console.log(`\n## Files that one acquire and release run code of: ${touched.length}\n`);
console.log(touched.join("\n"));

const kept = variables(sources);
console.log(`\n## Module-level variables that change: ${kept.length}\n`);
for (const { file, name, reason } of kept) console.log(`${file}: ${name}${reason ? ` (${reason})` : ": NO REASON"}`);

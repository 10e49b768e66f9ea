/**
 * `deno task map`: the shape of the source, in figures that a change can be held
 * against: files and lines by folder, circles, imports against the direction,
 * what one tryAcquire() runs through, and the variables that outlive a call.
 */
import { filesTouched, framesOfTry } from "./map/probe.ts";
import { against, circles, readSources, variables } from "./map/source.ts";

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

const frames = framesOfTry();
const files = new Set(frames.map((frame) => frame.split(" ")[1]));
console.log(`\n## From tryAcquire() to flock(2): ${frames.length} frames in ${files.size} files\n`);
console.log(frames.join("\n"));

const touched = filesTouched();
console.log(`\n## Files whose code runs in one acquire and release: ${touched.length}\n`);
console.log(touched.join("\n"));

const kept = variables(sources);
console.log(`\n## Module-level variables that change: ${kept.length}\n`);
for (const { file, name, reason } of kept) console.log(`${file}: ${name}${reason ? ` (${reason})` : ": NO REASON"}`);

/** Copies of our source with deliberate faults in them: what finds no fault in these would find none anywhere. */
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const repository = fileURLToPath(new URL("../../", import.meta.url));

/** A file, what stands in it exactly once, and what is to stand there instead. */
export type Edit<File extends string = string> = readonly [file: File, before: string, after: string];

/** A file's text with that edit. One that no longer fits would leave a mutant that is none. */
export function edited(text: string, [file, before, after]: Edit): string {
  const parts = text.split(before);
  if (parts.length !== 2) throw new Error(`${file} has ${JSON.stringify(before)} ${parts.length - 1} times, not once`);
  return parts.join(after);
}

/** Copies the source, with these edits of files in src: nobody's edit in the middle of a long run gets into it. */
export function copySource(folder: string, edits: readonly Edit[] = []): string {
  for (const name of ["src", "mod.ts"]) cpSync(join(repository, name), join(folder, name), { recursive: true });
  for (const edit of edits) {
    const path = join(folder, "src", edit[0]);
    writeFileSync(path, edited(readFileSync(path, "utf8"), edit));
  }
  return folder;
}

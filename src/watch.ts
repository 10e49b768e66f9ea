/** Tells when something happens to a file. It never keeps the process alive, and may be deaf: whoever waits polls too. */
import { type FSWatcher, watch } from "node:fs";

/** Watches a file until closed; undefined where it cannot be watched. */
export function watchFile(path: string, happened: () => void): { close(): void } | undefined {
  let watcher: FSWatcher;
  try {
    watcher = watch(path, { persistent: false }, happened);
  } catch {
    return undefined; // no file, no permission, or no inotify watch left: the poll serves
  }
  watcher.on("error", () => watcher.close()); // the same, later
  return watcher;
}

/** Tells when something happens to a file. It never keeps the process alive, and may miss events: a waiter polls too. */
import { watchFile as watch } from "../sys/mod.ts";

/** Watches a file until closed; undefined where it cannot be watched. */
export function watchFile(path: string, happened: () => void): { close(): void } | undefined {
  try {
    return watch(path, happened);
  } catch {
    return undefined; // no file, no permission, or no inotify watch left: the poll serves
  }
}

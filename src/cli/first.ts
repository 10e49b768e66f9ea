/** The first process of a container. The kernel gives it no default action: `docker stop` would wait, and then kill. */
import { FORWARDED } from "./supervise.ts";
import { signalStatus } from "./words.ts";

/**
 * While the returned function is not called, a signal ends the first process, with the status that a shell has for it.
 * Elsewhere it does nothing: there the kernel ends a process that waits. Bun and Node were deaf, and Deno died of SIGSEGV.
 */
export function endAsFirst(): () => void {
  if (process.pid !== 1) return () => {};
  let waiting = true;
  for (const signal of FORWARDED) {
    process.on(signal, () => {
      // A moment later: who shows a line on the terminal takes it away first.
      if (waiting) setImmediate(() => process.exit(signalStatus(signal)));
    });
  }
  return () => void (waiting = false);
}

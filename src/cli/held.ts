/** Names the holder of a lock, in a line; and shows that line while `run` waits. */
import { type Lock, LockError, type LockStatus } from "../../mod.ts";
import { unnamed } from "../record/messages.ts";
import { isUncertain } from "../inspect/status.ts";
import { isWindows } from "../sys/mod.ts";
import { printable, quote, shown } from "../sys/printable.ts";
import { columns, cut, sayRaw } from "./output.ts";
import { NAME } from "./version.ts";
import { age, ago, span } from "./words.ts";

/** The holder of a lock, and since when. */
export function byWhom(status: LockStatus): string {
  const { path, state, holder, holders, reason: raw } = status;
  const reason = printable(raw);
  if (!holder) {
    const who = isWindows() ? "" : ` ("fuser -v ${shown(path)}" names those that have it open)`;
    return `by ${unnamed(status)}; it counts as held because ${reason}${who}`;
  }
  const since = ago(holder.acquiredAt);
  const rest = holders.slice(1 + NAMED).length;
  const others = holders.slice(1, 1 + NAMED).map(({ pid }, i) => `${i === 0 ? ", and by pid " : ", "}${pid}`).join("") +
    (rest > 0 ? ` and ${rest} more` : "");
  const doubt = state === "unknown" ? `; it counts as held because ${reason}${howToSettle(status)}` : "";
  return `by ${holder}${since ? ` (${since})` : ""}${others}${doubt}`;
}

/** What a person can do about a PID file whose owner cannot be judged from here. */
export const howToSettle = ({ path, state, backend }: LockStatus): string =>
  state === "unknown" && backend === "pidfile"
    ? `. If no process holds it any more, "${NAME} break ${shown(path)}" removes its PID file`
    : "";

/** Maximum number of further holders in the line, each by its PID. */
const NAMED = 8;

/** The same for a lock that could not be had; it may be free by now. */
export function whoHeld(lock: Lock): string {
  try {
    const status = lock.inspect();
    if (isUncertain(status)) return `by a process that cannot be seen from here: ${printable(status.reason)}`;
    return status.state === "free" || status.state === "stale"
      ? "by a process that has just released it"
      : byWhom(status);
  } catch (error) {
    if (!(error instanceof LockError)) throw error;
    return `by a process that cannot be seen: ${error.message}`;
  }
}

/** The same for a line that may be cut off: what is of most use comes first. */
function inShort(lock: Lock): string {
  let status: LockStatus;
  try {
    status = lock.inspect();
  } catch (error) {
    // Thrown in a timer it would end us, and with us the wait.
    if (!(error instanceof LockError)) throw error;
    return "held by a process that cannot be seen";
  }
  const { holder, reason } = status;
  if (isUncertain(status)) return `held by a process that cannot be seen from here: ${printable(reason)}`;
  if (!holder) return `held by ${unnamed(status)}: ${printable(reason)}`;
  const held = age(holder.acquiredAt);
  const { pid, label, command } = holder;
  return `held by pid ${pid}${label ? `, ${quote(label)}` : ""}` +
    (held === undefined ? "" : ` for ${span(held)}`) + (command ? `: ${printable(command)}` : "");
}

/** A wait shorter than that shows nothing, and later the line is renewed so often, in milliseconds. */
const AT_FIRST = 100, PAUSE = 1000;

/** Those that end a wait by default: the line goes before we do. */
const ENDING = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"] as const;

/** Shows on the terminal the holder and how long this process has waited, until the wait is over. */
export async function showing<T>(lock: Lock, name: string, wait: Promise<T>): Promise<T> {
  const began = performance.now();
  let timer: ReturnType<typeof setTimeout>, visible = false;
  const clear = () => {
    if (visible) sayRaw("\r\x1b[K");
    visible = false;
  };
  const show = () => {
    const waited = span(Math.floor((performance.now() - began) / 1000) * 1000);
    const line = `${NAME}: waiting for ${shown(name)} for ${waited}, ${inShort(lock)}`;
    sayRaw(`\r${cut(line, columns(2) - 1)}\x1b[K`);
    visible = true;
    timer = setTimeout(show, PAUSE);
  };
  const handlers = ENDING.map((signal) => ({
    signal,
    handler: () => {
      stop();
      process.kill(process.pid, signal); // no handler is left: the default again
    },
  }));
  const stop = () => {
    clearTimeout(timer);
    clear();
    for (const { signal, handler } of handlers) process.off(signal, handler);
  };
  for (const { signal, handler } of handlers) process.on(signal, handler);
  timer = setTimeout(show, AT_FIRST);
  try {
    return await wait;
  } finally {
    stop();
  }
}

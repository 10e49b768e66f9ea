/**
 * What docs/protocol.md says of bytes, and of the owner that they name: read off that page once more, byte by byte, and
 * without a line of src/. Whatever the library says is compared to it.
 */
import { existsSync, readFileSync } from "node:fs";

/** The fields of a record, read by nobody but JSON.parse. */
export type Fields = Record<string, unknown> & { readonly pid: number };

export type Reading =
  | { readonly kind: "empty" | "foreign" }
  | { readonly kind: "damaged"; readonly pid: number }
  | { readonly kind: "record"; readonly fields: Fields };

const LIMIT = 4096;
const HEAD = new TextEncoder().encode('{"holdfast":');
export const TEXTS = "startTime bootId pidNamespace timeNamespace host fileSystem command runtime acquiredAt label"
  .split(" ");

/** What the bytes of a file are. */
export function readBytes(bytes: Uint8Array): Reading {
  if (bytes.length > LIMIT) return { kind: "foreign" };
  if (bytes.every((byte) => byte === 0)) return { kind: "empty" };
  const lineEnd = (from: number) => {
    const at = bytes.indexOf(10, from);
    return at < 0 ? bytes.length : at;
  };
  const end = lineEnd(0);
  let pid = 0;
  for (let i = 0; i < end; i++) {
    if (bytes[i] < 0x30 || bytes[i] > 0x39 || (i === 0 && bytes[i] === 0x30)) return { kind: "foreign" };
    pid = pid * 10 + bytes[i] - 0x30;
  }
  if (pid < 1 || pid > 0x7fffffff) return { kind: "foreign" };
  if (end >= bytes.length - 1) return { kind: "record", fields: { pid } };
  for (let i = 0; i < HEAD.length; i++) if (bytes[end + 1 + i] !== HEAD[i]) return { kind: "foreign" };
  const second = lineEnd(end + 1);
  for (let i = second + 1; i < bytes.length; i++) if (bytes[i] !== 0) return { kind: "foreign" };
  const damaged = { kind: "damaged", pid } as const;
  if (second !== bytes.length - 1) return damaged; // no line end, or something behind it
  let fields: Fields;
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes.subarray(end + 1, second));
    fields = JSON.parse(text);
  } catch {
    return damaged;
  }
  const has = (name: string) => Object.hasOwn(fields, name) && fields[name] !== undefined;
  const good = Number.isInteger(fields.holdfast) && Number(fields.holdfast) >= 1 && fields.pid === pid &&
    TEXTS.every((name) => !has(name) || typeof fields[name] === "string") &&
    (!has("thread") ||
      (Number.isInteger(fields.thread) && Number(fields.thread) >= 1 && Number(fields.thread) <= 0x7fffffff)) &&
    (!has("uid") || (Number.isSafeInteger(fields.uid) && Number(fields.uid) >= 0)) &&
    (!has("mode") || fields.mode === "exclusive" || fields.mode === "shared") &&
    (!has("nonce") || (typeof fields.nonce === "string" && /^[0-9a-f]{32}$/.test(fields.nonce)));
  return good ? { kind: "record", fields } : damaged;
}

/** The facts of which a holder writes one at least; without any, it is another program's number. */
const WHERE = ["nonce", "runtime", "bootId", "pidNamespace", "timeNamespace", "host"];
const INITIAL = "4026531836";

/** Its owner, by src/record/owner.ts's rules; `here` is a record of this process, beside which the file lies. */
export function judgeOwner(fields: Fields, here: Record<string, unknown>): "alive" | "dead" | "unknown" {
  const value = (name: string) => Object.hasOwn(fields, name) ? fields[name] : undefined;
  const same = (name: string) => value(name) !== undefined && value(name) === here[name];
  if (WHERE.every((name) => value(name) === undefined)) return judgeProcess(fields.pid, value("startTime"));
  const isLocal = here.fileSystem === "local";
  if (value("bootId") !== undefined && here.bootId !== undefined && !same("bootId")) {
    const restarted = isLocal && [undefined, "local"].some((each) => value("fileSystem") === each) && same("host") &&
      same("pidNamespace") && value("pidNamespace") === INITIAL;
    return restarted ? "dead" : "unknown";
  }
  if (!same("bootId") || !same("pidNamespace") || !(isLocal || same("host"))) return "unknown";
  const state = judgeProcess(fields.pid, value("startTime"));
  const thread = value("thread");
  if (state === "alive" && thread !== undefined && !existsSync(`/proc/${fields.pid}/task/${thread}`)) return "dead";
  if (state !== "dead" || same("timeNamespace")) return state;
  return judgeProcess(fields.pid, undefined) === "dead" ? "dead" : "unknown"; // the clock of another namespace
}

/** Whether it does not say where it ran, and nothing it says is otherwise here. */
export const saysTooLittle = (fields: Fields, here: Record<string, unknown>): boolean =>
  ["bootId", "pidNamespace", "host"].every((name) =>
    !Object.hasOwn(fields, name) || fields[name] === undefined || fields[name] === here[name]
  );

/** A number of this machine's table, by /proc alone. */
export function judgeProcess(pid: number, startTime: unknown): "alive" | "dead" {
  if (!existsSync(`/proc/${pid}/stat`)) return "dead"; // 3
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const [state, started] = [0, 19].map((i) => stat.slice(stat.lastIndexOf(")") + 2).split(" ")[i]);
    if (state === "Z" || state === "X") return "dead"; // 4
    if (Number(/^Tgid:\s*(\d+)/m.exec(status)?.[1]) !== pid) return "dead"; // 5
    return startTime !== undefined && startTime !== started ? "dead" : "alive"; // 6, 7
  } catch {
    return "dead"; // it ended just now
  }
}

/**
 * The record: what stands in a lock file. Encode, parse, describe; pure.
 *
 * Two lines: the PID, as in every PID file; then JSON with the rest. docs/protocol.md has each field.
 */
import { printable, quote } from "../sys/printable.ts";

/** The most bytes a record has. */
export const RECORD_LIMIT = 4096;

/** The largest PID that is ever given to `kill(2)`: pid_t is a signed 32-bit integer. */
const PID_LIMIT = 2 ** 31 - 1;

/** The fields of a holder. What the process that wrote them could not learn is left out. */
export interface HolderFields {
  /** Process id. */
  readonly pid: number;
  /** The kernel's id of the thread, where it is not the process's first: a Worker. */
  readonly thread?: number;
  /** The kernel's own figure for when the process started; only good to compare. */
  readonly startTime?: string;
  /** The machine's boot, as the kernel names it. */
  readonly bootId?: string;
  /** The PID namespace (a container has its own), or the name of a system that has none. */
  readonly pidNamespace?: string;
  /** The time namespace: start times of two cannot be compared. */
  readonly timeNamespace?: string;
  /** Host name. */
  readonly host?: string;
  /** What a PID file lies on, as its writer saw it: `"local"`, the name of another file system, or `"unknown"`. */
  readonly fileSystem?: string;
  /** User id. */
  readonly uid?: number;
  /** Command line; a long one is cut. */
  readonly command?: string;
  /** Such as `deno/2.9.6`. */
  readonly runtime?: string;
  /** How the lock is held. */
  readonly mode?: "exclusive" | "shared";
  /** When it was acquired by the wall clock, ISO 8601, for people. */
  readonly acquiredAt?: string;
  /** 128 random bits in hexadecimal, fresh for every acquisition. */
  readonly nonce?: string;
  /** The text given as `label`. */
  readonly label?: string;
}

const TEXT_FIELDS = [
  "startTime",
  "bootId",
  "pidNamespace",
  "timeNamespace",
  "host",
  "fileSystem",
  "command",
  "runtime",
  "acquiredAt",
  "label",
] as const;

/** A process that holds a lock, or held it. `String(holder)` is a phrase for people. */
export class LockHolder implements HolderFields {
  /** Process id. */
  declare readonly pid: number;
  /** The kernel's id of the thread, where it is not the process's first: a Worker. */
  declare readonly thread?: number;
  /** The kernel's own figure for when the process started; only good to compare. */
  declare readonly startTime?: string;
  /** The machine's boot, as the kernel names it. */
  declare readonly bootId?: string;
  /** The PID namespace (a container has its own), or the name of a system that has none. */
  declare readonly pidNamespace?: string;
  /** The time namespace: start times of two cannot be compared. */
  declare readonly timeNamespace?: string;
  /** Host name. */
  declare readonly host?: string;
  /** What a PID file lies on, as its writer saw it: `"local"`, the name of another file system, or `"unknown"`. */
  declare readonly fileSystem?: string;
  /** User id. */
  declare readonly uid?: number;
  /** Command line; a long one is cut. */
  declare readonly command?: string;
  /** Such as `deno/2.9.6`. */
  declare readonly runtime?: string;
  /** How the lock is held. */
  declare readonly mode?: "exclusive" | "shared";
  /** When it was acquired by the wall clock, ISO 8601, for people. */
  declare readonly acquiredAt?: string;
  /** 128 random bits in hexadecimal, fresh for every acquisition. */
  declare readonly nonce?: string;
  /** The text given as `label`. */
  declare readonly label?: string;

  /** Made by the library. */
  constructor(fields: HolderFields) {
    for (const [name, value] of Object.entries(fields)) {
      if (value !== undefined) Object.defineProperty(this, name, { value, enumerable: true });
    }
  }

  /** Such as `pid 4711 (deno run nightly.ts) on web-1, "nightly", since 2026-11-29T10:00:00.000Z`. */
  toString(): string {
    const { pid, command, host, label, acquiredAt } = this;
    return `pid ${pid}` +
      (command ? ` (${printable(command)})` : "") +
      (host ? ` on ${printable(host)}` : "") +
      (label ? `, ${quote(label)}` : "") +
      (acquiredAt ? `, since ${printable(acquiredAt)}` : "");
  }
}

/** What a lock file's bytes are. */
export type Content =
  /** Nothing, or the NUL bytes that a power cut leaves. */
  | { readonly kind: "empty" }
  /** A record of ours, or another program's bare PID. */
  | { readonly kind: "record"; readonly holder: LockHolder }
  /** A record of ours that was cut or torn: of its writer only the PID is left. */
  | { readonly kind: "damaged"; readonly holder: LockHolder }
  /** A user's data: never changed. */
  | { readonly kind: "foreign" };

/** The PID, where nothing else stands there that a holder says of itself: another program's PID file. */
export const barePid = (content: Content): number | undefined =>
  content.kind === "record" && Object.keys(content.holder).length === 1 ? content.holder.pid : undefined;

/** A number that may be given to `kill(2)`: no sign, no blank, no zero (which is a process group). */
function parsePid(text: string): number | undefined {
  if (!/^[1-9][0-9]{0,9}$/.test(text)) return undefined;
  const pid = Number(text);
  return pid <= PID_LIMIT ? pid : undefined;
}

/** Whether two contents are the same bytes. */
export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false; // every() takes ten times as long
  return true;
}

/** The length of the command line in a record, in UTF-16 units; it is shorter if the record would be too long. */
export const COMMAND_LIMIT = 1000;
/**
 * A blank before what `kill` would take for a process, a group or a job, or the shell for a pattern. In the
 * record's JSON it is escaped, so that `kill $(cat LOCK)` signals the holder alone, and not a number of its command line.
 */
const NUMBER_AHEAD = / (?=[-+]?\d|[%*?[])/g;

/** A record as the bytes of a lock file, at most {@linkcode RECORD_LIMIT}. */
export function encode(fields: HolderFields): Uint8Array {
  for (let length = COMMAND_LIMIT;; length = length >> 1) {
    const command = fields.command?.slice(0, length);
    const json = JSON.stringify({ holdfast: 1, ...fields, command });
    const text = `${fields.pid}\n${json.replace(NUMBER_AHEAD, "\\u0020")}\n`;
    const bytes = new TextEncoder().encode(text);
    // Only the command line has no bound of its own: labels are checked, the rest is the kernel's.
    if (bytes.length <= RECORD_LIMIT || length === 0) return bytes;
  }
}

/** What these bytes are; give it one byte more than the limit, so that a longer file shows. */
export function parse(bytes: Uint8Array): Content {
  if (bytes.length === 0) return { kind: "empty" };
  if (bytes.length <= RECORD_LIMIT && bytes.every((byte) => byte === 0)) return { kind: "empty" };
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
  const [first, second, ...rest] = text.split("\n");
  const pid = parsePid(first);
  if (pid === undefined || bytes.length > RECORD_LIMIT) return { kind: "foreign" };
  if (second === undefined || (second === "" && rest.length === 0)) {
    return { kind: "record", holder: new LockHolder({ pid }) };
  }
  if (!second.startsWith('{"holdfast":')) return { kind: "foreign" };
  // Lines that a user appended while it was locked are theirs, whatever stands before them.
  if (!/^\0*$/.test(rest.join("\n"))) return { kind: "foreign" };
  // Cut in the middle of a character, it does not come out as it went in.
  const whole = rest.length === 1 && rest[0] === "" && sameBytes(new TextEncoder().encode(text), bytes);
  const fields = whole ? parseFields(second, pid) : undefined;
  return fields
    ? { kind: "record", holder: new LockHolder(fields) }
    : { kind: "damaged", holder: new LockHolder({ pid }) };
}

/** undefined unless every field is of the kind that we write. */
function parseFields(json: string, pid: number): HolderFields | undefined {
  let value: Record<string, unknown>;
  try {
    value = JSON.parse(json);
  } catch {
    return undefined; // cut, torn or too deep: damaged
  }
  // A later version's record is read by the same fields: its owner is judged, never taken for damage.
  if (!Number.isInteger(value.holdfast) || Number(value.holdfast) < 1 || value.pid !== pid) return undefined;
  return holderFields(value);
}

/** The fields of a holder; undefined unless each is of the kind that we write: a nonce, for one, becomes a file's name. */
export function holderFields(value: Readonly<Record<string, unknown>>): HolderFields | undefined {
  const { pid } = value;
  if (parsePid(String(pid)) !== pid) return undefined;
  const fields: Record<string, unknown> = { pid };
  for (const name of TEXT_FIELDS) {
    if (Object.hasOwn(value, name)) fields[name] = value[name];
    if (fields[name] !== undefined && typeof fields[name] !== "string") return undefined;
  }
  const { thread, uid, mode, nonce } = value;
  if (thread !== undefined && parsePid(String(thread)) !== thread) return undefined;
  if (uid !== undefined && !(Number.isSafeInteger(uid) && Number(uid) >= 0)) return undefined;
  if (mode !== undefined && mode !== "exclusive" && mode !== "shared") return undefined;
  if (nonce !== undefined && !(typeof nonce === "string" && /^[0-9a-f]{32}$/.test(nonce))) return undefined;
  return { ...fields, thread, uid, mode, nonce } as HolderFields; // every field was checked above
}

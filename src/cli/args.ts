/** Arguments, parsed by the command's own table of options. */
import { util } from "../sys/builtin.ts";
import { quote } from "../sys/printable.ts";
import { type Command, isOptional, optionsOf } from "./command.ts";

/** The command line is wrong. */
export class UsageError extends Error {
  override name = "UsageError";
}

/** `--help` or `--version` was asked for, whatever else stands there. */
export class Asked extends Error {
  readonly what: "help" | "version";

  constructor(what: "help" | "version") {
    super(what);
    this.what = what;
  }
}

/** What was given. */
export interface Parsed {
  /** By the long names; `true` where no value was given. */
  readonly values: Readonly<Record<string, string | true | undefined>>;
  /** What is no option. */
  readonly rest: readonly string[];
}

/**
 * Parses. `stop`: options end at the first argument that is none, because the
 * rest is another command's.
 *
 * `parseArgs` splits only. Its strict mode knows no value that may be left out,
 * and no suggestion.
 */
export function parse(command: Pick<Command, "options">, args: readonly string[], stop = false): Parsed {
  const options = optionsOf(command);
  const { tokens } = util().parseArgs({
    args: [...args],
    strict: false,
    allowPositionals: true,
    tokens: true,
    options: Object.fromEntries(
      options.map((option) => [option.long, {
        type: option.value && !isOptional(option) ? "string" as const : "boolean" as const,
        ...(option.short ? { short: option.short } : {}),
      }]),
    ),
  });
  const values: Record<string, string | true> = {};
  const rest: string[] = [];
  for (const token of tokens) {
    if (token.kind === "option") {
      const { name, rawName, value } = token;
      const option = options.find(({ long }) => long === name);
      if (!option) throw new UsageError(unknown("option", rawName, options.map(({ long }) => `--${long}`)));
      if (option.value === undefined && value !== undefined) {
        throw new UsageError(`option ${rawName} takes no value: received ${quote(value)}`);
      }
      if (option.value !== undefined && !isOptional(option) && value === undefined) {
        throw new UsageError(`option ${rawName} needs a value: ${option.value}`);
      }
      values[name] = value ?? true;
    } else if (stop) {
      rest.push(...args.slice(token.kind === "option-terminator" ? token.index + 1 : token.index));
      break;
    } else if (token.kind === "positional") {
      rest.push(token.value);
    }
  }
  for (const what of ["help", "version"] as const) {
    if (values[what]) throw new Asked(what);
  }
  return { values, rest };
}

/** An option's value as text; undefined where it was not given, or without one. */
export function text({ values }: Parsed, name: string): string | undefined {
  const value = values[name];
  return value === true ? undefined : value;
}

/** An option's value as a number that is at least `least`. */
export function number(parsed: Parsed, name: string, least: number, most = Infinity): number | undefined {
  const value = text(parsed, name);
  if (value === undefined) return undefined;
  const number = /^(?:\d+\.?\d*|\.\d+)$/.test(value) ? Number(value) : NaN;
  if (number >= least && number <= most) return number;
  const range = most === Infinity ? `of ${least} or more` : `from ${least} to ${most}`;
  throw new UsageError(`option --${name} needs a number ${range}: received ${quote(value)}`);
}

/** The same for a whole number. */
export function whole(parsed: Parsed, name: string, least: number, most: number): number | undefined {
  const value = number(parsed, name, least, most);
  if (value === undefined || Number.isInteger(value)) return value;
  throw new UsageError(`option --${name} needs a whole number: received ${value}`);
}

/** Says what is not known, and what may have been meant. */
export function unknown(kind: string, given: string, known: readonly string[]): string {
  const near = nearest(given, known);
  return `unknown ${kind} ${/^[\w-]+$/.test(given) ? given : quote(given)}` +
    (near ? `, did you mean ${near}?` : "");
}

/** The known name that is no more than a slip away. */
function nearest(given: string, known: readonly string[]): string | undefined {
  const bare = given.replace(/^-+/, "");
  const slips = Math.min(2, Math.ceil(bare.length / 3));
  const [best] = known
    .map((name) => ({ name, far: bare.length > 1 && name.startsWith(given) ? 0 : distance(given, name) }))
    .sort((a, b) => a.far - b.far);
  return best && bare.length > 1 && best.far <= slips ? best.name : undefined;
}

/** How many letters are missing, too many, wrong, or have changed places with their neighbours. */
function distance(a: string, b: string): number {
  const rows = [Array.from({ length: b.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= a.length; i++) {
    rows[i] = [i];
    for (let j = 1; j <= b.length; j++) {
      const wrong = rows[i - 1][j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1);
      const turned = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? rows[i - 2][j - 2] + 1 : wrong;
      rows[i][j] = Math.min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, wrong, turned);
    }
  }
  return rows[a.length][b.length];
}

/**
 * Options as getopt_long(3) reads them where they end at the first argument that
 * is none (`+`): `-w5`, `-w 5`, `-nw 5`, `--timeout=5`, `--timeout 5`, and the
 * beginning of a long name where only one option begins so. Its messages too:
 * `parseArgs` of `node:util` knows neither.
 */

/** An option: what the caller knows it by, whether a value must follow, its letters and its long names. */
export interface Known<Key extends string> {
  readonly key: Key;
  readonly value?: boolean;
  readonly letters?: string;
  readonly names: readonly string[];
}

/** What stood in front of the first argument that is no option. */
export interface Parsed<Key extends string> {
  readonly options: readonly (readonly [key: Key, value: string])[];
  readonly rest: readonly string[];
  /** What is wrong, in getopt's words; the options before it count. */
  readonly complaint?: string;
}

type Found<Key extends string> = readonly [option: Known<Key>, name: string];

/** The option that a long name, perhaps shortened, means; or the complaint. */
function byName<Key extends string>(known: readonly Known<Key>[], given: string): Found<Key> | string {
  const all = known.flatMap((option) => option.names.map((name): Found<Key> => [option, name]));
  const exact = all.find(([, name]) => name === given);
  if (exact) return exact;
  const begun = all.filter(([, name]) => name.startsWith(given));
  if (begun.length === 0) return `unrecognized option '--${given}'`;
  if (begun.every(([option]) => option === begun[0][0])) return begun[0];
  const others = begun.filter(([option]) => option !== begun[0][0]); // not the other names of the first
  const list = [begun[0], ...others].map(([, name]) => ` '--${name}'`).join("");
  return `option '--${given}' is ambiguous; possibilities:${list}`;
}

/** Reads the options off the front. */
export function getopt<Key extends string>(known: readonly Known<Key>[], args: readonly string[]): Parsed<Key> {
  const options: [Key, string][] = [];
  for (let next = 0;;) {
    const arg = args[next] ?? "";
    if (!arg.startsWith("-") || arg === "-") return { options, rest: args.slice(next) };
    next++;
    if (arg === "--") return { options, rest: args.slice(next) };
    const complain = (complaint: string) => ({ options, rest: args.slice(next), complaint });

    if (arg.startsWith("--")) {
      const equals = arg.indexOf("=");
      const found = byName(known, equals === -1 ? arg.slice(2) : arg.slice(2, equals));
      if (typeof found === "string") return complain(found);
      const [{ key, value }, name] = found;
      if (equals !== -1 && !value) return complain(`option '--${name}' doesn't allow an argument`);
      if (value && equals === -1 && next === args.length) return complain(`option '--${name}' requires an argument`);
      options.push([key, !value ? "" : equals === -1 ? args[next++] : arg.slice(equals + 1)]);
      continue;
    }

    for (let at = 1; at < arg.length; at++) {
      const letter = arg[at];
      const option = known.find(({ letters }) => letters?.includes(letter));
      if (!option) return complain(`invalid option -- '${letter}'`);
      if (!option.value) {
        options.push([option.key, ""]);
        continue;
      }
      const glued = arg.slice(at + 1);
      if (glued === "" && next === args.length) return complain(`option requires an argument -- '${letter}'`);
      options.push([option.key, glued === "" ? args[next++] : glued]);
      break;
    }
  }
}

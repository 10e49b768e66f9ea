/**
 * What this process was started with, byte for byte. What the runtime shows of it may be less, for text that is no
 * UTF-8 becomes U+FFFD or is left out; and more, for Bun adds what stands in a file `.env`.
 */
import { type ByteString, fromText, isInexact, toText } from "./bytes.ts";

/** What stands in a file of `/proc` with a NUL behind each entry. */
export const entriesOf = (text: ByteString): ByteString[] => text.split("\0").slice(0, -1);

/** Variables by name and value, as the runtime shows them. */
export type Shown = readonly (readonly [name: string, value: string])[];

/** What the runtime shows and was not given: what the user has had it read, such as `node --env-file`. */
export function addedTo(given: readonly ByteString[], shown: Shown): Shown {
  const known = new Set(given.map(toText));
  return shown.filter(([name, value]) => !known.has(`${name}=${value}`));
}

/** The environment for another program. `given`: undefined where it may not be read, and then there is what is shown. */
export function environmentFor(given: readonly ByteString[] = [], shown: Shown): ByteString[] {
  const added = addedTo(given, shown).map(([name, value]) => ({ name: fromText(`${name}=`), value: fromText(value) }));
  const kept = given.filter((entry) => !added.some(({ name }) => entry.startsWith(name)));
  return [...kept, ...added.map(({ name, value }) => name + value)];
}

/** The last arguments of this process as bytes; undefined where it cannot be known what a U+FFFD among them was. */
export function exactArguments(
  given: readonly ByteString[] | undefined,
  args: readonly string[],
): ByteString[] | undefined {
  const last = given?.slice(-args.length) ?? [];
  // Where the runtime took one away (Bun a first `--`), the others no longer correspond.
  const exact = args.map((arg, i) => last.length === args.length && toText(last[i]) === arg ? last[i] : undefined);
  if (args.some((arg, i) => exact[i] === undefined && isInexact(arg))) return undefined;
  return args.map((arg, i) => exact[i] ?? fromText(arg));
}

/**
 * Finds a lost update. Whoever is inside reads a number from a file, appends it
 * plus one to a list, with its name, and then writes it back. So whoever is
 * killed between the two leaves an entry that the next one repeats; any other
 * repetition, or gap, is an update that was lost. Pure.
 */

export interface Ledger {
  /** Lines of a number and a name. */
  readonly list: string;
  readonly counter: number;
  /** Those that were killed. */
  readonly killed: ReadonlySet<string>;
  /** How many updates each says that it has finished. */
  readonly said: ReadonlyMap<string, number>;
}

/** A sentence for each thing that does not add up. */
export function audit({ list, counter, killed, said }: Ledger): string[] {
  const wrong: string[] = [];
  const entries = list.split("\n").filter((line) => line !== "").map((line) => {
    const [number, who] = line.split(" ");
    return { number: Number(number), who };
  });
  const last = new Map(entries.map(({ who }, i) => [who, i]));
  const cut = (i: number) => i >= 0 && killed.has(entries[i].who) && last.get(entries[i].who) === i;
  let expected = 0;
  for (const [i, { number, who }] of entries.entries()) {
    if (number !== expected + 1 && !(number === expected && cut(i - 1))) {
      wrong.push(`entry ${i + 1} of the list is ${number}, by ${who}, after ${expected}`);
    }
    expected = number;
  }
  if (counter !== expected && !(counter === expected - 1 && cut(entries.length - 1))) {
    wrong.push(`the counter says ${counter}, the list ${expected}`);
  }
  const times = new Map<string, number>();
  for (const { who } of entries) times.set(who, (times.get(who) ?? 0) + 1);
  for (const who of new Set([...times.keys(), ...said.keys()])) {
    const [listed, claimed] = [times.get(who) ?? 0, said.get(who) ?? 0];
    if (listed !== claimed && !(killed.has(who) && listed === claimed + 1)) {
      wrong.push(`${who} says that it made ${claimed} updates, the list has ${listed}`);
    }
  }
  return wrong;
}

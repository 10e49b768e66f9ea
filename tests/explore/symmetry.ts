/**
 * Processes of one kind are alike: a state, and the same state with two of them
 * exchanged, have the same futures. Of all such twins one is explored, the one
 * with the smallest key.
 *
 * One thing is not quite alike: the order in which a sweep finds the files.
 * Every file system has its own, so no order is promised to the back end either.
 */
import { letterOf, pidOf } from "./world.ts";

/** An exchange of processes: who takes whose place, and how that reads in a text. */
export interface Exchange {
  /** The process that stands at each place. */
  readonly at: readonly number[];
  /** A number for a text in which the processes are exchanged; equal texts, equal numbers. */
  readonly number: (text: string) => number;
}

/** All exchanges among processes of one kind, which is named for each. */
export function exchanges(kinds: readonly string[]): Exchange[] {
  const numbers = new Map<string, number>();
  return permutations(kinds.map((_, i) => i))
    .filter((at) => at.every((me, place) => kinds[me] === kinds[place]))
    .map((at) => ({ at, number: renamer(at, numbers) }));
}

function renamer(at: readonly number[], numbers: Map<string, number>): (text: string) => number {
  const places = at.map((_, me) => at.indexOf(me));
  const letters = at.map((_, me) => letterOf(me)).join("");
  // A PID (777n), or the letter of an inode or a nonce: `a10…`, `0000a10…`.
  const pattern = new RegExp(`\\b777(\\d)\\b|(?<=\\b0*)([${letters}])(?=\\d\\d)`, "g");
  const rename = (text: string) =>
    text.replace(
      pattern,
      (_, pid, letter) => pid ? `${pidOf(places[Number(pid)] ?? pid)}` : letterOf(places[letters.indexOf(letter)]),
    );
  const known = new Map<string, number>();
  return (text) => {
    let number = known.get(text);
    if (number === undefined) {
      const renamed = rename(text);
      number = numbers.get(renamed) ?? numbers.size;
      numbers.set(renamed, number);
      known.set(text, number);
    }
    return number;
  };
}

function permutations(items: number[]): number[][] {
  return items.length === 0
    ? [[]]
    : items.flatMap((item, i) => permutations(items.toSpliced(i, 1)).map((rest) => [item, ...rest]));
}

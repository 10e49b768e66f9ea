/** The little statistics that it takes. */

const sorted = (values: readonly number[]) => values.toSorted((a, b) => a - b);

/** `part` is 0.5 for the median. NaN of nothing. */
export function quantile(values: readonly number[], part: number): number {
  const all = sorted(values);
  return all[Math.min(all.length - 1, Math.floor(all.length * part))] ?? NaN;
}

export const median = (values: readonly number[]): number => quantile(values, 0.5);

/**
 * How many times `ours` is of `theirs`, from batches taken in turns: a ratio for each turn, and of those
 * the middle one, so that a turn in which the machine was busy with something else counts once.
 */
export function ratioInTurns(ours: readonly number[][], theirs: readonly number[][]): number {
  const ratios = ours.flatMap((batch, i) => theirs[i]?.length ? [median(batch) / median(theirs[i])] : []);
  return median(ratios);
}

/** The slope of a line through the logarithms: 1 is linear, 2 quadratic. */
export function exponent(points: readonly (readonly [n: number, cost: number])[]): number {
  const logs = points.map(([n, cost]) => [Math.log(n), Math.log(cost)]);
  const mean = (i: number) => logs.reduce((sum, log) => sum + log[i], 0) / logs.length;
  const [x, y] = [mean(0), mean(1)];
  return logs.reduce((sum, log) => sum + (log[0] - x) * (log[1] - y), 0) /
    logs.reduce((sum, log) => sum + (log[0] - x) ** 2, 0);
}

/** Jain's index of fairness: 1 if all got the same, 1/n if one got all. */
export function fairness(shares: readonly number[]): number {
  const sum = shares.reduce((a, b) => a + b, 0);
  return sum ** 2 / (shares.length * shares.reduce((a, b) => a + b * b, 0));
}

/** Three significant digits, or two of what is small. */
export function short(value: number): string {
  if (!Number.isFinite(value)) return "?";
  if (Math.abs(value) >= 100) return value.toFixed(0);
  if (Math.abs(value) >= 10) return value.toFixed(1);
  return Math.abs(value) >= 0.1 || value === 0 ? value.toFixed(2) : value.toPrecision(2);
}

/** Microseconds for people. */
export const time = (us: number): string => us >= 1000 ? `${short(us / 1000)} ms` : `${short(us)} µs`;

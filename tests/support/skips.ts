/** What a run of the tests says of those that were skipped: which, and how to run them too. */
import type { Skip } from "./runners.ts";

/** The tests that were skipped, by what they need: lines, of which the last says how many, and how to run them too. */
export function skipReport(skips: readonly Skip[]): string[] {
  if (skips.length === 0) return [];
  const groups = [...Map.groupBy(skips, ({ needs }) => needs)].sort(([a], [b]) => a < b ? -1 : 1);
  const lines = groups.flatMap(([needs, each]) => {
    const names = Map.groupBy(each, ({ name }) => name);
    return [needs, ...[...names].map(([name, { length }]) => `  ${name}${length > 1 ? ` (${length} times)` : ""}`)];
  });
  const packages = [...new Set(skips.flatMap(({ packages }) => packages))].sort();
  const rights = skips.some(({ packages }) => packages.length === 0);
  const how = [
    packages.length > 0 ? `apt-get install ${packages.join(" ")}` : undefined,
    rights ? "as root, on a machine that allows what else is named above" : undefined,
  ];
  const ways = how.filter((each) => each !== undefined).join("; ");
  return [...lines, `${skips.length} tests were skipped. To run them too: ${ways}`];
}

/** Windows, as far as Wine is Windows. Without `--long` the same, fewer of each. */
import { TRIALS } from "../windows/trials.ts";
import { Wine } from "../windows/wine.ts";
import type { Group, Row } from "./row.ts";

export const wine: Group = async ({ long, dir }) => {
  let started: Wine;
  try {
    started = await Wine.start();
  } catch (error) {
    const notRun = `Wine cannot be had: ${String(error).split("\n")[0]}`;
    return [{ place: "Wine", runtime: "Deno, Bun", passed: 0, failed: 0, notRun }];
  }
  const rows: Row[] = [];
  try {
    const extent = long ? { times: 1_000, kills: 50 } : { times: 25, kills: 6 };
    for (const trial of TRIALS) rows.push(await trial(started, dir, extent));
  } finally {
    await started.stop();
  }
  return rows;
};

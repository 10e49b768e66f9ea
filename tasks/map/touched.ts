/** Prints the files of `src/` of which one acquire and release run code, as JSON. Run by Node, whose inspector counts calls. */
import { mkdtempSync, rmSync } from "node:fs";
import { Session } from "node:inspector/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Lock } from "../../mod.ts";

const dir = mkdtempSync(join(tmpdir(), "holdfast-map-"));
const lock = new Lock(join(dir, "a.lock"));
const once = () => {
  if (!lock.tryAcquire()) throw new Error("a free lock was refused");
  lock.release();
};
once(); // what is bound and asked at the first one is no part of the second
const session = new Session();
session.connect();
await session.post("Profiler.enable");
await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
await session.post("Profiler.takePreciseCoverage");
once();
const { result } = await session.post("Profiler.takePreciseCoverage");
rmSync(dir, { recursive: true });
const touched = result.filter(({ functions }) =>
  functions.some(({ functionName, ranges }) => functionName !== "" && ranges[0].count > 0)
);
const names = touched.flatMap(({ url }) => /\/src\/(.*\.ts)$/.exec(url)?.[1] ?? []);
console.log(JSON.stringify([...new Set(names)].sort()));

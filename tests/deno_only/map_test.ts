/** How far it is from tryAcquire() to flock(2): it must stay short enough to be read in one go. */
import { assert } from "@std/assert";
import { filesTouched, framesOfTry } from "../../tasks/map/probe.ts";
import { test } from "../support/harness.ts";

test("tryAcquire() runs through at most 6 frames in 4 files before flock(2)", () => {
  const frames = framesOfTry();
  assert(frames[0] === "Lock.tryAcquire lock.ts" && frames.at(-1)?.endsWith(" sys/linux.ts"), frames.join("\n"));
  assert(frames.length <= 6, frames.join("\n"));
  assert(new Set(frames.map((frame) => frame.split(" ")[1])).size <= 4, frames.join("\n"));
});

test("tryAcquire() and release() run code of at most 19 files", () => {
  const files = filesTouched();
  assert(files.includes("sys/linux.ts"), files.join("\n"));
  assert(files.length <= 19, files.join("\n"));
});

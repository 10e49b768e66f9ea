/**
 * Publishes what happens to the locks of this thread on `node:diagnostics_channel`.
 * The import turns it on: there is nothing to call.
 *
 * ```ts
 * import { CHANNELS, type LockEvent } from "@holdfast/lock/diagnostics";
 * import { subscribe } from "node:diagnostics_channel";
 *
 * for (const channel of CHANNELS) subscribe(channel, (event) => console.log((event as LockEvent).path));
 * ```
 *
 * Guaranteed: one event is published once, however many copies of the package
 * are loaded and import this, for the locks of all of them. It works for locks
 * that were made before the import too. An event is complete when it is
 * published, and costs nothing on a channel without subscribers.
 *
 * Not guaranteed: that a subscriber can stop anything. What it throws is an
 * uncaught error of its own, which ends a program that does not handle it; the
 * lock is as it was. A subscriber of `holdfast:released` still holds the lock,
 * and one of `holdfast:acquired` may release it.
 *
 * A Worker is a thread of its own, and has to import this itself.
 *
 * @module
 */
import { type Channel, channel } from "node:diagnostics_channel";
import type { LockEventName } from "./events/event.ts";
import { hooks } from "./events/events.ts";

export type { LockEvent, LockEventName } from "./events/event.ts";

/** The names of the channels. Each carries the {@linkcode LockEvent}s of one name. */
export const CHANNELS = [
  "holdfast:acquired",
  "holdfast:released",
  "holdfast:waiting",
  "holdfast:stale",
  "holdfast:lost",
] as const satisfies `holdfast:${LockEventName}`[];

/** All are kept by the hook: Bun 1.4 collects a channel that is not referenced, and its subscribers with it. */
const channels = new Map<string, Channel>(CHANNELS.map((name) => [name, channel(name)]));

hooks().set("diagnostics", (name, make) => {
  const published = channels.get(`holdfast:${name}`);
  // A subscriber that throws does not throw here: node:diagnostics_channel makes it an uncaught error.
  if (published?.hasSubscribers) published.publish(make());
});

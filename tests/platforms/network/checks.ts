/** What the README promises of network file systems, one check each. A check throws what is wrong. */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { once } from "node:events";
import { existsSync } from "node:fs";
import process from "node:process";
import { CLI, type CliKind, outcome } from "../../support/cli.ts";
import { type Agent, Child, type Kind, within } from "../../support/harness.ts";
import type { NetworkPlace } from "./places.ts";

/** A place, and one of the ways in which locks are taken there. */
export interface Site {
  readonly place: NetworkPlace;
  readonly kind: Kind;
  /** An agent of that kind, at each call of a check another. */
  readonly agent: () => Promise<Agent>;
  /** One that has just been started, and ends with the check. */
  readonly fresh: () => Promise<Agent>;
  /** Paths of the same file, through one mount and through the other. */
  readonly one: string;
  readonly two: string;
}

export type Check = (site: Site) => Promise<void>;

/** A lock of an agent's, by the path of its file. */
async function lockAt(agent: Agent, path: string, options: object = {}): Promise<() => Promise<boolean>> {
  await agent.lock(path, options, path);
  return () => agent.tryAcquire(path);
}

/** A server learns of a release a moment later. */
async function soon(take: () => Promise<boolean>): Promise<boolean> {
  const end = performance.now() + 20_000;
  while (!(await take())) {
    if (performance.now() > end) return false;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return true;
}

const failure = async (promise: Promise<unknown>) => {
  const error = await promise.then((value) => ({ name: "none", message: `it was ${value}` }), (error) => error);
  return { name: error.name, code: error.code, message: String(error.message) };
};

/** Deno without FFI may not ask what a path lies on. */
const asks = ({ kind }: Site) => kind !== "deno-no-ffi";

/** Two processes on one mount, and a third on the other. */
const exclusive: Check = async ({ place: { across }, agent, one, two }) => {
  const [a, b, c] = [await agent(), await agent(), await agent()];
  const [first, second, third] = [await lockAt(a, one), await lockAt(b, one), await lockAt(c, two)];
  assertEquals(await first(), true, "the first on a free lock");
  assertEquals(await third(), !across, "another on another mount");
  if (!across) await c.release(two);
  assertEquals(await second(), false, "another on the same mount");
  if (across !== "at first") assertEquals(await third(), !across, "another on another mount, once one was refused");
  if (!across) await c.release(two);
  await a.release(one);
  assertEquals(await soon(second), true, "on the same mount, after the release");
  await b.release(one);
  assertEquals(await soon(third), true, "on the other mount, after the release");
  assertEquals(await first(), !across, "the first, while another mount has it");
};

/** That it is held is no error: `false`, and a LockHeldError where somebody has waited long enough. */
const refused: Check = async (site) => {
  const { place, agent, one } = site;
  const [a, b] = [await agent(), await agent()];
  await (await lockAt(a, one))();
  await lockAt(b, one);
  for (const sync of [true, false]) {
    const error = await failure(b.call("acquire", { name: one, options: { timeout: 50 }, sync }));
    assertEquals([error.name, error.code], ["LockTimeoutError", "ETIMEDOUT"], error.message);
    const unseen = place.mandatory && !asks(site);
    assertStringIncludes(error.message, unseen ? "held by a process that left no record" : `pid ${a.pid}`);
  }
};

/** kill -9 of a holder frees it, through each mount. */
const killed: Check = async ({ place, agent, fresh, one, two }) => {
  const [a, b, victim] = [await agent(), await agent(), await fresh()];
  assertEquals(await (await lockAt(victim, one))(), true, "the victim on a free lock");
  const [here, there] = [await lockAt(a, one), await lockAt(b, two)];
  if (place.across) assertEquals(await there(), false, "while the victim holds it");
  await victim.kill();
  assertEquals(await soon(there), true, "on the other mount, after kill -9 of the holder");
  await b.release(two);
  assertEquals(await soon(here), true, "on the same mount, after kill -9 of the holder");
};

/** Readers together; no writer beside them. */
const shared: Check = async ({ place, agent, one, two }) => {
  const other = place.across === true ? two : one;
  const agents = [await agent(), await agent(), await agent()];
  const [a, b, c] = agents;
  assertEquals(await (await lockAt(a, one, { mode: "shared" }))(), true, "the first reader");
  assertEquals(await (await lockAt(b, other, { mode: "shared" }))(), true, "a reader beside it");
  const writer = await lockAt(c, other);
  assertEquals(await writer(), false, "a writer beside two readers");
  await a.release(one);
  assertEquals(await writer(), false, "a writer beside one reader");
  await b.release(other);
  assertEquals(await soon(writer), true, "a writer when they have left");
};

/** Who waits is let in when the other releases. */
const waits: Check = async ({ place, agent, one, two }) => {
  const other = place.across ? two : one;
  const [a, b] = [await agent(), await agent()];
  await (await lockAt(a, one))();
  await b.lock(other, {}, "waits");
  await b.call("begin", { name: "waits" });
  await a.release(one);
  assertEquals(await within(10_000, b.call("granted", { name: "waits" })), true);
};

/** By the same mount who has it is known; by the other at least that it may be held. */
const inspected: Check = async (site) => {
  const { place, agent, one, two } = site;
  const [a, b] = [await agent(), await agent()];
  assertEquals((await b.call("look", { path: one })).state, "free", "where no lock has been");
  await (await lockAt(a, one))();
  const here = await b.call("look", { path: one });
  assertEquals(here.state, asks(site) ? "held" : "unknown", here.reason);
  if (asks(site)) assertEquals(here.holder?.pid, a.pid, here.reason);
  const there = await b.call("look", { path: two });
  assertEquals(there.state, place.mandatory && asks(site) ? "held" : "unknown", `by the other mount: ${there.reason}`);
  if (asks(site)) assertMatch(there.reason, place.words);
  await a.release(one);
  assertEquals((await b.call("look", { path: one })).state, "free", "after the release");
};

/** All that it wrote to standard error, in lines. */
async function errorsOf(agent: Agent): Promise<string[]> {
  const closed = once(agent.process, "close");
  await agent.kill();
  await closed;
  return agent.errors.split("\n").filter((line) => line !== "");
}

/** By default the user is told, once a mount, where two can be granted one lock; with `fileSystem: "any"` never. */
const warned: Check = async (site) => {
  const { place, fresh, one, two } = site;
  const a = await fresh();
  for (const path of [one, two]) { // before the others: who was told once is not told again
    assertEquals(await (await lockAt(a, `${path}.any`, { fileSystem: "any" }))(), true, path);
    await a.release(`${path}.any`);
  }
  for (const path of [one, two, `${one}.more`, `${two}.more`]) {
    assertEquals(await soon(await lockAt(a, path)), true, path);
    await a.release(path);
  }
  const lines = await errorsOf(a);
  if (!place.told || !asks(site)) return assertEquals(lines, []);
  assertEquals(lines.length, 2, lines.join("\n"));
  for (const [i, path] of [one, two].entries()) {
    assertMatch(lines[i], place.words);
    assertStringIncludes(lines[i], `holdfast: "${path}" is on ${place.type} (`);
    assertStringIncludes(lines[i], `at ${path.split("/checks/")[0]}:`);
  }
};

/** `fileSystem: "local"` refuses, and makes nothing. */
const local: Check = async (site) => {
  const { place, agent, one } = site;
  const { name, code, message } = await failure((await lockAt(await agent(), one, { fileSystem: "local" }))());
  assertEquals([name, code], ["LockUnsupportedError", "ENOTSUP"], message);
  assertMatch(message, asks(site) ? place.words : /is not known here/);
  assertEquals(existsSync(one), false, "it was made all the same");
};

/** `holdfast doctor` names the file system. */
const doctor: Check = async ({ place, kind, one }) => {
  const [command, ...args] = CLI[kind as CliKind](); // checksFor() asks for no other kind
  const child = new Child(command, [...args, "doctor", "--json", one], { env: { ...process.env } });
  child.close();
  const { code, out, err } = await outcome(child);
  const { findings } = JSON.parse(out);
  const told: { about: string; what: string; level: string }[] = findings;
  const found = told.find(({ about }) => about === "file system");
  assertEquals([code, found?.level], [1, "warning"], `${out}${err}`);
  assertMatch(`${found?.what}`, place.words);
  assertStringIncludes(`${found?.what}`, `${place.type} (`);
};

/** On NFSv4 who may only read a file cannot lock it exclusively, and is told why. Deno cannot become another user. */
const mayOnlyRead: Check = async ({ agent, fresh, one }) => {
  const [owner, stranger] = [await agent(), await fresh()];
  await (await lockAt(owner, one))();
  await owner.release(one);
  await stranger.call("look", { path: "/nonexistent" }); // loads what is loaded at the first use
  await stranger.call("become", { uid: 65534 });
  const { name, code, message } = await failure((await lockAt(stranger, one))());
  assertEquals([name, code], ["LockError", "EBADF"], message);
  assertStringIncludes(message, "on NFSv4 an exclusive lock takes the right to write the file");
};

/** The checks of a place in one kind. */
export function checksFor(place: NetworkPlace, kind: Kind): Readonly<Record<string, Check>> {
  return {
    "exclusion on one mount and across two": exclusive,
    "a refusal is no error": refused,
    "kill -9 frees it": killed,
    "shared locks": shared,
    "a waiter is let in": waits,
    "inspect() by both mounts": inspected,
    "the user is told, or need not be, and never with fileSystem: any": warned,
    "fileSystem: local refuses": local,
    ...(kind in CLI ? { "holdfast doctor names it": doctor } : {}),
    ...(place.takesWriting && (kind === "bun" || kind === "node26")
      ? { "a file that may only be read": mayOnlyRead }
      : {}),
  };
}

/** Dead owners, and what they leave behind. */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Lock } from "../../../mod.ts";
import type { Random } from "./random.ts";

/** A process that lived, ended and was reaped, and the record that it would have left. */
export interface Dead {
  readonly pid: number;
  readonly record: Record<string, unknown>;
}

/** So many of them. */
export async function deadOwners(count: number): Promise<Dead[]> {
  const template = ownRecord();
  return await Promise.all(Array.from({ length: count }, async () => {
    const child = spawn("cat", { stdio: ["pipe", "ignore", "ignore"] });
    const pid = child.pid ?? 0;
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const startTime = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]; // field 22 of proc(5)
    child.stdin.end();
    await new Promise((resolve) => child.on("exit", resolve)); // Deno, too, has reaped it by then
    if (existsSync(`/proc/${pid}`)) throw new Error(`process ${pid} is still there`);
    return { pid, record: { ...template, pid, startTime, command: "cat" } };
  }));
}

/** What this version writes on this machine: whatever a record has, the dead one's has too. */
function ownRecord(): Record<string, unknown> {
  const dir = mkdtempSync(join(tmpdir(), "holdfast-record-"));
  try {
    using lock = new Lock(join(dir, "lock"), { backend: "pidfile" });
    lock.tryAcquire();
    return JSON.parse(readFileSync(`${lock.path}.pid`, "utf8").split("\n")[1]);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** What stands in the way when a round begins. */
export type OldFile = "record" | "bare PID" | "damaged";

/** How long a damaged file must have lain there to count as old, with a second to spare. */
export const DAMAGED_MS = 4_100;

const write = ({ pid, record }: Dead, nonce: string) => `${pid}\n${JSON.stringify({ ...record, nonce })}\n`;

/** A free path's `P.pid` as a dead owner left it, and `links` dead takeovers of it, one on top of the other. */
export function plant(path: string, old: OldFile, links: number, dead: readonly Dead[], random: Random): void {
  let nonce = random.nonce();
  const owner = random.pick(dead);
  const text = write(owner, nonce);
  const content = {
    record: text,
    "bare PID": `${owner.pid}\n`,
    damaged: random.pick(["", text.slice(0, text.length >> 1), "\xff\xfe\x00 noise"]),
  }[old];
  writeFileSync(`${path}.pid`, content, { flag: "wx" });
  if (old !== "record") { // docs/protocol.md: what stands for the nonce where there is none
    const { ino, ctimeNs } = statSync(`${path}.pid`, { bigint: true });
    nonce = `ino-${ino}-${ctimeNs / 1_000_000_000n}${old === "damaged" ? "" : `-${owner.pid}`}`;
  }
  for (let i = 0; i < links; i++) {
    const next = random.nonce();
    writeFileSync(`${path}.pid.${nonce}`, write(random.pick(dead), next), { flag: "wx" });
    nonce = next;
  }
}

/** What a dead owner of another lock leaves. */
export const PLANT: Record<string, (path: string, dead: Dead) => void> = {
  marker: (path) => writeFileSync(path, ""),
  naive: (path, { pid }) => writeFileSync(path, String(pid)),
  pidlockfile: (path, { pid }) => writeFileSync(path, String(pid)),
  // It goes by the age of a folder.
  "proper-lockfile": (path) => {
    mkdirSync(`${path}.lock`);
    utimesSync(`${path}.lock`, new Date(Date.now() - 60_000), new Date(Date.now() - 60_000));
  },
};

/** One folder by two mounts of sshfs, without a network: both grant, and what the lock says of that. */
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import process from "node:process";
import { CLI } from "../support/cli.ts";
import { type Kind, KINDS } from "../support/harness.ts";
import { Keeper } from "../torture/places/keeper.ts";
import { Crew, Wrong } from "../torture/places/site.ts";
import { NAMES } from "./refusals.ts";
import type { Circumstances, Row } from "./row.ts";
import { folder } from "./suite.ts";

/** The place's name. */
export const SSHFS = "FUSE, sshfs by two mounts";

/** In ssh's place: the server's part of it, here. */
const SERVER = "/usr/lib/openssh/sftp-server";

const MAKE = `for each in sshfs ${SERVER}; do
  command -v $each >/dev/null || { echo "there is no $each here"; exit 1; }
done
[ -w /dev/fuse ] || { echo "/dev/fuse cannot be opened"; exit 1; }
printf '#!/bin/sh\\nexec ${SERVER}\\n' > "$0.ssh"; chmod +x "$0.ssh"; mkdir "$0/real" "$0/one" "$0/two"
for each in one two; do sshfs -o "ssh_command=$0.ssh" "here:$0/real" "$0/$each"; done`;

/** What the lock cannot promise, in the words of src/sys/mounts.ts. */
const SAID = /fuse\.sshfs .*sshfs keeps flock\(2\) in one mount: other hosts are not excluded, nor another mount/;
/** The same where the table of mounts may not be read, so that all FUSE is one. */
const FUSE = /on fuse\b.*its program decides .*another mount of the same files is not excluded/;

/** What is wrong, in one runtime. */
async function check(crew: Crew, keeper: Keeper, at: string, wrong: Wrong): Promise<void> {
  const agent = await crew.agent();
  const blind = crew.kind === "deno-no-ffi";
  const words = blind ? FUSE : SAID;
  const name = `${crew.kind}.lock`;
  const here = (mount: string) => `${at}/${mount}/${name}`;
  const [one, two] = [await crew.lock(agent, here("one")), await crew.lock(agent, here("two"))];
  wrong.expect("a try by the one mount", await one.try(), true);
  // What all the words are about: were it refused they would be wrong.
  wrong.expect("a try by the other mount meanwhile", await two.try(), true);
  const { reason } = await one.inspect();
  wrong.expect("inspect() says so", words.test(reason) || reason, true);
  const local = await crew.lock(agent, `${at}/one/local-${name}`, { fileSystem: "local" });
  const message = await local.call("try").catch((error) => `${error.name}: ${error.message}`);
  const refused = message.startsWith("LockUnsupportedError: ") && message.includes("which is no local disk");
  wrong.expect('a try with fileSystem: "local" is refused', refused && words.test(message) || message, true);
  wrong.expect("it left a file", existsSync(keeper.seen(`${at}/real/local-${name}`)), false);
  const closed = once(agent.process, "close");
  await agent.kill();
  await closed;
  const lines = agent.errors.split("\n").filter((line) => line !== "");
  const mounts = blind ? ["one"] : ["one", "two"];
  const told = lines.length === mounts.length &&
    mounts.every((mount, i) =>
      lines[i].startsWith("holdfast: ") && lines[i].includes(here(mount)) && words.test(lines[i])
    );
  wrong.expect("a line on standard error, once a mount", told || agent.errors, true);
  const kind = blind ? "deno" : crew.kind; // the command has all permissions
  const [nsenter, ...args] = [...keeper.by, ...CLI[kind](), "doctor", `${at}/one`];
  const doctor = spawnSync(nsenter, args, {
    encoding: "utf8",
    env: { ...process.env, NO_COLOR: "1" },
    timeout: 60_000,
  });
  const said = doctor.stdout.replace(/\s+/g, " ");
  wrong.expect("holdfast doctor says so", SAID.test(said) || said || doctor.stderr, true);
}

export async function sshfs({ dir }: Circumstances): Promise<Row[]> {
  const own = folder(dir, "sshfs");
  const at = folder(own, "place");
  const keeper = new Keeper(own);
  try {
    const untried = await keeper.run(MAKE, at);
    if (untried !== undefined) return [{ place: SSHFS, runtime: "all", passed: 0, failed: 0, notRun: untried }];
    const rows: Row[] = [];
    for (const kind of KINDS) {
      // Without FFI it has to be allowed to ask; the table of mounts it may read with all permissions only.
      const flags = kind === "deno-no-ffi" ? ["--allow-all", "--deny-ffi"] : undefined;
      const crew = new Crew(kind, { by: keeper.by, allow: dir, flags });
      const wrong = new Wrong();
      try {
        await check(crew, keeper, at, wrong).catch((error) => wrong.expect("the checks", String(error), "done"));
      } finally {
        await crew.end();
      }
      const failed = wrong.sentences.length;
      const remark = failed > 0
        ? `failed: ${wrong.sentences.join("; ")}`
        : `both mounts grant the lock, as the lock says${NOT_NAMED[kind] ?? ""}; fileSystem: "local" refuses`;
      rows.push({ place: SSHFS, runtime: NAMES[kind], passed: wrong.checks - failed, failed, remark });
    }
    return rows;
  } finally {
    await keeper.end();
  }
}

const NOT_NAMED: { readonly [kind in Kind]?: string } = { "deno-no-ffi": " (of FUSE: it may not read which)" };

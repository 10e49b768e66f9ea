/** What the doctor knows of file systems and cleaners; and the line that shows a wait on a terminal. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { Lock } from "../../mod.ts";
import { cleaningRules, judgeCleaners } from "../../src/cli/doctor/cleaners.ts";
import { judgeMount } from "../../src/cli/doctor/mounts.ts";
import { mountOf } from "../../src/sys/mounts.ts";
import { CLI } from "../support/cli.ts";
import { test, within } from "../support/harness.ts";
import { onTerminal } from "../support/terminal.ts";

const MOUNTS = [
  "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw",
  "23 22 0:20 / /srv/data rw shared:2 - nfs4 server:/export rw,vers=4.2,local_lock=none",
  "24 22 0:21 / /srv/data/local rw - nfs server:/old rw,local_lock=flock",
  "25 22 0:22 / /mnt/with\\040blank rw - fuse.sshfs me@host:/ rw",
  "26 22 0:23 / /mnt/over rw - tmpfs tmpfs rw",
  "27 22 0:24 / /mnt/over rw - cifs //server/share rw,nobrl",
  "28 22 0:25 / /host rw - 9p host rw",
  "29 22 254:1 / /frozen ro - xfs /dev/vdb rw",
].join("\n");

test("judgeMount() names the file system, and what a network one means for a lock", () => {
  const judge = (path: string) => {
    const { level, what } = judgeMount(mountOf(path, MOUNTS));
    return { level, what };
  };
  assertEquals(judge("/home/me"), { level: "ok", what: "ext4 (/dev/vda) at /, a local one" });
  assertEquals(judge("/srv/database").level, "ok", "a name that only begins alike is another directory");
  for (
    const [path, pattern] of [
      [
        "/srv/data",
        /^nfs4 \(server:\/export\) at \/srv\/data, not a local disk: .*server.*other hosts are excluded/,
      ],
      ["/srv/data/local/x", /^nfs .*other hosts are not excluded$/],
      [
        "/mnt/with blank/x",
        /^fuse\.sshfs .*at \/mnt\/with blank, .*other hosts are not excluded, nor another mount on this one$/,
      ],
      ["/mnt/over", /^cifs .*nobrl.*not excluded$/],
      ["/host/x", /^9p .*virtual machine/],
      ["/frozen", /^xfs .* is mounted read-only$/],
    ] as const
  ) {
    const { level, what } = judge(path);
    assertEquals(level, "warning", path);
    assertMatch(what, pattern);
  }
  assertEquals(judgeMount(mountOf("/x", "")).level, "warning");
});

test("judgeCleaners() finds the rule of systemd-tmpfiles that cleans a directory, as tmpfiles.d(5) has it", ({ dir }) => {
  const file = (name: string, text: string) => {
    mkdirSync(`${dir}${name.slice(0, name.lastIndexOf("/"))}`, { recursive: true });
    writeFileSync(dir + name, text);
  };
  file("/usr/lib/tmpfiles.d/tmp.conf", "# a comment\nq /tmp 1777 root root 10d\nq /var/tmp 1777 root root 30d\n");
  file("/usr/lib/tmpfiles.d/app.conf", "d /run/app 0755 - - -\nd /srv/cache/* 0755 - - 7d\nx /tmp/kept-*\n");
  // A file of the same name in /etc takes its place; a link to /dev/null turns it off.
  file("/usr/lib/tmpfiles.d/old.conf", "d /srv/old - - - 1d\n");
  mkdirSync(`${dir}/etc/tmpfiles.d`, { recursive: true });
  symlinkSync("/dev/null", `${dir}/etc/tmpfiles.d/old.conf`);
  const rules = cleaningRules(dir);
  const judge = (path: string) => judgeCleaners(path, rules);
  assertMatch(
    judge("/tmp/locks").what,
    /^systemd-tmpfiles deletes what is older than 10d in \/tmp \(\/usr\/lib\/tmpfiles\.d\/tmp\.conf\)$/,
  );
  assertMatch(judge("/var/tmp").what, /older than 30d in \/var\/tmp/);
  assertMatch(judge("/srv/cache/a/b").what, /older than 7d in \/srv\/cache\/\*/);
  for (const path of ["/run/app", "/srv/old", "/srv/cache", "/tmpfoo", "/tmp/kept-1/x", "/home/me"]) {
    assertEquals(judge(path).level, "ok", path);
  }
  // macOS' TMPDIR, and what is beside it and stays.
  const folder = "/private/var/folders/zz/zyxvpxvq6csfxvn_n0000000000000";
  assertEquals(["T", "T/app", "0", "C/app"].map((name) => judge(`${folder}/${name}`).level), [
    "warning",
    "warning",
    "ok",
    "ok",
  ]);
  const none = judgeCleaners("/tmp/x", cleaningRules(`${dir}/none`));
  assertEquals(none.level, "warning");
  assertMatch(none.what, /cleared by many systems/);
});

for (const kind of ["deno", "bun", "node26"] as const) {
  test(`holdfast run in ${kind} on a terminal shows in one line who holds the lock and for how long, and clears it`, async (place) => {
    const path = place.path();
    const holder = new Lock(path, { label: "the holder" }).acquireSync();
    const terminal = onTerminal(place, [...CLI[kind](), "run", path, "echo", "mine"], { COLUMNS: "120" });
    let seen = "";
    const until = (text: string) =>
      within(
        10_000,
        new Promise<void>((resolve) => {
          if (seen.includes(text)) return resolve();
          // `!`: it is a pipe
          terminal.process.stdout!.on("data", (more) => {
            seen += more;
            if (seen.includes(text)) resolve();
          });
        }),
      );
    await until("for 1 second,"); // the line was renewed in place
    holder.release();
    await until("mine");
    const lines = seen.split("\r");
    assertMatch(lines[1], /^holdfast: waiting for \S+ for 0 seconds, held by pid \d+/);
    // deno-lint-ignore no-control-regex -- it clears the rest of the line
    for (const line of lines.slice(1, 3)) assertMatch(line, /^[^\n]{119}\x1b\[K$/);
    assertStringIncludes(seen, "\r\x1b[Kmine");
    assertEquals((await within(60_000, terminal.ended)).code, 0);
    assert(!seen.slice(0, seen.indexOf("mine")).includes("\n"), JSON.stringify(seen));
  });
}

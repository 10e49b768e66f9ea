/** The platform matrix in its short form. */
import { assertEquals, assertMatch } from "@std/assert";
import { fileURLToPath } from "node:url";
import { test, within } from "../support/harness.ts";
import { needs } from "../support/needs.ts";
import { deno } from "../support/tools.ts";

const MAIN = fileURLToPath(new URL("../platforms/main.ts", import.meta.url));
const MAP = `--import-map=${fileURLToPath(new URL("../stand_in/import_map.json", import.meta.url))}`;

test(
  "test:platforms passes in its short form: tmpfs, ext4, overlayfs and bindfs, each in Deno, Bun and Node 26",
  async ({ child }) => {
    needs("root", "unshare", "mount", "mkfs.ext4", "losetup", "bindfs", "fusermount3", "/dev/fuse");
    const run = child(deno(), ["run", "-A", "--no-check", MAP, MAIN]);
    const rows: string[][] = [];
    let line = "";
    const read = async () => {
      while (!/^\d+ passed, \d+ failed$/.test(line)) {
        line = await run.line();
        if (/^\| .* \| *\d* *\| *\d* *\|/.test(line)) rows.push(line.split("|").map((cell) => cell.trim()));
      }
      return (await run.ended).code;
    };
    assertEquals(await within(600_000, read()), 0, `${line}\n${run.errors}`);
    assertMatch(line, /^[1-9]\d* passed, 0 failed$/);
    // Nothing was left out: a place that cannot be made has no failure.
    const whole = rows.filter(([, , , passed, failed, notRun]) =>
      Number(passed) > 0 && failed === "0" && notRun === ""
    );
    const places = ["tmpfs", "ext4", "overlayfs", "FUSE, bindfs"];
    const expected = places.flatMap((place) => ["Deno", "Bun", "Node 26"].map((runtime) => `${place}: ${runtime}`));
    assertEquals(whole.map(([, place, runtime]) => `${place}: ${runtime}`), expected);
  },
  { timeout: 700_000 },
);

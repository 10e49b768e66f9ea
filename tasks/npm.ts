/** `deno task npm`: the package for the npm registry, with the command `holdfast`, as dist/holdfast-lock-VERSION.tgz. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { packPackage } from "./pack.ts";

const dist = fileURLToPath(new URL("../dist", import.meta.url));
const tarball = execFileSync("npm", ["pack", "--silent", packPackage(dist)], { cwd: dist, encoding: "utf8" }).trim();
console.log(join(dist, tarball));

/** The names of `@std/path` that the tests use, on `node:path` and `node:url`. */
export { basename, dirname, join, relative } from "node:path";
export { fileURLToPath as fromFileUrl, pathToFileURL as toFileUrl } from "node:url";

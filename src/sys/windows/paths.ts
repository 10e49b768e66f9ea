/**
 * Which paths may name a lock file on Windows. The rules are those of the page
 * "Naming Files, Paths, and Namespaces". What Windows would take for something
 * else than the file that it reads like is refused, before anything is opened.
 */
import { nodePath } from "../builtin.ts";
import { quote } from "../printable.ts";
import { SystemError } from "../contract.ts";

/** "…an extended-length path for a maximum total path length of 32,767 characters". */
const PATH_LIMIT = 32_767;

/** `C:\`, `\\server\share\`, and the same two, or a volume, behind `\\?\`. */
const ROOT =
  /^(?:[A-Za-z]:\\|\\\\(?![?.]\\)[^\\]+\\[^\\]+\\|\\\\\?\\(?:[A-Za-z]:\\|UNC\\[^\\]+\\[^\\]+\\|Volume\{[0-9A-Fa-f-]+\}\\))/i;

/** Shares that are none of files: "Pipe Names", "Mailslot Names". Opening a pipe would let its server in on us. */
const NO_SHARE = /^\\\\(?:\?\\UNC\\)?[^\\]+\\(?:pipe|mailslot|ipc\$)\\/i;

/**
 * "Do not use the following reserved names … also avoid these names followed
 * immediately by an extension". Newer Windows takes some of them for files in a
 * directory, older ones for devices: a lock must be one file everywhere.
 */
const DEVICE =
  /^(?:CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|COM[0-9\u00b9\u00b2\u00b3]|LPT[0-9\u00b9\u00b2\u00b3]) *(?:\..*)?$/i;

const refused = (path: string, why: string, code = "EINVAL"): never => {
  throw new SystemError(code, `${quote(path)} ${why}`);
};

/** The path as Windows resolves it. Throws {@linkcode SystemError} for one that is not plainly a file's. */
export function filePath(given: string): string {
  // Behind `\\?\` Windows resolves nothing: "turns off automatic expansion of the path string".
  const path = given.startsWith("\\\\?\\") ? given : nodePath().win32.resolve(given);
  const [root] = ROOT.exec(path) ?? [];
  if (root === undefined || NO_SHARE.test(path)) {
    return refused(given, "is in a namespace of devices, pipes or objects, not of files");
  }
  if (path.length > PATH_LIMIT) {
    return refused(given, `has more than ${PATH_LIMIT} characters`, "ENAMETOOLONG");
  }
  const below = path.slice(root.length);
  for (const name of below === "" ? [] : below.split("\\")) {
    if (name.includes(":")) refused(given, "names an alternate data stream, which has no lock of its own");
    // deno-lint-ignore no-control-regex -- "Characters whose integer representations are in the range from 1 through 31"
    if (/[<>"|?*/\x00-\x1f]/.test(name)) refused(given, "has a character that no file's name may have");
    if (name === "" || name === "." || name === "..") refused(given, "has an empty name, or a dot, behind \\\\?\\");
    // "Do not end a file or directory name with a space or a period": Windows drops it, so it reads like another file.
    if (/[ .]$/.test(name)) refused(given, "has a name that ends in a blank or a dot, which Windows would drop");
    if (DEVICE.test(name)) refused(given, `has a name that is a device's: ${name}`);
  }
  return path;
}

/**
 * The same for `CreateFileW`: with `\\?\`, because without "the maximum length
 * for a path is MAX_PATH, which is defined as 260 characters".
 */
export function extended(path: string): string {
  if (path.startsWith("\\\\?\\")) return path;
  return path.startsWith("\\\\") ? `\\\\?\\UNC\\${path.slice(2)}` : `\\\\?\\${path}`;
}

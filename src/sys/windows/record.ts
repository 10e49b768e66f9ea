/**
 * Where a record stands on Windows. In the lock file `P`, as everywhere, but
 * not that of a Deno without FFI: it can only lock all of `P`, and then nobody
 * else reads there: "If the locking process opens the file a second time, it
 * cannot access the specified region through this second handle" (LockFileEx;
 * not so in Wine 8, which lets all read). Its record is in `P.holder`, which is
 * never locked, and never deleted.
 *
 * Both are written by whoever holds `P` exclusively only. Whoever reads looks
 * at `P` first, and then, if it is empty or locked, at the other.
 */
import { parse, RECORD_LIMIT } from "../../record.ts";
import { type OpenFile, SystemError } from "../sys.ts";

/** The other file. */
export const holderPath = (path: string): string => `${path}.holder`;

/** Opens the other file: to write it is made where it is missing. */
export type OpenSide = (how: "read" | "write") => OpenFile | undefined;

/** Whether it is nothing, or a record: somebody's data may have that name too, and where `P` has content was not judged. */
const isOurs = (side: OpenFile): boolean => parse(side.read(RECORD_LIMIT + 1)).kind !== "foreign";

/** A lock file whose record is found in both places, and written to one of them. */
export function withSide(main: OpenFile, openSide: OpenSide, writesTo: "main" | "side"): OpenFile {
  const onSide = <T>(how: "read" | "write", use: (side: OpenFile) => T): T | undefined => {
    const side = openSide(how);
    if (!side) return undefined;
    try {
      return use(side);
    } finally {
      side.close();
    }
  };
  // Where anything stands, as far as this handle has seen: whoever holds the lock is the only one who writes there.
  let onMain = true, beside = true;
  return {
    ...main,
    read(limit) {
      let own: Uint8Array | undefined;
      try {
        own = main.read(limit);
      } catch (error) {
        if (!(error instanceof SystemError && error.code === "EBUSY")) throw error; // ERROR_LOCK_VIOLATION
      }
      onMain = own === undefined || own.length > 0;
      if (own && onMain) return own;
      const other = onSide("read", (side) => side.read(limit));
      beside = other !== undefined && other.length > 0;
      if (other && beside) return other;
      // Another program's lock, or one of ours that is about to write its record.
      if (!own) {
        throw new SystemError("EACCES", "another process has locked all of it, and there is no record beside it");
      }
      return own;
    },
    write(bytes) {
      if (writesTo === "main") {
        onMain = true;
        return main.write(bytes);
      }
      beside = true;
      onSide("write", (side) => {
        if (!isOurs(side)) return; // the lock goes without a record, as on a file with content that is not ours
        side.empty();
        side.write(bytes);
      });
    },
    empty() {
      if (onMain) main.empty();
      if (beside && onSide("read", (side) => side.stat().size > 0 && isOurs(side))) {
        onSide("write", (side) => side.empty());
      }
    },
  };
}

/**
 * As much of Windows as a lock sees of it, by the Win32 documentation where Wine
 * 8 does otherwise: what is locked others can neither read nor write, there are
 * reparse points, and no file is deleted or replaced that somebody shares for
 * neither. The calls come in by kernel32's names, with buffers, as from an FFI.
 */
import type { Bind } from "../../src/sys/abi.ts";
import { errnoName } from "../../src/sys/errno.ts";
import type { Runtime } from "../../src/sys/runtime.ts";
import { type Access, type FileStat, type OpenFile, type System, SystemError } from "../../src/sys/contract.ts";
import { windowsSystem } from "../../src/sys/windows.ts";

export interface FakeFile {
  bytes: Uint8Array;
  /** FILE_ATTRIBUTE_…; 0x400 is a reparse point, 0x10 a directory. */
  attributes: number;
  /** As of GetFileType; 1 is a disk's. */
  type: number;
  readonly index: number;
  /** It is deleted, and open for so many more opens of others. */
  pending?: number;
  locks: { handle: number; from: bigint; to: bigint; exclusive: boolean }[];
}

export interface FakeProcess {
  readonly startTime: bigint;
  runs: boolean;
  denied?: boolean;
}

interface Handle {
  readonly file?: FakeFile;
  readonly process?: FakeProcess & { pid: number };
  readonly write: boolean;
  readonly share: number;
  readonly asksDelete: boolean;
}

type Buffer = Uint8Array;
const view = (buffer: Buffer) => new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
const text = (buffer: Buffer) => String.fromCharCode(...new Uint16Array(buffer.buffer).subarray(0, -1));
const NOTHING = { write: false, share: 7, asksDelete: false };
const FOREVER = 2n ** 64n - 1n, DELETE = 0x10000;

export class FakeWindows {
  readonly files = new Map<string, FakeFile>();
  readonly processes = new Map<number, FakeProcess>([[4712, { startTime: 1n, runs: true }]]);
  /** The names of all calls. */
  readonly calls: string[] = [];
  /** So many failures lose their number first, as when the runtime was faster. */
  losesErrors = 0;
  /** What LockFileEx fails with, whatever is locked. */
  lockError = 0;
  /** Whether GetProcessId and WaitForSingleObject fail. */
  processCallsFail = false;
  readonly #handles = new Map<number, Handle>();
  #error = 0;

  put(path: string, content = "", attributes = 0x20, type = 1): FakeFile {
    const bytes = new TextEncoder().encode(content);
    const file = { bytes, attributes, type, index: this.files.size + 1, locks: [] };
    this.files.set(path.toLowerCase(), file);
    return file;
  }

  text(path: string): string | undefined {
    const file = this.files.get(path.toLowerCase());
    return file && new TextDecoder().decode(file.bytes);
  }

  get openHandles(): number {
    return this.#handles.size;
  }

  /** Every process ends that has a file open, without releasing anything. */
  endAll(): void {
    for (const number of [...this.#handles.keys()]) this.close(number);
  }

  #fail(error: number): 0 {
    this.#error = this.losesErrors-- > 0 ? 0 : error;
    return 0;
  }

  open(path: string, { write = false, share = 7, disposition = 3, asksDelete = false }): number | undefined {
    const name = path.replace(/^\\\\\?\\(?:UNC(?=\\))?/, (prefix) => prefix.endsWith("UNC") ? "\\" : "").toLowerCase();
    let file = this.files.get(name);
    if (file?.pending !== undefined) {
      if (file.pending-- > 0) return void this.#fail(5);
      this.files.delete(name);
      file = undefined;
    }
    if (file && disposition === 1) return void this.#fail(80);
    if (!file && disposition === 3) return void this.#fail(2);
    file ??= this.put(name);
    if (write && file.attributes & 1) return void this.#fail(5);
    for (const other of this.#handles.values()) {
      if (other.file !== file) continue;
      const refuses = (write && !(other.share & 2)) || !(other.share & 1) || (asksDelete && !(other.share & 4)) ||
        (other.write && !(share & 2)) || !(share & 1) || (other.asksDelete && !(share & 4));
      if (refuses) return void this.#fail(32);
    }
    return this.#handle({ file, write, share, asksDelete });
  }

  #handle(handle: Handle): number {
    let number = 4;
    while (this.#handles.has(number)) number += 4;
    this.#handles.set(number, handle);
    return number;
  }

  close(number: number): void {
    const { file } = this.#handles.get(number)!; // `!`: a test closes what it opened
    if (file) file.locks = file.locks.filter(({ handle }) => handle !== number);
    this.#handles.delete(number);
  }

  lock(number: number, from: bigint, length: bigint, exclusive: boolean): boolean {
    const file = this.#handles.get(number)!.file!; // `!`: see above
    const to = from + length;
    if (file.locks.some((each) => from < each.to && each.from < to && (exclusive || each.exclusive))) return false;
    file.locks.push({ handle: number, from, to, exclusive });
    return true;
  }

  /** Whether a transfer is kept from those bytes by somebody's lock. */
  #isKept(number: number, file: FakeFile, from: number, length: number, write: boolean): boolean {
    return file.locks.some((each) =>
      BigInt(from) < each.to && each.from < BigInt(from + length) &&
      (each.exclusive ? each.handle !== number : write)
    );
  }

  read(number: number, from: number, length: number): Uint8Array | number {
    const file = this.#handles.get(number)!.file!; // `!`: see above
    if (this.#isKept(number, file, from, length, false)) return 33;
    return from >= file.bytes.length ? 38 : file.bytes.slice(from, from + length);
  }

  write(number: number, from: number, bytes: Uint8Array): number {
    const file = this.#handles.get(number)!.file!; // `!`: see above
    if (this.#isKept(number, file, from, bytes.length, true)) return 33;
    const whole = new Uint8Array(Math.max(file.bytes.length, from + bytes.length));
    whole.set(file.bytes);
    whole.set(bytes, from);
    file.bytes = whole;
    return 0;
  }

  /** kernel32, as an FFI binds it. */
  readonly bind: Bind = (_library, table) => {
    const file = (number: number) => this.#handles.get(number)!.file!; // `!`: a file's handle is given
    const offset = (overlapped: Buffer) => view(overlapped).getBigUint64(16, true);
    // deno-lint-ignore no-explicit-any -- kernel32's own types
    const functions: Record<string, (...values: any[]) => unknown> = {
      GetLastError: () => this.#error,
      CreateFileW: (name, rights, share, _security, disposition, flags) => {
        const there = this.files.get(text(name).replace("\\\\?\\", "").toLowerCase());
        if (there && there.attributes & 0x400 && !(flags & 0x20_0000)) there.attributes = 0x20; // it is followed
        if (there && there.attributes & 0x10 && !(flags & 0x200_0000)) this.#fail(5);
        else {
          const write = (rights & 0x4000_0000) !== 0;
          const opened = this.open(text(name), { write, share, disposition, asksDelete: (rights & DELETE) !== 0 });
          if (opened !== undefined) return BigInt(opened);
        }
        return FOREVER; // INVALID_HANDLE_VALUE, unsigned
      },
      CloseHandle: (number) => (this.close(number), 1),
      GetFileType: (number) => file(number).type,
      GetFileInformationByHandle: (number, info) => {
        view(info).setUint32(0, file(number).attributes, true);
        view(info).setUint32(28, 0xcafe, true);
        view(info).setUint32(36, file(number).bytes.length, true);
        view(info).setUint32(48, file(number).index, true);
        return 1;
      },
      GetFileInformationByHandleEx: (_number, kind) => kind === 0 ? 1 : this.#fail(87),
      LockFileEx: (number, flags, _reserved, low, high, at) => {
        if (this.lockError) return this.#fail(this.lockError);
        const length = BigInt(low) + (BigInt(high) << 32n);
        return this.lock(number, offset(at), length, (flags & 2) !== 0) ? 1 : this.#fail(33);
      },
      UnlockFileEx: (number) => (file(number).locks = file(number).locks.filter(({ handle }) => handle !== number), 1),
      ReadFile: (number, buffer, length, done, at) => {
        const bytes = this.read(number, Number(offset(at)), length);
        if (typeof bytes === "number") return this.#fail(bytes);
        buffer.set(bytes);
        view(done).setUint32(0, bytes.length, true);
        return 1;
      },
      WriteFile: (number, bytes, length, done, at) => {
        const error = this.write(number, Number(offset(at)), bytes.slice(0, length));
        view(done).setUint32(0, length, true);
        return error === 0 ? 1 : this.#fail(error);
      },
      SetFilePointerEx: () => 1,
      SetEndOfFile: (number) => (file(number).bytes = new Uint8Array(0), 1),
      OpenProcess: (_rights, _inherit, pid) => {
        const found = this.processes.get(pid - pid % 4); // as Windows does
        if (!found || found.denied) return BigInt(this.#fail(found ? 5 : 87));
        return BigInt(this.#handle({ process: { ...found, pid: pid - pid % 4 }, ...NOTHING }));
      },
      GetProcessId: (number) => this.processCallsFail ? 0 : this.#handles.get(number)!.process!.pid, // `!`: a process's handle is given
      WaitForSingleObject: (number) =>
        this.processCallsFail ? 0xffff_ffff : this.#handles.get(number)!.process!.runs ? 0x102 : 0, // `!` as above
      GetProcessTimes: (number, creation) => {
        view(creation).setBigUint64(0, this.#handles.get(number)!.process!.startTime, true); // `!` as above
        return 1;
      },
      TerminateProcess: () => 1,
      GetComputerNameExW: (_kind, name, size) => {
        new Uint16Array(name.buffer).set([..."PC"].map((letter) => letter.charCodeAt(0)));
        view(size).setUint32(0, 2, true);
        return 1;
      },
    };
    return Object.fromEntries(
      Object.keys(table).map((name) => [name, (...values: unknown[]) => {
        this.calls.push(name);
        return functions[name](...values);
      }]),
    );
  };

  /** A process here: with FFI, or a Deno without; its main thread, or a Worker of it. */
  system(ffi: boolean, isMainThread = true): System {
    const runtime: Runtime = {
      name: "fake/1.0.0",
      ffi: () => ffi ? { bind: this.bind, library: "kernel32.dll" } : { unavailable: "there is no --allow-ffi" },
      permits: () => true,
      resolvesLinks: false,
      isMainThread: () => isMainThread,
      mayOpenByItself: () => false,
      may: {
        kill: () => false,
        hostname: () => false,
        uid: () => false,
        proc: false,
        env: () => false,
        statfs: () => false,
      },
      marksInherited: false,
      onEnd() {},
      fallback: () => ({ way: "FsFile", openLock: this.#openWhole, stat: this.#stat }),
    };
    return windowsSystem(runtime, () => crypto.randomUUID().replaceAll("-", ""));
  }

  readonly #stat = (path: string): FileStat | undefined => {
    const file = this.files.get(path.toLowerCase());
    const size = file?.bytes.length ?? 0;
    return file && { kind: "file", identity: `${file.index}`, inode: `${file.index}`, size, changed: 0 };
  };

  /** Rust's way to open and lock: shared for everything, and the whole file. */
  readonly #openWhole = (path: string, access: Access): OpenFile => {
    const write = access !== "read";
    const number = this.open(path, { write, disposition: { make: 1, create: 4, write: 3, read: 3 }[access] });
    const check = (error: number) => {
      if (error) throw new SystemError(errnoName("win32", error), `(os error ${error})`);
    };
    if (number === undefined) throw new SystemError(errnoName("win32", this.#error), "");
    return {
      fd: undefined,
      stat: () => this.#stat(path)!, // `!`: it is open
      read: (limit) => {
        const bytes = this.read(number, 0, limit);
        if (typeof bytes !== "number") return bytes;
        if (bytes !== 38) check(bytes);
        return new Uint8Array(0);
      },
      write: (bytes) => check(this.write(number, 0, bytes)),
      empty: () => void (this.#handles.get(number)!.file!.bytes = new Uint8Array(0)), // `!` as above
      flock: (mode) => this.lock(number, 0n, FOREVER, mode === "exclusive") ? "locked" : "held",
      close: () => this.close(number),
    };
  };
}

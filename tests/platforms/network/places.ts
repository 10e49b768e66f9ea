/** The places: how each is mounted, what is right there, and which of the suite's tests are not for it. */

import type { Runner } from "../../runners.ts";
import type { Exclusion } from "../suite.ts";

/** A network file system, mounted twice from a server in the same guest. */
export interface NetworkPlace {
  readonly name: string;
  /** The script that starts the server and mounts what it exports, without its `.sh`. */
  readonly server: "nfs" | "smb" | "9p";
  /** Options of both mounts. */
  readonly mount: string;
  /** What the server calls the exported directory. */
  readonly exported?: string;
  /** As `/proc/self/mountinfo` has it. */
  readonly type: string;
  /** Whether a lock taken through one mount excludes the other; `"at first"`: until a try on the same mount is refused. */
  readonly across: boolean | "at first";
  /** Whether the first lock of a process on such a mount is told of on standard error. */
  readonly told: boolean;
  /** What inspect() and `holdfast doctor` say of it. */
  readonly words: RegExp;
  /** Nobody can read what another has locked exclusively, so that without `/proc/locks` it is not known who that is. */
  readonly mandatory?: boolean;
  /** The kernel has the lock among those of fcntl(2), and not of flock(2), so that inspect() goes by the record: 9p. */
  readonly unlisted?: boolean;
  /** An exclusive lock takes the right to write the file: NFSv4. */
  readonly takesWriting?: boolean;
  /** It is mounted softly too, and what becomes of that is tried when the server has stopped. */
  readonly soft?: boolean;
  /** The suite's files that are run there; unless given, {@linkcode FILES}. */
  readonly files?: readonly string[];
  readonly exclusions: readonly Exclusion[];
  readonly remark?: string;
}

/** The suite's files whose behaviour depends on the file system. */
export const FILES: readonly string[] = [
  ...["lock", "shared", "again", "files", "files_untouched", "files_lost", "paths"],
  ...["refusal", "death", "exit", "descriptor", "inspect", "scan", "wait", "waiting", "journal", "lost"],
  ...["pidfile", "pidfile_mixed", "pidfile_hostile", "owner"],
];

const NFS = {
  server: "nfs",
  type: "nfs",
  exported: "/exp",
  across: true,
  told: false,
  words: /Linux turns flock\(2\) into a byte-range lock on the server/,
  soft: true,
  exclusions: [],
} as const;

const NFS4 = { ...NFS, type: "nfs4", exported: "/", takesWriting: true } as const;

const SMB = {
  server: "smb",
  mandatory: true,
  type: "cifs",
  across: "at first",
  told: true,
  words: /the server may forget a lock without a word .* and it may keep others from the file's content/,
  exclusions: [],
  remark: "once a try on the same mount is refused, the server has lost the lock, and another mount is granted it " +
    "(Linux 6.1's client, not ours: the same in Python), and the user is told so",
} as const;

export const PLACES: readonly NetworkPlace[] = [
  { ...NFS4, name: "NFS v4.2", mount: "vers=4.2" },
  { ...SMB, name: "SMB", mount: "vers=3.1.1" },
  {
    name: "9p",
    server: "9p",
    mount: "version=9p2000.L",
    type: "9p",
    unlisted: true,
    across: true,
    told: true,
    words: /whether that one and other guests are excluded depends on the server/,
    exclusions: [],
    remark: "the kernel lists no flock(2) lock there, so inspect() of a held one says unknown, and names who has it",
  },
  { ...NFS, name: "NFS v3", mount: "vers=3,tcp" },
  {
    ...NFS,
    name: "NFS v3 nolock",
    mount: "vers=3,tcp,nolock",
    across: false,
    told: true,
    words: /flock\(2\) is kept on this host: other hosts are not excluded/,
    remark: "two mounts are both granted one lock, and the user is told so",
  },
  { ...NFS4, name: "NFS v4.0", mount: "vers=4.0" },
  {
    ...SMB,
    name: "SMB nobrl",
    mount: "vers=3.1.1,nobrl",
    mandatory: false,
    across: false,
    words: /mounted with nobrl, so that no lock reaches the server/,
    remark: "two mounts are both granted one lock, and the user is told so",
  },
];

/** The tests that are left out in a runtime. */
export const exclusionsFor = ({ exclusions }: NetworkPlace, runner: Runner): readonly Exclusion[] =>
  exclusions.filter((each) => each.in?.includes(runner) ?? true);

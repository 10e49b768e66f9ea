/** The places: how each is mounted, what is right there, and which of the suite's tests are not for it. */

import type { Runner } from "../../support/runners.ts";
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
  /** An exclusive lock takes the right to write the file: NFSv4. */
  readonly takesWriting?: boolean;
  /** It is mounted softly too, and what becomes of that is tried when the server has stopped. */
  readonly soft?: boolean;
  readonly exclusions: readonly Exclusion[];
  readonly remark?: string;
}

/**
 * The suite's files that are run. Few: in the guest each start of a process costs seconds, in Bun about 4, in Deno 7
 * and in Node 14, because each page that a program touches is a fault that the host has to see.
 */
export const FILES: Readonly<Record<Runner, readonly string[]>> = {
  bun: ["lock", "refusal", "shared"],
  deno: ["lock", "refusal"],
  node: ["lock"],
};

/** So on 9p, whose directory has an inode anew at each look, and on SMB. */
const UNSEEN = {
  test: "tryAcquire() by kernel that is refused by a live PID file makes nothing, not even for a moment",
  why: "it watches the directory by inotify(7), which there does not tell even of what it makes itself",
  in: ["bun", "deno"],
} as const;

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
  exclusions: [
    {
      test: "run() and runSync() by flock keep the function's error as the cause of LockLostError",
      why: "on SMB nothing can be made under the name of a deleted file that is still open",
      in: ["bun", "deno"],
    },
    UNSEEN,
  ],
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
    across: true,
    told: true,
    words: /whether the host and other guests are excluded depends on the server/,
    exclusions: [UNSEEN],
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

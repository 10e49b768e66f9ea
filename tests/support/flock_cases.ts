/**
 * Invocations of flock(1), as lines of bash: each is run on the installed one
 * and on ours, and status, standard output and standard error must be equal,
 * or differ as listed here, for a reason that docs/flock.md gives.
 *
 * In each: a fresh folder, with `lock` and `dir`, a file `plain` that may not be
 * run, `script` without `#!`, a symlink `loop` to itself and one, `dangling`, to
 * nothing; `hold` takes the lock for the shell itself; `weak` drops root's
 * right to pass over permissions; `disk` mounts a tmpfs on `mnt`; `descriptors`
 * leaves of `ls -l` what can be compared; `deaf` ignores SIGCHLD.
 */

/** Why ours differs. Each stands in docs/flock.md, word for word. */
export const REASONS = {
  text: "`--help` and `--version` have words of their own.",
  fcntl: "`--fcntl`, `--start` and `--length` are those of util-linux 2.42; an older flock(1) does not know them.",
  verbose: "What `--verbose` prints comes before the command's output, also into a pipe or with `-F`.",
  closed: "A closed standard input, output or error is `/dev/null`: the runtimes open it before we run.",
  pipe: "A SIGPIPE that the caller ignores is not ignored in the command.",
  nohup: "Node only: no signal that the caller ignores is ignored in the command, so `nohup` has no effect.",
} as const;

export type Kind = "compiled" | "deno" | "bun" | "node26";

/** What ours answers where it differs. `N` stands for seconds. */
export interface Difference {
  readonly why: keyof typeof REASONS;
  readonly status?: number;
  readonly out?: string | RegExp;
  readonly err?: string;
  /** The runtimes that differ; all, if left out. */
  readonly only?: readonly Kind[];
}

/** A line of bash, and how ours differs if it does. */
export type Case = readonly [script: string, ...differences: Difference[]];

/** What each runtime runs: how it is started, signalled, and what it hands on, are its own. */
export const EVERYWHERE: readonly Case[] = [
  ["hold; flock -nE 5 lock echo no"],
  ["hold; flock -w 0.05 --verbose lock echo no"],
  ["flock -n 9 9>lock"],
  ["flock 3; flock 5; flock 13"],
  ["flock lock sh -c 'kill -TERM $$'"],
  ["flock lock ./script a 'b c'"],
  ["flock lock ls -l /proc/self/fd 7<plain 20<plain 21> >(cat) | descriptors"],
  ["flock -F lock ls -l /proc/self/fd 7<plain | descriptors"],
  ["flock lock grep ^flags: /proc/self/fdinfo/1 | cat"],
  ["echo PLANTED=yes >.env; flock lock env | grep -v '^_\\|flock'"],
  ["flock $'\\xff' printf '\\xfe'; ls"],
  ["flock -F lock yes | head -1; echo ${PIPESTATUS[@]}"],
  ["flock lock sh -c 'kill -USR1 $PPID'; echo $?"],
  ["deaf $flock lock sh -c 'exit 3'"],
  ["script -qec \"$flock lock stty -echo; stty -a\" /dev/null | grep -o -- '-*echo '"],
  ["flock 0 <&-", { why: "closed", status: 0, err: "" }],
  ["trap '' HUP; flock -F lock grep SigIgn /proc/self/status", {
    why: "nohup",
    only: ["node26"],
    out: "SigIgn:\t0000000000000000\n",
  }],
];

/** What is the same code in each runtime. */
export const ONCE: readonly Case[] = [
  // Options.
  ["flock"],
  ["flock --help", { why: "text", out: /^\nUsage:\n flock \[options\] <file>[^]*\n -h, --help [^]*\n -V, --version / }],
  ["flock --version", { why: "text", out: /^flock from holdfast \d+\.\d+\.\d+\n$/ }],
  ["flock --help >/dev/full"],
  ["flock -z"],
  ["flock -\\?"],
  ["flock -é"],
  ["flock --zzz"],
  ["flock --n lock true"],
  ["flock --v"],
  ["flock --non --exc --sh --unl lock echo hi"],
  ["flock --shared=yes lock true"],
  ["flock -w"],
  ["flock -E"],
  ["flock -x -s -u -e lock echo many"],
  ["flock -oF lock true"],
  ["flock lock -- echo x"],
  ["flock --fcntl 77", { why: "fcntl", status: 65, err: "flock: 77: Bad file descriptor\n" }],
  ["flock --fcntl dir echo", { why: "fcntl", status: 65, err: "flock: dir: Bad file descriptor\n" }],
  ["flock --fcntl -s dir echo in", { why: "fcntl", status: 0, out: "in\n", err: "" }],
  ["flock --start 10x lock true", { why: "fcntl", err: "flock: invalid start: '10x'\n" }],
  [
    "exec 8<>lock; flock --start 4K --length 1KB 8; flock -n --length 4096 lock echo below; flock -n --fcntl lock echo",
    {
      why: "fcntl",
      status: 1,
      out: "below\n",
      err: "",
    },
  ],
  // Descriptors.
  ["flock lock"],
  ["flock -"],
  ["flock ' 9' 9>lock"],
  ["flock -- -9"],
  ["flock 2147483648"],
  ["flock -n 99"],
  ["flock 0 <plain"],
  ["flock 1 >out"],
  ["flock 9 9<."],
  ["flock 9 9< <(:)"],
  ["hold; flock -n 9 9<lock"],
  ["hold; flock -u 8; command flock -n lock echo free"],
  // Numbers.
  ["flock -w 0 lock echo yes"],
  ["flock -w -1 lock true"],
  ["flock -w -0.5 fresh true; ls fresh"],
  ["flock -n -w -1 lock true"],
  ["flock -w abc lock true"],
  ["flock -w '' lock true"],
  ["flock -w ' 1' lock true"],
  ["flock -w 0x.8p1 lock true"],
  ["flock -w inf lock true"],
  ["flock -w 1e5000 lock true"],
  ["flock -w 1,5 lock true"],
  ["flock -w 9223372036854775808 lock true"],
  ["flock -E 256 lock true"],
  ["flock -E -1 lock true"],
  ["flock -E abc lock true"],
  ["flock -E 2147483648 lock true"],
  ["hold; flock -nE ' 5' lock true"],
  // A held lock.
  ["hold; flock -n --verbose -E 255 lock echo no"],
  ["hold; flock --wait=.05 --conflict-exit-code=9 lock echo no"],
  ["hold; flock -w 0 --verbose lock echo no"],
  ["hold; flock -w 0.0000001 --verbose lock echo no"],
  ["hold; flock -n -w 5 --verbose lock echo no"],
  ["hold; flock -sn lock echo no"],
  ["hold -s; flock -sn lock echo yes"],
  ["hold; flock -F -n lock echo no"],
  ["flock lock flock -n lock echo nested"],
  // Commands.
  ["flock lock sh -c 'kill -KILL $$'"],
  ["flock -F lock sh -c 'kill -TERM $$'"],
  ["flock -F lock sh -c 'exit 5'"],
  ["flock lock nosuchcommand"],
  ["flock -F lock nosuchcommand"],
  ["flock lock ''"],
  ["flock lock /tmp"],
  ["PATH=$PWD:$PATH flock lock script x"],
  ["flock lock ./nointerpreter"],
  ["flock -c true"],
  ["flock lock -c"],
  ["flock lock -c 'echo one; exit 4'"],
  ["flock lock --command 'echo $0 $#'"],
  ["flock lock -c 'echo a' b"],
  ["SHELL= flock lock -c 'echo $0'"],
  ["SHELL=/nowhere flock lock -c 'a b'"],
  ["unset SHELL; flock lock -c 'echo $0'"],
  ["exec 3>three; flock lock readlink /proc/self/fd/4 | sed 's:.*/::'"],
  ["echo content >lock; flock lock cat lock"],
  ["cd dir; flock ../lock pwd | sed 's:.*/::'"],
  ["umask 027; flock fresh sh -c umask; ls -l fresh | cut -c1-10"],
  ["flock -F lock ./plain"],
  ["flock -F lock ./script a 'b c'"],
  ["flock -o lock ls /proc/self/fd 3<plain 5> >(cat)"],
  ["flock lock grep ^flags: /proc/self/fdinfo/0 <plain"],
  ["exec 8> >(cat); flock lock sh -c 'echo through the pipe >&8'"],
  ["flock -F lock env | grep -v '^_\\|flock'"],
  ["flock $'missing/\\xff' true"],
  // Files.
  ["flock dir echo in"],
  ["flock missing/lock true"],
  ["flock loop true"],
  ["flock dangling echo made; ls -l nowhere | cut -c1-10"],
  ["umask 777; weak flock fresh echo made; ls -l fresh | cut -c1-10"],
  ["chmod 000 lock; weak flock lock true"],
  ["chmod 000 dir; weak flock dir/x true"],
  ["chmod 444 lock; weak flock lock echo yes"],
  ["chmod 200 lock; weak flock lock true"],
  ["disk nr_inodes=1 flock mnt/x true"],
  ["disk ro flock mnt/x true"],
  ["disk ro flock mnt echo root"],
  ["mkfifo fifo; exec 8<>fifo; flock fifo echo fifo"],
  ["flock $(printf %0300d) true"],
  ["flock $'new\\nline' echo ok; ls"],
  // What is said, and where it cannot be.
  ["flock --verbose -u 9 9>lock"],
  ["flock --verbose lock echo after", {
    why: "verbose",
    out: "flock: getting lock took N seconds\nflock: executing echo\nafter\n",
  }],
  ["flock --verbose -F lock echo after", {
    why: "verbose",
    out: "flock: getting lock took N seconds\nflock: executing echo\nafter\n",
  }],
  ["flock --verbose lock true >/dev/full"],
  ["flock 2>/dev/full"],
  ["flock lock nosuch 2>/dev/full"],
  ["hold; flock -n --verbose lock true 2>/dev/full"],
  ["flock --help >&-"],
  ["flock lock sh -c 'echo x' >&-", { why: "closed", status: 0, err: "" }],
  ["flock lock sh -c 'echo x >&2' 2>&-", { why: "closed", status: 0 }],
  // Signals.
  ["trap '' PIPE; flock -F lock grep SigIgn /proc/self/status", { why: "pipe", out: "SigIgn:\t0000000000000000\n" }],
  ["trap '' HUP INT; flock lock grep SigIgn /proc/self/status"],
  ["trap '' USR1; flock -F lock grep -E 'Sig(Ign|Blk)' /proc/self/status"],
  ["flock lock yes | head -1; echo ${PIPESTATUS[@]}"],
  ["flock lock sh -c 'kill -INT $PPID'; echo $?"],
];

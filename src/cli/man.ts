/** `holdfast man`: the manual page, made from what `--help` shows. See man(7), groff_man(7). */
import { parse, UsageError } from "./args.ts";
import { type Command, COMMON, isOptional, loaded, type Option, optionsOf } from "./command.ts";
import { print, wrap } from "./output.ts";
import { DATE, NAME, SUMMARY, VERSION } from "./version.ts";

/** Text that roff shows as it stands. */
const plain = (text: string): string =>
  text.replaceAll("\\", "\\e").replaceAll("-", "\\-").replaceAll("`", "\\[ga]")
    .replace(
      /[^\x20-\x7e]/gu,
      (each) => `\\[u${(each.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}]`,
    )
    .replace(/^[.']/, "\\&$&");

/** An argument of a macro. */
const quoted = (text: string): string => `"${plain(text).replaceAll('"', "\\(dq")}"`;

const bold = (text: string) => `\\fB${plain(text)}\\fR`;
const italic = (text: string) => `\\fI${plain(text)}\\fR`;

/** Lines of the source; roff asks for one a sentence, and for none that is long. */
const lines = (text: string): string[] =>
  text.split(/(?<=[.:;])\s+(?=[A-Z0-9"-])/).flatMap((sentence) => wrap(sentence, 70)).map(plain);

const paragraphs = (text: string): string[] => text.split("\n\n").flatMap((each) => [".PP", ...lines(each)]);

const sentence = (text: string): string => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`;

function option(option: Option): string[] {
  const { short, long, value, help } = option;
  const name = value && isOptional(option)
    ? `${bold(`--${long}`)}[=${italic(value.slice(2, -1))}]`
    : value
    ? `${bold(`--${long}`)} ${italic(value)}`
    : bold(`--${long}`);
  return [".TP", short ? `${bold(`-${short}`)}, ${name}` : name, ...lines(sentence(help))];
}

const synopsis = ({ name, usage }: Command): string[] =>
  usage.map((each) => bold(`${NAME} ${name}`) + plain(each.slice(name.length)));

function section(command: Command): string[] {
  const common = new Set(COMMON);
  return [
    `.SS ${quoted(`${NAME} ${command.name}`)}`,
    ...synopsis(command).flatMap((each, i) => i > 0 ? [".br", each] : [each]),
    ...paragraphs(command.description),
    ...optionsOf(command).filter((each) => !common.has(each)).flatMap(option),
  ];
}

const VARIABLES: readonly (readonly [name: string, text: string])[] = [
  ["HOLDFAST_DIR", "The lock directory, where the locks are that are called by a plain name."],
  ["NO_COLOR", "If it is not empty, nothing is coloured; see https://no-color.org."],
  ["COLUMNS", "The width of what is shown to people, if it is not that of the terminal."],
];

const EXAMPLES: readonly (readonly [text: string, line: string])[] = [
  ["In crontab(5): a job that overruns is not started a second time.", `0 3 * * * ${NAME} run -n nightly -- backup.sh`],
  ["Wait for ten seconds at most:", `${NAME} run -w 10 /run/lock/deploy.lock -- ./deploy.sh`],
  [
    "In systemd.service(5): the service itself holds the lock.",
    `ExecStart=/usr/local/bin/${NAME} run --no-fork worker -- /opt/worker`,
  ],
  ["Who has it, for a program:", `${NAME} status --json nightly`],
];

/** The page. */
export function manual(commands: readonly Command[]): string {
  return [
    `.TH ${NAME.toUpperCase()} 1 "${DATE}" ${quoted(`${NAME} ${VERSION}`)} ${quoted("User Commands")}`,
    ".SH NAME",
    `${NAME} \\- ${plain(SUMMARY)}`,
    ".SH SYNOPSIS",
    ".nf",
    ...commands.flatMap(synopsis),
    ".fi",
    ".SH DESCRIPTION",
    ...paragraphs(
      "A lock lets one process at a time do a job on this machine. The kernel holds it (flock(2)), so it is free the " +
        "moment its holder dies, however it dies; the lock file stays, and means nothing by itself. Every program " +
        "that uses flock(2) on the same file is excluded, such as flock(1).",
    ).slice(1),
    ".PP",
    "Every command takes these options.",
    ...COMMON.flatMap(option),
    ".SH COMMANDS",
    ...commands.flatMap(section),
    ".SH ENVIRONMENT",
    ...VARIABLES.flatMap(([name, text]) => [".TP", bold(name), ...lines(text)]),
    ".SH EXAMPLES",
    ...EXAMPLES.flatMap((
      [text, line],
      i,
    ) => [...(i > 0 ? [".PP"] : []), plain(text), ".PP", ".RS 4", ".nf", plain(line), ".fi", ".RE"]),
    ".SH SEE ALSO",
    ".BR flock (1),",
    ".BR flock (2),",
    ".BR tmpfiles.d (5)",
  ].map((line) => `${line}\n`).join("");
}

/** `holdfast man`. */
export const man: Command = {
  name: "man",
  usage: ["man"],
  summary: "show the manual page's source",
  description: `Shows the manual page in the form that man(1) takes: "${NAME} man | man -l -" reads it, and ` +
    `"${NAME} man > /usr/local/share/man/man1/${NAME}.1" installs it.`,
  options: [],
  async run(args, all) {
    if (parse(this, args).rest.length > 0) throw new UsageError("it takes no arguments");
    print(manual(await loaded(all)));
    return 0;
  },
};

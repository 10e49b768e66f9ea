/** `holdfast help` and `holdfast version`; `--help` of every command. */
import { parse, unknown, UsageError } from "./args.ts";
import { type Command, COMMON, loaded, type Option, optionsOf, spelling } from "./command.ts";
import { columns, paint, print, width, wrap } from "./output.ts";
import { NAME, SUMMARY, VERSION } from "./version.ts";

/** Longer lines are hard to read, however wide the terminal is. */
const WIDEST = 100, USUAL = 80;

const lineWidth = (): number => {
  const given = columns(1);
  return given === Infinity ? USUAL : Math.min(given, WIDEST);
};

/** Terms and what is said of each: beside it, or below it where there is no room. */
function entries(terms: readonly (readonly [term: string, text: string])[], columns: number): string {
  const indent = Math.min(Math.max(...terms.map(([term]) => width(term))) + 4, 30);
  const beside = columns - indent >= 30;
  return terms.map(([term, text]) => {
    const lines = wrap(text, beside ? columns - indent : Math.max(columns - 4, 10));
    const first = `  ${paint("bold", term)}`;
    if (!beside) return [first, ...lines.map((line) => `    ${line}`)].join("\n");
    const fits = width(term) + 4 <= indent;
    const [head, ...rest] = fits ? lines : ["", ...lines];
    return [`${first}${" ".repeat(Math.max(indent - 2 - width(term), 1))}${head}`.trimEnd()]
      .concat(rest.map((line) => " ".repeat(indent) + line)).join("\n");
  }).join("\n");
}

const optionEntries = (options: readonly Option[], columns: number): string =>
  entries(options.map((option) => [(option.short ? "" : "    ") + spelling(option), option.help]), columns);

const paragraphs = (text: string, columns: number): string =>
  text.split("\n\n").map((each) => wrap(each, columns).join("\n")).join("\n\n");

/** The help of one command. */
export function commandHelp(command: Command, columns: number): string {
  const usage = command.usage.flatMap((each, i) =>
    wrap(`${NAME} ${each}`, Math.max(columns - 7, 10)).map((line, j) => `${i + j === 0 ? "Usage:" : "      "} ${line}`)
  );
  return [
    usage.join("\n"),
    paragraphs(command.description, columns),
    `Options:\n${optionEntries(optionsOf(command), columns)}`,
  ].join("\n\n") + "\n";
}

function generalHelp(commands: readonly Command[], columns: number): string {
  return [
    paragraphs(`${NAME} ${VERSION}: ${SUMMARY}`, columns),
    `Usage: ${NAME} COMMAND [ARG…]`,
    `Commands:\n${entries(commands.map(({ name, summary }) => [name, summary]), columns)}`,
    `Options:\n${optionEntries(COMMON, columns)}`,
    paragraphs(`"${NAME} COMMAND --help" says more of each; "${NAME} man" is the whole manual.`, columns),
  ].join("\n\n") + "\n";
}

/** `holdfast help`. */
export const help: Command = {
  name: "help",
  usage: ["help [COMMAND]"],
  summary: "show the commands, or what one of them does",
  description: "Shows the commands, or the help of COMMAND.",
  options: [],
  async run(args, all) {
    const { rest: [name, ...more] } = parse(this, args);
    if (more.length > 0) throw new UsageError("it takes one COMMAND at most");
    if (name === undefined) print(generalHelp(await loaded(all), lineWidth()));
    else if (Object.hasOwn(all, name)) print(commandHelp(await all[name](), lineWidth()));
    else throw new UsageError(unknown("command", name, Object.keys(all)));
    return 0;
  },
};

/** `holdfast version`. */
export const version: Command = {
  name: "version",
  usage: ["version"],
  summary: "show the version",
  description: "Shows the version.",
  options: [],
  run(args) {
    if (parse(this, args).rest.length > 0) throw new UsageError("it takes no arguments");
    print(`${NAME} ${VERSION}\n`);
    return 0;
  },
};

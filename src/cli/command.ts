/**
 * What a command is. Its table of options is the one source of its parsing, of
 * `--help`, of the manual page and of the completions, so that none of them can
 * say something that the others do not.
 */

/** An option. */
export interface Option {
  /** Its one letter, without the dash. */
  readonly short?: string;
  /** Its name, without the dashes. */
  readonly long: string;
  /** The name of its value, if it takes one. `[=TERM]`: it may be left out, and only `--long=VALUE` gives it. */
  readonly value?: string;
  /** What it does: a phrase, without a full stop. */
  readonly help: string;
}

/** All commands by name, each loaded when it is called. */
export type Commands = Readonly<Record<string, () => Promise<Command>>>;

/** A command of `holdfast`. */
export interface Command {
  /** What it is called by. */
  readonly name: string;
  /** The ways to call it, which begin with its name. */
  readonly usage: readonly string[];
  /** What it does, in a phrase. */
  readonly summary: string;
  /** What it does, in paragraphs; those are kept apart by empty lines. */
  readonly description: string;
  /** Its options, without `--help` and `--version`, which every command has. */
  readonly options: readonly Option[];
  /** Returns the exit status. `args`: those after the command's name; `all`: for a command that describes all of them. */
  run(args: readonly string[], all: Commands): Promise<number> | number;
}

/** All of them, loaded. */
export const loaded = (all: Commands): Promise<Command[]> => Promise.all(Object.values(all).map((load) => load()));

/** The options that every command has. */
export const COMMON: readonly Option[] = [
  { short: "h", long: "help", help: "show this help" },
  { short: "V", long: "version", help: "show the version" },
];

/** All options of a command; its own go before those of the same name that every command has. */
export function optionsOf({ options }: Pick<Command, "options">): readonly Option[] {
  const own = new Set(options.flatMap(({ short, long }) => short ? [short, long] : [long]));
  const common = COMMON.filter(({ long }) => !own.has(long));
  return [...options, ...common.map((each) => own.has(each.short ?? "") ? { ...each, short: undefined } : each)];
}

/** Whether an option's value may be left out. */
export const isOptional = ({ value }: Option): boolean => value?.startsWith("[") ?? false;

/** How an option is written, such as `-w, --wait SECONDS`. */
export function spelling(option: Option): string {
  const { short, long, value } = option;
  return `${short ? `-${short}, ` : ""}--${long}${value ? (isOptional(option) ? value : ` ${value}`) : ""}`;
}

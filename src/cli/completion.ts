/** `holdfast completion`: what a shell completes, made from the commands' own tables. */
import { shown } from "../sys/printable.ts";
import { parse, UsageError } from "./args.ts";
import { type Command, COMMON, isOptional, loaded, type Option, optionsOf } from "./command.ts";
import { print } from "./output.ts";
import { NAME } from "./version.ts";

/** What stands behind the options, unless it is a file. */
const ARGUMENTS: Readonly<Record<string, "program" | "command" | "shell" | "none">> = {
  run: "program", // after LOCK
  flock: "program",
  help: "command",
  completion: "shell",
  man: "none",
  version: "none",
};

/** Between single quotes. */
const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

const flags = ({ short, long }: Option): string[] => short ? [`-${short}`, `--${long}`] : [`--${long}`];
const needsValue = (option: Option): boolean => option.value !== undefined && !isOptional(option);

function words(command: Command, commands: readonly Command[]): string[] {
  const kind = ARGUMENTS[command.name];
  return kind === "command" ? commands.map(({ name }) => name) : kind === "shell" ? Object.keys(SHELLS) : [];
}

function bash(commands: readonly Command[]): string {
  const cases = commands.map((command) => {
    const options = optionsOf(command);
    const valued = options.filter(needsValue).flatMap(flags).join("|");
    return `    ${command.name}) options=${quote([...options.flatMap(flags), ...words(command, commands)].join(" "))}` +
      ` valued=${quote(`|${valued}|`)} kind=${ARGUMENTS[command.name] ?? "file"} ;;\n`;
  });
  const first = [...commands.map(({ name }) => name), ...COMMON.flatMap(flags)].join(" ");
  return `# bash completion of ${NAME}; to be read by: eval "$(${NAME} completion bash)"
_${NAME}() {
  local cur=\${COMP_WORDS[COMP_CWORD]} options valued kind i lock=0
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W ${quote(first)} -- "$cur"))
    return
  fi
  case \${COMP_WORDS[1]} in
${cases.join("")}    *) return ;;
  esac
  if [[ $valued == *"|\${COMP_WORDS[COMP_CWORD - 1]}|"* ]]; then
    COMPREPLY=($(compgen -f -- "$cur"))
    return
  fi
  if [[ $kind == program ]]; then
    for ((i = 2; i < COMP_CWORD; i++)); do
      if [[ $valued == *"|\${COMP_WORDS[i]}|"* ]]; then
        ((i++))
      elif [[ \${COMP_WORDS[i]} != -* ]]; then
        lock=$i
        break
      fi
    done
    if ((lock > 0)); then
      ((lock++))
      if [[ \${COMP_WORDS[lock]} == -- ]] && ((lock < COMP_CWORD)); then ((lock++)); fi
      if declare -F _command_offset > /dev/null; then
        _command_offset "$lock"
      elif ((lock == COMP_CWORD)); then
        COMPREPLY=($(compgen -c -- "$cur"))
      else
        COMPREPLY=($(compgen -f -- "$cur"))
      fi
      return
    fi
  fi
  if [[ $cur == -* || $kind == command || $kind == shell ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$cur"))
  elif [[ $kind != none ]]; then
    COMPREPLY=($(compgen -f -- "$cur"))
  fi
}
complete -o filenames -F _${NAME} ${NAME}
`;
}

function zsh(commands: readonly Command[]): string {
  const described = (text: string) => text.replace(/[\\[\]:]/g, "\\$&");
  const spec = (option: Option) => {
    const [one, two] = flags(option);
    const value = option.value === undefined ? "" : isOptional(option) ? "::value:_files" : ":value:_files";
    const form = (flag: string) =>
      needsValue(option) && flag.startsWith("--") ? `${flag}=` : isOptional(option) ? `${flag}=-` : flag;
    const rest = `[${described(option.help)}]${value}`;
    return two ? `'(${one} ${two})'{${quote(form(one))},${quote(form(two))}}${quote(rest)}` : quote(form(one) + rest);
  };
  const cases = commands.map((command) => {
    const kind = ARGUMENTS[command.name];
    const rest = kind === "program"
      ? [quote("1:lock:_files"), quote("*:::command:_normal")]
      : kind === "none"
      ? []
      : words(command, commands).length > 0
      ? [quote(`1:${kind}:(${words(command, commands).join(" ")})`)]
      : [quote("*:file:_files")];
    const lines = [...optionsOf(command).map(spec), ...rest].map((each) => ` \\\n        ${each}`);
    return `    ${command.name})\n      _arguments -s -S -A '-*'${lines.join("")} ;;\n`;
  });
  return `#compdef ${NAME}
# zsh completion of ${NAME}; to be read by: eval "$(${NAME} completion zsh)"
_${NAME}() {
  local -a commands
  commands=(
${commands.map(({ name, summary }) => `    ${quote(`${name}:${summary.replaceAll(":", "\\:")}`)}\n`).join("")}  )
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  ((CURRENT--))
  case $command in
${cases.join("")}  esac
}
if [[ $funcstack[1] == _${NAME} ]]; then
  _${NAME} "$@"
else
  compdef _${NAME} ${NAME}
fi
`;
}

function fish(commands: readonly Command[]): string {
  // fish knows \' between single quotes, and no other shell's way.
  const text = (text: string) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  const option = (condition: string, option: Option) =>
    `complete -c ${NAME} -n ${text(condition)}${option.short ? ` -s ${option.short}` : ""} -l ${option.long}` +
    `${needsValue(option) ? " -r" : ""} -d ${text(option.help)}\n`;
  return `# fish completion of ${NAME}; to be read by: ${NAME} completion fish | source\n` +
    COMMON.map((each) => option("__fish_use_subcommand", each)).join("") +
    commands.map((command) => {
      const within = `__fish_seen_subcommand_from ${command.name}`;
      const arguments_ = words(command, commands);
      return `complete -c ${NAME} -n __fish_use_subcommand -f -a ${command.name} -d ${text(command.summary)}\n` +
        optionsOf(command).map((each) => option(within, each)).join("") +
        (arguments_.length > 0 ? `complete -c ${NAME} -n ${text(within)} -f -a ${text(arguments_.join(" "))}\n` : "");
    }).join("");
}

const SHELLS: Readonly<Record<string, (commands: readonly Command[]) => string>> = { bash, zsh, fish };

/** `holdfast completion`. */
export const completion: Command = {
  name: "completion",
  usage: [`completion ${Object.keys(SHELLS).join("|")}`],
  summary: "show what completes the command line in a shell",
  description: `Shows a script by which the shell completes commands and options. It goes into the shell's ` +
    `start-up file: eval "$(${NAME} completion bash)", or with zsh; ${NAME} completion fish | source.`,
  options: [],
  async run(args, all) {
    const { rest: [shell, ...more] } = parse(this, args);
    if (shell === undefined || more.length > 0) {
      throw new UsageError(`it takes one of ${Object.keys(SHELLS).join(", ")}`);
    }
    if (!Object.hasOwn(SHELLS, shell)) {
      throw new UsageError(`unknown shell ${shown(shell)}: it takes one of ${Object.keys(SHELLS).join(", ")}`);
    }
    print(SHELLS[shell](await loaded(all)));
    return 0;
  },
};

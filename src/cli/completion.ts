/** `signet completion bash | zsh | fish`: scripts that contain every command and need no service. */
import { Argument, Command } from "commander";
import { allCommands, type CommandNode, commandTree } from "./command-tree.ts";
import type { CliContext } from "./context.ts";

type Shell = "bash" | "zsh" | "fish";

/** Returns the words that can follow a command: its subcommands, its options, `--help`. */
function wordsAfter({ commands, options }: CommandNode): readonly string[] {
  return [...commands.map(({ name }) => name), ...options.map(({ long }) => long), "--help"];
}

/** Returns the options that have choices, as `path option` → words. */
function choicesOf(nodes: readonly CommandNode[]): readonly (readonly [string, readonly string[]])[] {
  return nodes.flatMap(({ path, options }) =>
    options
      .filter(({ choices }) => choices.length > 0)
      .map(({ long, choices }) => [`${path} ${long}`, choices] as const),
  );
}

/** Quotes a text as one shell argument. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Uses two `case`s, because Bash 3.2 (macOS) has no associative arrays. */
function bash(nodes: readonly CommandNode[]): string {
  const paths = nodes.filter(({ path }) => path.includes(" ")).map(({ path }) => quoted(path));
  const choices = choicesOf(nodes).map(
    ([key, words]) => `    ${quoted(key)}) next=${quoted(words.join(" "))} ;;`,
  );
  const words = nodes.map(
    (node) => `      ${quoted(node.path)}) next=${quoted(wordsAfter(node).join(" "))} ;;`,
  );
  return `# Completion of signet for bash: source <(signet completion bash)
_signet() {
  local current=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD-1]} path=signet next= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$path \${COMP_WORDS[i]}" in
    ${paths.join("|")})
      path="$path \${COMP_WORDS[i]}" ;;
    esac
  done
  case "$path $before" in
${choices.join("\n")}
    *)
      case "$path" in
${words.join("\n")}
      esac ;;
  esac
  COMPREPLY=($(compgen -W "$next" -- "$current"))
}
complete -o default -F _signet signet
`;
}

function zshWord(word: string, description: string): string {
  return quoted(`${word.replaceAll(":", "\\:")}:${description}`);
}

function zsh(nodes: readonly CommandNode[]): string {
  const paths = nodes.filter(({ path }) => path.includes(" ")).map(({ path }) => quoted(path));
  const choices = choicesOf(nodes).map(
    ([key, words]) => `    ${quoted(key)}) compadd -- ${words.join(" ")}; return ;;`,
  );
  const words = nodes.map((node) => {
    const next = [
      ...node.commands.map(({ name, description }) => zshWord(name, description)),
      ...node.options.map(({ long, description }) => zshWord(long, description)),
      zshWord("--help", "show help"),
    ];
    return `    ${quoted(node.path)}) next=(${next.join(" ")}) ;;`;
  });
  return `#compdef signet
# Completion of signet for zsh: signet completion zsh > "\${fpath[1]}/_signet"
_signet() {
  local command_path=signet i
  local -a next
  for ((i = 2; i < CURRENT; i++)); do
    case "$command_path \${words[i]}" in
    ${paths.join("|")})
      command_path="$command_path \${words[i]}" ;;
    esac
  done
  case "$command_path \${words[CURRENT-1]}" in
${choices.join("\n")}
  esac
  case "$command_path" in
${words.join("\n")}
  esac
  _describe 'signet' next
  _files
}
if [ "$funcstack[1]" = "_signet" ]; then
  _signet "$@"
else
  compdef _signet signet
fi
`;
}

function fish(nodes: readonly CommandNode[]): string {
  const paths = nodes.filter(({ path }) => path.includes(" ")).map(({ path }) => quoted(path));
  const lines = nodes.flatMap(({ path, commands, options }) => {
    const here = `complete -c signet -n ${quoted(`test (__signet_path) = '${path}'`)}`;
    return [
      ...commands.map(({ name, description }) => `${here} -f -a ${quoted(name)} -d ${quoted(description)}`),
      ...options.map(({ long, description, takesValue, choices }) => {
        const value = !takesValue ? "" : choices.length > 0 ? ` -x -a ${quoted(choices.join(" "))}` : " -r";
        return `${here} -l ${quoted(long.replace(/^--/, ""))}${value} -d ${quoted(description)}`;
      }),
    ];
  });
  return `# Completion of signet for fish: signet completion fish > ~/.config/fish/completions/signet.fish
function __signet_path
  set -l path signet
  for word in (commandline -opc)[2..-1]
    if contains -- "$path $word" ${paths.join(" ")}
      set path "$path $word"
    end
  end
  echo $path
end
${lines.join("\n")}
complete -c signet -l help -d 'show help'
`;
}

const SCRIPTS: Readonly<Record<Shell, (nodes: readonly CommandNode[]) => string>> = { bash, zsh, fish };

/** `signet completion`. */
export function completionCommand(program: Command, context: CliContext): Command {
  return new Command("completion")
    .description("print a script that completes commands and options in your shell")
    .addArgument(new Argument("<shell>", "shell to complete for").choices(Object.keys(SCRIPTS)))
    .action((shell: Shell) => {
      context.stdout(SCRIPTS[shell](allCommands(commandTree(program))));
    });
}

/** The tree of commands as data; docs/cli.md and shell completion are generated from it. */
import type { Argument, Command, Option } from "commander";
import { examplesOf } from "./client/command.ts";

export interface OptionNode {
  readonly flags: string;
  /** For instance `--json`; every option here has a long form. */
  readonly long: string;
  readonly takesValue: boolean;
  readonly description: string;
  readonly choices: readonly string[];
  readonly required: boolean;
  readonly fallback: unknown;
}

export interface CommandNode {
  /** Full command, for instance `signet endpoint create`. */
  readonly path: string;
  readonly name: string;
  readonly description: string;
  /** For instance `<url>`, `[ids...]`. */
  readonly args: readonly string[];
  readonly options: readonly OptionNode[];
  readonly examples: readonly string[];
  /** True if the command runs on its own and is not only a group of subcommands. */
  readonly runs: boolean;
  readonly commands: readonly CommandNode[];
}

function argumentText(argument: Argument): string {
  const name = argument.variadic ? `${argument.name()}...` : argument.name();
  return argument.required ? `<${name}>` : `[${name}]`;
}

function optionNode(option: Option): OptionNode {
  return {
    flags: option.flags,
    long: option.long ?? option.flags,
    takesValue: option.required || option.optional,
    description: option.description,
    choices: option.argChoices ?? [],
    required: option.mandatory,
    fallback: option.negate ? undefined : (option.defaultValue as unknown),
  };
}

/** Returns the tree under a command. */
export function commandTree(command: Command, above = ""): CommandNode {
  const path = above === "" ? command.name() : `${above} ${command.name()}`;
  const commands = command.commands.map((child) => commandTree(child, path));
  const options = command.options.map(optionNode);
  return {
    path,
    name: command.name(),
    description: command.description(),
    args: command.registeredArguments.map(argumentText),
    options,
    examples: examplesOf(command),
    runs: commands.length === 0 || options.length > 0,
    commands,
  };
}

/** Returns the command and all commands below it, in the order of `--help`. */
export function allCommands(node: CommandNode): readonly CommandNode[] {
  return [node, ...node.commands.flatMap(allCommands)];
}

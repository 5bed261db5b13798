/** Finds command lines of `signet` in texts and checks them against the command tree. */
import type { Command } from "commander";
import { allCommands, type CommandNode, commandTree } from "#cli/command-tree.ts";
import { createProgram } from "#cli/program.ts";

/** A mention and its location. */
export interface Mention {
  /** Line of the document, from 1. */
  readonly line: number;
  /** The words after `signet`. */
  readonly words: readonly string[];
}

const never = (): never => {
  throw new Error("commands are only parsed here");
};
const nothing = async (): Promise<void> => await Promise.resolve();

/** Builds every command of the program without its actions. */
function idleProgram(): Command {
  const runners = {
    api: nothing,
    worker: nothing,
    edge: nothing,
    hub: nothing,
    all: nothing,
    serve: nothing,
    doctor: nothing,
    migrate: nothing,
  };
  const program = createProgram(
    { settings: never, clientSettings: never, stdout: () => undefined, stderr: () => undefined, fetch },
    runners,
  );
  const disarm = (command: Command): void => {
    if (command.commands.length === 0 || command.options.length > 0) {
      command.action(() => undefined);
    }
    command.commands.forEach(disarm);
  };
  program.commands.forEach(disarm);
  return program;
}

let idle: Command | undefined;
let idleTree: CommandNode | undefined;

/** Returns the program to parse with. Commander restores its state before each parse. */
function parser(): Command {
  return (idle ??= idleProgram());
}

function tree(): CommandNode {
  return (idleTree ??= commandTree(parser()));
}

/** Splits one command of a shell line: removes quotes, and ends at the first non-word (`|`, `;`, `)`, `>`, `#`). */
function shellWords(text: string): string[] {
  const words: string[] = [];
  const form = /\s*(?:(#.*$|[|;&)<>].*$)|((?:"(?:[^"\\]|\\.)*"|'[^']*'|\\.|\$\([^)]*\)|[^\s|;&)<>"'\\])+))/y;
  for (let match = form.exec(text); match !== null && match[1] === undefined; match = form.exec(text)) {
    words.push((match[2] ?? "").replaceAll(/"((?:[^"\\]|\\.)*)"|'([^']*)'/g, "$1$2"));
  }
  return words;
}

const SHELL_BLOCK = /^```(?:sh|bash|console)\n([\s\S]*?)^```$/gm;
/** `signet` in command position: at the start, in a pipe or substitution, after assignments or a command runner. */
const SHELL_COMMAND =
  /(?:^|[|;&(]|<\()\s*(?:[A-Z_]+=\S+ )*(?:npx (?:-p \S+ )*|docker compose exec (?:-T )?[a-z]+ )?(?:signet|@[\w-]+\/(?:cli|server)) (?=[a-z-])/g;
const SPAN = /\\?`(?:npx )?(?:signet|@[\w-]+\/(?:cli|server)|\$\{NPX_SIGNET\}) ([^`\n]*?)\\?`/g;

function lineAt(document: string, index: number): number {
  return document.slice(0, index).split("\n").length;
}

/** Returns the command lines of shell blocks, which readers paste. */
export function pastedCommands(document: string): Mention[] {
  return [...document.matchAll(SHELL_BLOCK)].flatMap(({ 1: block = "", index }) => {
    const first = lineAt(document, index) + 1;
    const lines = block.replaceAll("\\\n", "  ").split("\n");
    return lines.flatMap((text, offset) =>
      [...text.matchAll(SHELL_COMMAND)].map((found) => ({
        line: first + offset,
        words: shellWords(text.slice(found.index + found[0].length)),
      })),
    );
  });
}

/** Returns code spans that begin with `signet`, in Markdown, comments and messages. */
export function mentionedCommands(document: string): Mention[] {
  const spans = [...document.matchAll(SPAN)].filter(({ 1: text = "" }) => !text.includes("${"));
  return spans.map(({ 1: text = "", index }) => ({
    line: lineAt(document, index),
    // Tables escape the pipe sign.
    words: text
      .replaceAll(String.raw`\|`, "|")
      .split(/\s+/)
      .filter((word) => word !== ""),
  }));
}

/** Returns the error message for an invalid command line, or undefined for a valid one. */
export async function misunderstood(words: readonly string[]): Promise<string | undefined> {
  try {
    await parser().parseAsync([...words], { from: "user" });
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Whether a word is a placeholder for a reader's own value. */
function isPlaceholder(word: string): boolean {
  return /^[A-Z]|…|^["'$<{[]/.test(word);
}

function optionsFault(node: CommandNode, words: readonly string[]): string | undefined {
  const unknown = words
    .filter((word) => word.startsWith("--"))
    .map((word) => word.replace(/=.*$/, ""))
    .find((word) => word !== "--help" && !node.options.some(({ long }) => long === word));
  return unknown === undefined ? undefined : `${node.path} has no ${unknown}`;
}

/**
 * Returns the part of a mention that does not exist. A mention may omit required parts, and name several commands side
 * by side: `keys list | rotate`.
 */
export function unknownPart({ words }: Mention): string | undefined {
  let node = tree();
  for (const [index, word] of words.entries()) {
    const above: CommandNode = node;
    const child = above.commands.find(({ name }) => name === word);
    if (child === undefined) {
      const rest = words.slice(index);
      const isArgument = above.args.length > 0 || word.startsWith("--") || isPlaceholder(word);
      return isArgument ? optionsFault(above, rest) : `${above.path} has no ${word}`;
    }
    if (words[index + 1] === "|") {
      const missing = words
        .slice(index)
        .filter((other) => other !== "|")
        .find((other) => !above.commands.some(({ name }) => name === other));
      return missing === undefined ? undefined : `${above.path} has no ${missing}`;
    }
    node = child;
  }
  return undefined;
}

/** Returns every example of every command's help. */
export function examples(): string[] {
  return allCommands(tree()).flatMap((node) => node.examples);
}

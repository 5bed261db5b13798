/** Command lines of `signet` in what people read, as the command tree understands them. */
import type { Command } from "commander";
import { allCommands, type CommandNode, commandTree } from "../../src/cli/command-tree.ts";
import { createProgram } from "../../src/cli/program.ts";

/** A mention, and where it stands. */
export interface Mention {
  /** Line of the document, from 1. */
  readonly line: number;
  /** What stands behind `signet`. */
  readonly words: readonly string[];
}

const never = (): never => {
  throw new Error("nothing is run here");
};
const nothing = async (): Promise<void> => await Promise.resolve();

/** Every command of the program, without what it does. */
function idleProgram(): Command {
  const runners = {
    api: nothing,
    worker: nothing,
    edge: nothing,
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

/** One command of a shell line: quotes are taken off, and what is no word any more (`|`, `;`, `)`, `>`, `#`) ends it. */
function shellWords(text: string): string[] {
  const words: string[] = [];
  const form = /\s*(?:(#.*$|[|;&)<>].*$)|((?:"(?:[^"\\]|\\.)*"|'[^']*'|\\.|\$\([^)]*\)|[^\s|;&)<>"'\\])+))/y;
  for (let match = form.exec(text); match !== null && match[1] === undefined; match = form.exec(text)) {
    words.push((match[2] ?? "").replaceAll(/"((?:[^"\\]|\\.)*)"|'([^']*)'/g, "$1$2"));
  }
  return words;
}

const SHELL_BLOCK = /^```(?:sh|bash|console)\n([\s\S]*?)^```$/gm;
/** `signet` where a shell looks for a command: at the begin, in a pipe or substitution, behind settings or what runs it. */
const SHELL_COMMAND =
  /(?:^|[|;&(]|<\()\s*(?:[A-Z_]+=\S+ )*(?:npx |docker compose exec (?:-T )?[a-z]+ )?signet (?=[a-z-])/g;
const SPAN = /\\?`(?:npx )?signet ([^`\n]*?)\\?`/g;

function lineAt(document: string, index: number): number {
  return document.slice(0, index).split("\n").length;
}

/** Command lines of the shell blocks: a reader pastes them. */
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

/** Spans of code that begin with `signet`, in Markdown, comments and messages. */
export function mentionedCommands(document: string): Mention[] {
  const spans = [...document.matchAll(SPAN)].filter(([span]) => !span.includes("${"));
  return spans.map(({ 1: text = "", index }) => ({
    line: lineAt(document, index),
    // A table spells its own sign out.
    words: text
      .replaceAll(String.raw`\|`, "|")
      .split(/\s+/)
      .filter((word) => word !== ""),
  }));
}

/** Why the command line is none, as a person would be told; undefined for one that is understood. */
export async function misunderstood(words: readonly string[]): Promise<string | undefined> {
  try {
    await idleProgram().parseAsync([...words], { from: "user" });
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** What a text puts where a reader puts something of their own. */
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
 * What a mention names that there is not. It may leave out what the command needs, and name several side by side:
 * `keys list | rotate`.
 */
export function unknownPart({ words }: Mention): string | undefined {
  let node: CommandNode = commandTree(idleProgram());
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

/** Every example of every command's help. */
export function examples(): string[] {
  return allCommands(commandTree(idleProgram())).flatMap((node) => node.examples);
}

/** The commands of the documentation: the lines of its shell blocks, and commands within sentences. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";

const REPOSITORY = join(import.meta.dirname, "..", "..");

export interface DocumentLine {
  /** Path in the repository. */
  readonly document: string;
  readonly text: string;
}

/** Reads a document by its path in the repository. */
export async function readDocument(path: string): Promise<string> {
  return await readFile(join(REPOSITORY, path), "utf8");
}

/** Returns the lines of the shell blocks, with continued lines joined. Labelled blocks belong to another test. */
export async function shellLines(document: string): Promise<readonly DocumentLine[]> {
  const blocks = (await readDocument(document)).matchAll(/(?<!-->\n)```sh\n([\s\S]*?)^```$/gm);
  return [...blocks].flatMap(([, text = ""]) =>
    text
      .replaceAll("\\\n", "")
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"))
      .map((line) => ({ document, text: line })),
  );
}

/** Returns every shell block with a label (`<!-- test: name -->`), by label. */
export function labelledBlocks(document: string): Map<string, string> {
  const blocks = new Map<string, string>();
  for (const [, label = "", text = ""] of document.matchAll(
    /^<!-- test: (\S+) -->\n```sh\n([\s\S]*?)^```$/gm,
  )) {
    blocks.set(label, text);
  }
  return blocks;
}

/** Returns one program's commands between backticks, in sentences and tables. */
export async function inlineCommands(document: string, program: string): Promise<readonly DocumentLine[]> {
  const prose = (await readDocument(document)).replaceAll(/^```[\s\S]*?^```$/gm, "");
  return [...prose.matchAll(/`([^`\n]+)`/g)]
    .map(([, text = ""]) => ({ document, text: text.replaceAll("\\|", "|") }))
    .filter(({ text }) => text.startsWith(`${program} `));
}

/** First line of a shell block that needs the variables and functions of the one above it. */
export const CONTINUES = "# Continues the block above.";

/** Returns the shell blocks of a document, with the line of each, from 1. */
export function shellBlocks(document: string): readonly { readonly line: number; readonly block: string }[] {
  return [...document.matchAll(/^( *)```(?:sh|bash|console)\n([\s\S]*?)^\1```$/gm)].map(
    ({ 1: indent = "", 2: block = "", index }) => ({
      line: document.slice(0, index).split("\n").length,
      block: block.replaceAll(new RegExp(`^${indent}`, "gm"), ""),
    }),
  );
}

/** Functions that documents define for their readers. */
const HELPERS = /(?:^|[|;&(]|\$\()\s*(call|json|mtls)\b(?! ?\(\))/gm;
const ASSIGNED = /(?:^|[\s;(&|])([A-Za-z_]\w*)\+?=/gm;
const LOOPED = /\b(?:for|read)(?: -\w+)* ([A-Za-z_]\w*)/g;
const FUNCTIONS = /^\s*(\w+) ?\(\)/gm;

function namesOf(text: string, pattern: RegExp): string[] {
  return [...text.matchAll(pattern)].map(([, name = ""]) => name);
}

/** Returns the variables and functions that a shell block defines, and those that it uses without. */
export function unknownNames(
  block: string,
  environment: ReadonlySet<string>,
): { readonly unknown: readonly string[]; readonly defined: readonly string[] } {
  // The shell replaces nothing within single quotes, or after a backslash.
  const read = block.replaceAll(/^#.*$/gm, "").replaceAll(/'[^']*'|\\\$/g, "''");
  const defined = [ASSIGNED, LOOPED, FUNCTIONS].flatMap((pattern) => namesOf(block, pattern));
  const used = [...namesOf(read, /\$\{?([A-Za-z_]\w*)/g), ...namesOf(read, HELPERS)];
  const unknown = [...new Set(used)].filter((name) => !defined.includes(name) && !environment.has(name));
  return { unknown, defined };
}

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

/** What readers of the documentation paste: the lines of its shell blocks, and commands within its sentences. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";

const REPOSITORY = join(import.meta.dirname, "..", "..");

export interface DocumentLine {
  /** Path in the repository. */
  readonly document: string;
  readonly text: string;
}

/** The text of a document, by its path in the repository. */
async function readDocument(path: string): Promise<string> {
  return await readFile(join(REPOSITORY, path), "utf8");
}

/** The lines of the shell blocks in their order, continued ones as one. Blocks with a label are another test's. */
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

/** Commands of one program that stand in sentences and tables, between backticks. */
export async function inlineCommands(document: string, program: string): Promise<readonly DocumentLine[]> {
  const prose = (await readDocument(document)).replaceAll(/^```[\s\S]*?^```$/gm, "");
  return [...prose.matchAll(/`([^`\n]+)`/g)]
    .map(([, text = ""]) => ({ document, text: text.replaceAll("\\|", "|") }))
    .filter(({ text }) => text.startsWith(`${program} `));
}

/** The saved views of docs/temporal.md: what each is called, and its query. */
export async function savedViews(): Promise<[name: string, query: string][]> {
  const [, part = ""] = /^## Find\n([\s\S]*?)^## /m.exec(await readDocument("docs/temporal.md")) ?? [];
  return [...part.matchAll(/^\| ([^|]+) \| `(.+)` \|$/gm)].map(([, name = "", query = ""]) => [name, query]);
}

/** Every shell block of a document works when it is pasted alone, or says that it continues the one above. */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { SETTINGS } from "#config/config.ts";
import { CONTINUES, readDocument, shellBlocks, unknownNames } from "#test/support/documents.ts";

const REPOSITORY = join(import.meta.dirname, "..", "..", "..");
/** The environment of a process of the deployment, which its operator's shell has. */
const ENVIRONMENT = new Set([
  ...Object.values(SETTINGS).map(({ variable }) => variable),
  "SIGNET_OPERATOR_TOKEN",
  "HOME",
  "PATH",
  "PWD",
]);

async function documents(): Promise<string[]> {
  const within = async (directory: string): Promise<string[]> =>
    (await readdir(join(REPOSITORY, directory), { recursive: true }))
      .filter((name) => name.endsWith(".md") && !name.includes("node_modules"))
      .map((name) => join(directory, name));
  const top = (await readdir(REPOSITORY)).filter((name) => name.endsWith(".md"));
  const others = ["docs", "deploy", "sdk", "src/processes/packages"];
  return [...top, ...(await Promise.all(others.map(within))).flat()].toSorted();
}

/** Returns what a reader could not know who pastes the blocks of a document. */
function faults(document: string, text: string): string[] {
  const known = new Set<string>();
  return shellBlocks(text).flatMap(({ line, block }) => {
    const { unknown, defined } = unknownNames(block, ENVIRONMENT);
    const continues = block.startsWith(`${CONTINUES}\n`);
    if (!continues) {
      known.clear();
    }
    const missing = unknown.filter((name) => !known.has(name));
    defined.forEach((name) => known.add(name));
    return missing.length === 0 ? [] : [`${document}:${line} uses ${missing.join(", ")}`];
  });
}

test("each shell block defines what it uses, or continues a block that does", async () => {
  const found: string[] = [];
  for (const document of await documents()) {
    found.push(...faults(document, await readDocument(document)));
  }
  expect(found).toEqual([]);
});

test("a name from nowhere, or from a block that is not continued, is found", () => {
  const page = (...blocks: string[]): string =>
    blocks.map((block) => `\`\`\`sh\n${block}\n\`\`\`\n`).join("\n");
  const define = `API=x\ncall() { curl "$@"; }`;
  expect(faults("a.md", page("curl $API/v1/x"))).toEqual(["a.md:1 uses API"]);
  expect(faults("a.md", page("call -X POST x"))).toEqual(["a.md:1 uses call"]);
  expect(faults("a.md", page(define, "call $API"))).toEqual(["a.md:6 uses API, call"]);
  expect(faults("a.md", page(define, `${CONTINUES}\ncall "$API"`))).toEqual([]);
  expect(faults("a.md", page(define, `${CONTINUES}\nX=$(call "$API" | json .id)`))).toEqual([
    "a.md:6 uses json",
  ]);
  expect(faults("a.md", page(`for N in 1 2; do echo '$A' "$N" $HOME; done`))).toEqual([]);
});

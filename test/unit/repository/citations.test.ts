/** Comments and tests cite the contract, the security decisions and the decision records by number: each exists. */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { readDocument } from "#test/support/documents.ts";

const REPOSITORY = join(import.meta.dirname, "..", "..", "..");
const DIRECTORIES = ["src", "workflows", "activities", "test", "sdk", "docs", "deploy"];
const TEXT = /\.(?:ts|mjs|sql|md|py|go|yaml|yml)$/;
/** Applied migrations never change. They cite by the names of their time. This file has wrong citations as examples. */
const LEFT_OUT = /^src\/database\/migrations\/|(?:^|\/)node_modules\/|citations\.test\.ts$/;

/** A citation's number, and those that follow it: "contract 3, 4.1 and 8". */
const NUMBERS = String.raw`(\d+(?:\.\d+)?(?:(?:, | and )\d+(?:\.\d+)?)*)`;
const CONTRACT = new RegExp(String.raw`\bcontract ${NUMBERS}`, "gi");
const DECISION = new RegExp(String.raw`\bdecisions? (\d+)\b(?! seconds)`, "gi");
const SECURITY = /\bsecurity decisions ([A-Z](?:, [A-Z]\b)*)/g;
/** Names of documents that are not in the repository. */
const ELSEWHERE = /\bspecification \d|\bwire\.md\b|\binterface specification\b|\barchitecture \d/gi;

interface Citable {
  readonly contract: ReadonlySet<string>;
  readonly security: ReadonlySet<string>;
  readonly decisions: ReadonlySet<string>;
}

/** Returns the numbers of sections, and of the items in their lists: `6` and `6.2`. */
function sectionsOf(contract: string): ReadonlySet<string> {
  return new Set(
    contract.split(/^## (?=\d)/m).flatMap((section) => {
      const [number = ""] = /^\d+/.exec(section) ?? [];
      const items = [...section.matchAll(/^(\d+)\. /gm)].slice(1).map(([, item = ""]) => `${number}.${item}`);
      return number === "" ? [] : [number, ...items];
    }),
  );
}

/** Returns the citations in the text that lead nowhere. */
function deadCitations(text: string, citable: Citable): string[] {
  const cited = (pattern: RegExp, known: ReadonlySet<string>): string[] =>
    [...text.matchAll(pattern)].flatMap(([whole, list = ""]) =>
      list.split(/, | and /).every((number) => known.has(number)) ? [] : [whole],
    );
  return [
    ...cited(CONTRACT, citable.contract),
    ...cited(SECURITY, citable.security),
    ...cited(DECISION, citable.decisions),
    ...[...text.matchAll(ELSEWHERE)].map(([whole]) => whole),
  ];
}

async function citables(): Promise<Citable> {
  const records = await readdir(join(REPOSITORY, "docs", "decisions"));
  return {
    contract: sectionsOf(await readDocument("docs/contract.md")),
    security: new Set(
      [...(await readDocument("docs/security-model.md")).matchAll(/^### ([A-Z])\. /gm)].map(
        ([, letter = ""]) => letter,
      ),
    ),
    decisions: new Set(records.map((name) => String(Number.parseInt(name, 10)))),
  };
}

it("every citation leads to a section or record of the repository", async () => {
  const citable = await citables();
  const dead: string[] = [];
  for (const directory of DIRECTORIES) {
    const below = await readdir(join(REPOSITORY, directory), { recursive: true });
    const paths = below.filter((path) => TEXT.test(path)).map((path) => `${directory}/${path}`);
    for (const path of paths.filter((candidate) => !LEFT_OUT.test(candidate))) {
      dead.push(
        ...deadCitations(await readDocument(path), citable).map((citation) => `${path}: ${citation}`),
      );
    }
  }
  expect(dead).toEqual([]);
});

it.each([
  "contract 13",
  "Contract 6.99",
  "contract 3 and 77",
  "security decisions Z",
  "decision 999",
  "specification 4",
  "wire.md, Events",
  "architecture 3",
])("a citation of %s is found", async (citation) => {
  expect(deadCitations(`/** Something (${citation}). */`, await citables())).not.toEqual([]);
});

/** Keeps words that read translated out of the repository. CONTRIBUTING.md has the language rules. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";

const REPOSITORY = join(import.meta.dirname, "..", "..", "..");

/** Each word with its replacement. The list is short on purpose: it names words and does not judge style. */
const WORDS: readonly (readonly [word: RegExp, instead: string])[] = [
  [/\bmend(?:s|ed|ing)?\b/i, "fix, repair"],
  [/\banew\b/i, "again"],
  [/\bheed(?:s|ed|ing|less)?\b/i, "follow, obey"],
  [
    /\b(?:is|are) over(?=[.,;:)]|$| (?:and|or|but|for|yet)\b)|(?<=\bthat )(?:is|are) over\b(?! \d)/i,
    "has ended",
  ],
  [/\b(?:is|are) told\b/i, "gets, receives, learns"],
  [/\bbesides\b/i, "also, in addition"],
  [/\bwhoever\b/i, "anyone who, or the noun"],
  [/\bfor good(?=[.,;:)]|$)/i, "permanently"],
];

/** Files of other projects. */
const FOREIGN = /^src\/(?:api\/vendor\/|portal\/assets\/htmx)/;
/** Applied migrations never change, so their comments stay. */
const FROZEN = /^src\/database\/migrations\//;
/** Entries of earlier releases stay as they were published. */
const RELEASED = /^## \[\d[\s\S]*/m;

async function filesBelow(directory: string, ending: RegExp): Promise<string[]> {
  const names = await readdir(join(REPOSITORY, directory), { recursive: true });
  return names.filter((name) => ending.test(name)).map((name) => `${directory}/${name}`);
}

async function textOf(path: string): Promise<string> {
  const text = await readFile(join(REPOSITORY, path), "utf8");
  return path === "CHANGELOG.md" ? text.replace(RELEASED, "") : text;
}

/** Returns each use of a listed word, as `path:line: word (instead)`. */
function usesIn(path: string, text: string): string[] {
  // This line of CONTRIBUTING.md states the rule and names the words.
  const lines = text.split("\n").map((line) => (line.startsWith("- Standard words:") ? "" : line));
  return lines.flatMap((line, index) =>
    WORDS.flatMap(([word, instead]) => {
      const [found] = word.exec(line) ?? [];
      return found === undefined ? [] : [`${path}:${index + 1}: ${found} (${instead})`];
    }),
  );
}

it.each([
  ["src", /\.(?:ts|js|mjs|css|sql)$/],
  ["workflows", /\.ts$/],
  ["activities", /\.ts$/],
  ["docs", /^(?!decisions\/).*\.(?:md|ts|py|go)$/],
  ["sdk", /\.(?:md|py|go)$/],
])("%s has no word of the list", async (directory, ending) => {
  const paths = (await filesBelow(directory, ending)).filter(
    (path) => !FOREIGN.test(path) && !FROZEN.test(path),
  );
  const uses = await Promise.all(paths.toSorted().map(async (path) => usesIn(path, await textOf(path))));
  expect(paths).not.toEqual([]);
  expect(uses.flat()).toEqual([]);
});

it.each(["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])(
  "%s has no word of the list",
  async (path) => {
    expect(usesIn(path, await textOf(path))).toEqual([]);
  },
);

it.each([
  ["Settings that must be mended:", "mended"],
  ["A claim that is over", "is over"],
  ["Its tenant is told of it", "is told"],
  ["Whoever has the link can use it", "Whoever"],
])("finds the word in: %s", (line, word) => {
  expect(usesIn("x", line)).toEqual([expect.stringContaining(`x:1: ${word} (`)]);
});

it.each([
  "A body is over 16 KiB.",
  "Bodies that are over 16 KiB",
  "The way there is over TLS.",
  "beside the log",
  "Recommended: 2 cores",
  "an overlap",
])("accepts: %s", (line) => {
  expect(usesIn("x", line)).toEqual([]);
});

/** Test data of others (test/corpora), and what docs/conformance.md says that the service makes of it. */
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { expect } from "vitest";

const ROOT = new URL("../../", import.meta.url);

/** Reads a compressed file. @param path in test/corpora, without `.json.gz` */
export function readCorpus<T>(path: string): T {
  const bytes = readFileSync(new URL(`test/corpora/${path}.json.gz`, ROOT));
  return JSON.parse(gunzipSync(bytes).toString("utf8")) as T;
}

/** What became of the cases of a corpus. */
export interface Verdicts {
  readonly accepted: number;
  readonly refused: number;
  /** Cases that the service decides differently from the corpus, for a documented reason. */
  readonly differences: number;
}

/** Expects the counts in the row of docs/conformance.md whose first cell is `name`. */
export function expectDocumented(name: string, { accepted, refused, differences }: Verdicts): void {
  const text = readFileSync(new URL("docs/conformance.md", ROOT), "utf8");
  const cells = text.split("\n").map((line) => line.split("|").map((cell) => cell.trim()));
  const [, , ...row] = cells.find(([, first]) => first === name) ?? [];
  const counts = [accepted + refused, accepted, refused, differences];
  expect(row.slice(0, counts.length), name).toEqual(counts.map(String));
}

/** Does `work` for each item, a few at a time, and returns the results in order. */
export async function inParallel<Item, Result>(
  items: readonly Item[],
  work: (item: Item, index: number) => Promise<Result>,
  lanes = 8,
): Promise<Result[]> {
  const results: Result[] = [];
  const entries = items.entries();
  const lane = async (): Promise<void> => {
    for (const [index, item] of entries) {
      results[index] = await work(item, index);
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return results;
}

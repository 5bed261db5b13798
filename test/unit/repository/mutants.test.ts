/** The list of `npm run test:mutants` fits the tree: each fault can be made, and its test exists. */
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { withFault } from "#test/mutants/mutant.ts";
import { MUTANTS } from "#test/mutants/mutants.ts";

const REPOSITORY = join(import.meta.dirname, "..", "..", "..");

it.each(MUTANTS)("$name changes one place of $file", async (mutant) => {
  const text = await readFile(join(REPOSITORY, mutant.file), "utf8");
  expect(withFault(text, mutant)).not.toBe(text);
  expect(mutant.file).toMatch(/^(?:src|workflows|activities)\//);
});

it("a fault whose code has moved is reported by its name", () => {
  const [mutant] = MUTANTS as [(typeof MUTANTS)[number]];
  for (const text of ["", mutant.find.repeat(2)]) {
    expect(() => withFault(text, mutant)).toThrow(`${mutant.name}: the text to replace occurs`);
  }
});

it("has unique names", () => {
  const names = MUTANTS.map(({ name }) => name);
  expect(names).toEqual([...new Set(names)]);
});

it("names existing test files", () => {
  const files = [...new Set(MUTANTS.map(({ caughtBy }) => caughtBy))];
  expect(files.filter((file) => !existsSync(join(REPOSITORY, file)))).toEqual([]);
});

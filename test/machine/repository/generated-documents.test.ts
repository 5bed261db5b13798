/** Checks that generated documents agree with the routes: these come from an api whose scripts a thread bundles. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { clientTypes } from "../../../docs/client-types.ts";
import { describedApi } from "../../../docs/described-api.ts";
import { GENERATED_DOCUMENTS, withGeneratedParts } from "../../../docs/generated-parts.ts";
import { goModels } from "../../../docs/go-models.ts";
import { PYTHON_MODELS, pythonModels } from "../../../docs/python-models.ts";

const REPOSITORY = join(import.meta.dirname, "..", "..", "..");

async function read(path: string): Promise<string> {
  return await readFile(join(REPOSITORY, path), "utf8");
}

it.each(GENERATED_DOCUMENTS)("%s matches the code: run `npm run docs` when this fails", async (name) => {
  const document = await read(name);
  expect(await withGeneratedParts(document)).toBe(document);
});

it("src/lib/client/api-types.ts matches the routes' schemas", async () => {
  expect(await read("src/lib/client/api-types.ts")).toBe(await clientTypes(await describedApi()));
});

it("sdk/go/models.gen.go matches the routes' schemas", async () => {
  expect(await read("sdk/go/models.gen.go")).toBe(goModels(await describedApi()));
});

it("sdk/python's models match the routes' schemas", async () => {
  expect(await read(PYTHON_MODELS)).toBe(pythonModels(await describedApi()));
});

/** `npm run docs`: writes the generated parts of documents. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { GENERATED_DOCUMENTS, withGeneratedParts } from "./generated-parts.ts";

const ROOT = join(import.meta.dirname, "..");

for (const name of GENERATED_DOCUMENTS) {
  const path = join(ROOT, name);
  const before = await readFile(path, "utf8");
  const after = await withGeneratedParts(before);
  await writeFile(path, after);
  console.log(after === before ? `${name} is up to date` : `${name} is written`);
}

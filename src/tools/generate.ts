/** `npm run docs`: writes the OpenAPI documents, the types and methods of the clients, the types of rows, the reference of the command line, the plain manifests and the generated parts of documents. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { cliReference } from "./cli-reference.ts";
import { currentImportLaw } from "./import-law.ts";
import { GENERATED_DOCUMENTS, withGeneratedParts } from "./generated-parts.ts";
import { chartWithVersion, plainManifests, SHARED_FILES, sharedFile } from "./kubernetes-manifests.ts";
import { withMigratedDatabase } from "./migrated-database.ts";
import { readOpenApi } from "./openapi-schema.ts";
import { filesWithPackageNames, withPackageNames } from "./package-names.ts";
import { PYTHON_VERSION, pythonVersion } from "./python-models.ts";
import { readText, ROOT } from "./repository.ts";
import { ROW_TYPES, rowTypes } from "./row-types.ts";
import { SDK_PAGES, sdkPage } from "./sdk-pages.ts";
import { sdkFiles } from "./sdk-files.ts";
import { servedDocuments } from "./served-documents.ts";

async function update(name: string, make: (before: string) => string | Promise<string>): Promise<void> {
  const before = await readText(name).catch(() => "");
  const after = await make(before);
  await writeFile(join(ROOT, name), after);
  console.log(after === before ? `${name} is up to date` : `${name} is written`);
}

async function updateAll(files: Iterable<readonly [name: string, text: string]>): Promise<void> {
  for (const [name, text] of files) {
    await update(name, () => text);
  }
}

// First, because generated parts show the examples.
for (const name of await filesWithPackageNames()) {
  const text = await readText(name);
  if (withPackageNames(text) !== text) {
    await update(name, withPackageNames);
  }
}
const fromDatabase = await withMigratedDatabase(async (url) => ({
  [ROW_TYPES]: await rowTypes(url),
  ...(await servedDocuments(url)),
}));
await updateAll(Object.entries(fromDatabase));
await updateAll(await sdkFiles(await readOpenApi("tenants")));
await update(PYTHON_VERSION, pythonVersion);
await update(".oxlintrc.law.json", currentImportLaw);
for (const name of GENERATED_DOCUMENTS) {
  await update(name, withGeneratedParts);
}
for (const name of Object.keys(SDK_PAGES)) {
  await update(name, async () => await sdkPage(name));
}
await update("docs/cli.md", cliReference);
await update("deploy/helm/signet/Chart.yaml", chartWithVersion);
for (const copy of Object.keys(SHARED_FILES)) {
  await update(copy, async () => await sharedFile(copy));
}
const manifests = await plainManifests().catch((error: unknown) => error as Error);
if (manifests instanceof Error) {
  console.warn(`deploy/kubernetes stays as it is, because helm is missing: ${manifests.message}`);
} else {
  await updateAll(manifests);
}

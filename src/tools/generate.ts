/** `npm run docs`: writes the OpenAPI documents, the types and methods of the clients, the types of rows, the reference of the command line, the plain manifests and the generated parts of documents. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { cliReference } from "./cli-reference.ts";
import { clientTypes } from "./client-types.ts";
import { describedAdmin, describedApi } from "./described-api.ts";
import { goModels } from "./go-models.ts";
import { currentImportLaw } from "./import-law.ts";
import { GENERATED_DOCUMENTS, withGeneratedParts } from "./generated-parts.ts";
import { chartWithVersion, plainManifests, SHARED_FILES, sharedFile } from "./kubernetes-manifests.ts";
import { filesWithPackageNames, withPackageNames } from "./package-names.ts";
import { readText, ROOT } from "./repository.ts";
import { currentRowTypes, ROW_TYPES } from "./row-types.ts";
import { SDK_PAGES, sdkPage } from "./sdk-pages.ts";
import { sdkFiles } from "./sdk-files.ts";
import { PYTHON_MODELS, PYTHON_VERSION, pythonModels, pythonVersion } from "./python-models.ts";

async function update(name: string, make: (before: string) => Promise<string>): Promise<void> {
  const before = await readText(name).catch(() => "");
  const after = await make(before);
  await writeFile(join(ROOT, name), after);
  console.log(after === before ? `${name} is up to date` : `${name} is written`);
}

// First, because generated parts show the examples.
for (const name of await filesWithPackageNames()) {
  const text = await readText(name);
  if (withPackageNames(text) !== text) {
    await update(name, async (before) => await Promise.resolve(withPackageNames(before)));
  }
}
await update("docs/openapi.json", async () => `${JSON.stringify(await describedApi(), null, 2)}\n`);
await update(
  "docs/openapi-operators.json",
  async () => `${JSON.stringify(await describedAdmin(), null, 2)}\n`,
);
await update("src/lib/client/api-types.ts", async () => await clientTypes(await describedApi()));
for (const [name, text] of await sdkFiles(await describedApi())) {
  await update(name, async () => await Promise.resolve(text));
}
await update("sdk/go/models.gen.go", async () => goModels(await describedApi()));
await update(PYTHON_MODELS, async () => pythonModels(await describedApi()));
await update(PYTHON_VERSION, async () => await Promise.resolve(pythonVersion()));
await update(ROW_TYPES, currentRowTypes);
await update(".oxlintrc.law.json", currentImportLaw);
for (const name of GENERATED_DOCUMENTS) {
  await update(name, withGeneratedParts);
}
for (const name of Object.keys(SDK_PAGES)) {
  await update(name, async () => await sdkPage(name));
}
await update("docs/cli.md", async () => await Promise.resolve(cliReference()));
await update("deploy/helm/signet/Chart.yaml", chartWithVersion);
for (const copy of Object.keys(SHARED_FILES)) {
  await update(copy, async () => await sharedFile(copy));
}
const manifests = await plainManifests().catch((error: unknown) => error as Error);
if (manifests instanceof Error) {
  console.warn(`deploy/kubernetes stays as it is, because helm is missing: ${manifests.message}`);
} else {
  for (const [name, text] of manifests) {
    await update(name, async () => await Promise.resolve(text));
  }
}

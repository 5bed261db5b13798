/** All files of the SDKs that are made from the OpenAPI document: the types of bodies, and the methods. */
import { clientTypes } from "./client-types.ts";
import { goModels } from "./go-models.ts";
import type { Document } from "./openapi-schema.ts";
import { PYTHON_MODELS, pythonModels } from "./python-models.ts";
import { goResources } from "./sdk-go.ts";
import { pythonResources } from "./sdk-python.ts";
import { typescriptResources } from "./sdk-typescript.ts";

/** Returns the generated files by their paths in the repository. @param document the OpenAPI document for tenants */
export async function sdkFiles(document: Document): Promise<ReadonlyMap<string, string>> {
  return new Map([
    ["src/lib/client/api-types.ts", await clientTypes(document)],
    ...(await typescriptResources(document)),
    ["sdk/go/models.gen.go", goModels(document)],
    ["sdk/go/resources.gen.go", goResources(document)],
    [PYTHON_MODELS, pythonModels(document)],
    ...pythonResources(document),
  ]);
}

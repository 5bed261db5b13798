/** All files with methods of the SDKs. */
import { goResources } from "./sdk-go.ts";
import { pythonResources } from "./sdk-python.ts";
import { typescriptResources } from "./sdk-typescript.ts";

/** Returns the generated files by their paths in the repository. @param document the OpenAPI document for tenants */
export async function sdkFiles(
  document: Readonly<Record<string, unknown>>,
): Promise<ReadonlyMap<string, string>> {
  return new Map([
    ...(await typescriptResources(document)),
    ["sdk/go/resources.gen.go", goResources(document)],
    ...pythonResources(document),
  ]);
}

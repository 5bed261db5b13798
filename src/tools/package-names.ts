/**
 * The names of the packages in documents, examples and SDKs. `npm run docs` writes them for the scope of
 * src/runtime/package.ts, and a test fails when one is stale.
 */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { GO_MODULE, PACKAGES } from "#runtime/package.ts";
import { readText, ROOT } from "./repository.ts";

const NAME = /@[a-z0-9][a-z0-9._-]*\/(client|cli|server)(?![a-z0-9-])/g;
const MODULE = /github\.com\/[A-Za-z0-9-]+\/signet\/sdk\/go\b/g;
const { dependencies } = JSON.parse(await readText("package.json")) as {
  dependencies: Readonly<Record<string, string>>;
};
/** Packages of others that end like ours: dependencies such as `@temporalio/client`, and a linter that documents name. */
const OF_OTHERS: ReadonlySet<string> = new Set([...Object.keys(dependencies), "@redocly/cli"]);

/** Returns a text with each name in the present scope. */
export function withPackageNames(text: string): string {
  return text
    .replaceAll(NAME, (name, which: keyof typeof PACKAGES) => (OF_OTHERS.has(name) ? name : PACKAGES[which]))
    .replaceAll(MODULE, GO_MODULE);
}

/** Returns the files that may name the packages: documents, examples, the packages' READMEs, and the Go SDK. */
export async function filesWithPackageNames(): Promise<string[]> {
  const below = async (folder: string, ending: RegExp): Promise<string[]> => {
    const names = await readdir(join(ROOT, folder), { recursive: true });
    return names.filter((name) => ending.test(name)).map((name) => join(folder, name));
  };
  const top = (await readdir(ROOT)).filter((name) => name.endsWith(".md"));
  return [
    ...top,
    ...(await below("docs", /(?:\.md|examples\/.*\.(?:ts|js|mjs|json))$/)),
    ...(await below("src/processes/packages", /\.md$/)),
    ...(await below("sdk/go", /\.(?:go|md|mod)$/)),
    ...(await below("test/conformance/sdk-go", /\.go$/)),
  ];
}

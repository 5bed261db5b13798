/** The pages of the SDKs in the guide: their READMEs, which their packages carry, with links that work here. */
import { posix } from "node:path";
import { readText } from "./repository.ts";

interface SdkPage {
  /** README of the package, as a path in the repository. */
  readonly readme: string;
  readonly language: string;
}

/** The pages, by path in the repository. */
export const SDK_PAGES: Readonly<Record<string, SdkPage>> = {
  "docs/sdk-go.md": { readme: "sdk/go/README.md", language: "Go" },
  "docs/sdk-python.md": { readme: "sdk/python/README.md", language: "Python" },
};

/** Returns the page as it should stand in the repository. */
export async function sdkPage(name: string): Promise<string> {
  const { readme, language } = SDK_PAGES[name] as SdkPage;
  const text = await readText(readme);
  const moved = text.replaceAll(/\]\((?![a-z]+:|#)([^)]+)\)/g, (_link, target: string) => {
    const path = posix.join(posix.dirname(readme), target);
    return `](${posix.relative("docs", path)})`;
  });
  const source = `<!-- generated from ${readme} by npm run docs -->`;
  return moved.replace(/^# .*$/m, `# SDK: ${language}\n\n${source}`);
}

/** Hand-written JavaScript is checked like everything else. */
import { readdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "..", "..", "..");

interface Project {
  readonly compilerOptions?: { readonly allowJs?: boolean; readonly checkJs?: boolean };
  readonly include?: readonly string[];
}

async function ownScripts(): Promise<string[]> {
  const names = await readdir(join(ROOT, "src"), { recursive: true });
  return names
    .filter(
      (name) => /\.m?js$/.test(name) && !name.endsWith(".min.js") && !name.startsWith(join("api", "vendor")),
    )
    .map((name) => join(ROOT, "src", name));
}

/** Returns a pattern for the paths that an entry of a project's `include` covers. */
function patternOf(include: string): RegExp {
  const text = include.replaceAll(/[.+^${}()|[\]\\]/g, String.raw`\$&`).replaceAll("*", "[^/]*");
  return new RegExp(`^${text}(?:/.*)?$`);
}

it("every script of src is type-checked by a project that `npm run check` runs", async () => {
  const { scripts } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")) as {
    scripts: Record<string, string>;
  };
  const checked: RegExp[] = [];
  for (const [, path = ""] of (scripts["check:types"] ?? "").matchAll(/tsc -p (\S+)/g)) {
    const { compilerOptions = {}, include = [] } = JSON.parse(
      await readFile(join(ROOT, path), "utf8"),
    ) as Project;
    if (compilerOptions.allowJs === true && compilerOptions.checkJs === true) {
      checked.push(...include.map((entry) => patternOf(join(ROOT, dirname(path), entry))));
    }
  }
  const own = await ownScripts();
  expect(own).not.toEqual([]);
  expect(own.filter((file) => !checked.some((pattern) => pattern.test(file)))).toEqual([]);
});

it("every script of src is linted", async () => {
  const rules = await readFile(join(ROOT, ".oxlintrc.json"), "utf8");
  const [, ignored = ""] = /"ignorePatterns": \[([^\]]*)\]/.exec(rules) ?? [];
  const own = ignored.split(",").filter((pattern) => pattern.includes("src"));
  expect(own.map((pattern) => pattern.trim())).toEqual(['"src/portal/assets/*.min.js"']);
});

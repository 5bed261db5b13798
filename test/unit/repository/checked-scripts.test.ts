/** Hand-written JavaScript is checked like everything else. */
import { execFile } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "..", "..", "..");
const TSC = join(ROOT, "node_modules", "typescript", "bin", "tsc");

async function ownScripts(): Promise<string[]> {
  const names = await readdir(join(ROOT, "src"), { recursive: true });
  return names
    .filter(
      (name) => /\.m?js$/.test(name) && !name.endsWith(".min.js") && !name.startsWith(join("api", "vendor")),
    )
    .map((name) => join(ROOT, "src", name));
}

it("every script of src is type-checked by a project that `npm run check` runs", async () => {
  const { scripts } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")) as {
    scripts: Record<string, string>;
  };
  const projects = [...(scripts["check:types"] ?? "").matchAll(/tsc -p (\S+)/g)].map(([, path = ""]) => path);
  const checked = new Set<string>();
  for (const project of projects) {
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [TSC, "-p", join(ROOT, project), "--listFilesOnly"],
      { maxBuffer: 16_777_216 },
    );
    stdout.split("\n").forEach((file) => checked.add(file));
  }
  expect((await ownScripts()).filter((file) => !checked.has(file))).toEqual([]);
});

it("every script of src is linted", async () => {
  const rules = await readFile(join(ROOT, ".oxlintrc.json"), "utf8");
  const [, ignored = ""] = /"ignorePatterns": \[([^\]]*)\]/.exec(rules) ?? [];
  const own = ignored.split(",").filter((pattern) => pattern.includes("src"));
  expect(own.map((pattern) => pattern.trim())).toEqual(['"src/portal/assets/*.min.js"']);
});

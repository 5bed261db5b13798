import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { loadWorkflowBundle } from "#temporal/bundle.ts";

const ROOT = join(import.meta.dirname, "..", "..", "..");
const load = async (path: string): Promise<unknown> => await import(pathToFileURL(path).href);

test("a clone bundles its workflows once for each state of its sources", async () => {
  await mkdir(join(ROOT, ".signet"), { recursive: true });
  // The bundle finds its packages there.
  const directory = await mkdtemp(join(ROOT, ".signet", "test-bundle-"));
  onTestFinished(async () => await rm(directory, { recursive: true }));
  const { bundleProgram } = (await load(join(ROOT, "src", "processes", "bundle.mjs"))) as {
    bundleProgram: (options: object) => Promise<void>;
  };
  await bundleProgram({ root: ROOT, entry: "src/temporal/bundle.ts", directory });
  const program = (await load(join(directory, "main.js"))) as {
    readonly loadWorkflowBundle: typeof loadWorkflowBundle;
  };
  const made = (await program.loadWorkflowBundle()) as { readonly code: string };
  const codePath = join(directory, "workflow-bundle.js");
  expect((await readFile(codePath, "utf8")) === made.code).toBe(true);
  await writeFile(codePath, "kept");
  expect(await program.loadWorkflowBundle()).toEqual({ codePath });
  expect(await readFile(codePath, "utf8")).toBe("kept");
  // The sources themselves may change between two starts.
  expect(await loadWorkflowBundle()).not.toHaveProperty("codePath");
});

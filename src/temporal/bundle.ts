/** Loads the workflow code that workers run in their sandbox. */
import { existsSync } from "node:fs";
import { rename, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { bundleWorkflowCode, type WorkflowBundleOption } from "@temporalio/worker";

/** Created by the build next to the compiled sources; absent in development. */
const PREBUILT = fileURLToPath(new URL("../../workflow-bundle.js", import.meta.url));

/**
 * Loads the prebuilt bundle if there is one. Otherwise bundles workflows/ now, which takes a second or two. A clone's own
 * bundle of the program keeps it for the next start: it has a directory for each state of the sources.
 */
export async function loadWorkflowBundle(): Promise<WorkflowBundleOption> {
  if (existsSync(PREBUILT)) {
    return { codePath: PREBUILT };
  }
  // In a bundle, the URL is still that of the source, but not the name of the file.
  const isBundled = import.meta.filename !== fileURLToPath(import.meta.url);
  const kept = join(dirname(import.meta.filename), basename(PREBUILT));
  if (isBundled && existsSync(kept)) {
    return { codePath: kept };
  }
  const bundle = await bundleWorkflows();
  if (isBundled) {
    await keep(kept, bundle.code);
  }
  return bundle;
}

/** Writes a file as a whole, so that other processes never read a part. */
async function keep(path: string, code: string): Promise<void> {
  const draft = `${path}.${process.pid}`;
  await writeFile(draft, code);
  await rename(draft, path);
}

/**
 * Bundles workflows/ from disk.
 *
 * @public the build calls it in dist
 */
export async function bundleWorkflows(): Promise<{ code: string }> {
  const extension = import.meta.url.endsWith(".ts") ? "ts" : "js";
  const pathOf = (name: string): string =>
    fileURLToPath(new URL(`../../workflows/${name}.${extension}`, import.meta.url));
  const interceptors = [pathOf("stack-trace"), pathOf("task-time")];
  return await bundleWorkflowCode({
    workflowsPath: pathOf("index"),
    payloadConverterPath: pathOf("payload-converter"),
    workflowInterceptorModules: interceptors,
    // Evaluated once per thread instead of once per workflow. Our modules have no state; the SDK's keep it elsewhere.
    preloadModules: ["@temporalio/workflow", pathOf("index"), ...interceptors],
    // The worker needs a source map inside the bundle. Without the sources, it has half the size.
    // The same sources give the same bundle in any directory. Columns depend on it: the SDK writes absolute paths into
    // its entry. So the map has lines only.
    webpackConfigHook: (config) => ({
      ...config,
      devtool: "inline-nosources-cheap-module-source-map",
      output: {
        ...config.output,
        filename: "workflow-bundle.js",
        devtoolModuleFilenameTemplate: ({ resourcePath }: { readonly resourcePath: string }) =>
          resourcePath.replace(/^ignored\|.*\|/, "ignored|"),
      },
    }),
    logger: { trace() {}, debug() {}, info() {}, warn() {}, error: console.error, log() {} },
  });
}

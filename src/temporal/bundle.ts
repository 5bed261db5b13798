/** The workflow code that workers run in their sandbox. */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { bundleWorkflowCode, type WorkflowBundleOption } from "@temporalio/worker";
import { FAILURE_CONVERTER } from "./codec.ts";

/** Made by the build beside the compiled sources; absent in development. */
const PREBUILT = fileURLToPath(new URL("../../workflow-bundle.js", import.meta.url));
/** The same, with failures that the codec can encrypt. */
const PREBUILT_FOR_CODEC = fileURLToPath(new URL("../../workflow-bundle-codec.js", import.meta.url));

/**
 * The prebuilt bundle where there is one; otherwise bundles workflows/ now, which takes a second or two.
 *
 * @param codec whether payloads are encrypted, and what failures say with them
 */
export async function loadWorkflowBundle(codec = false): Promise<WorkflowBundleOption> {
  const prebuilt = codec ? PREBUILT_FOR_CODEC : PREBUILT;
  return existsSync(prebuilt) ? { codePath: prebuilt } : await bundleWorkflows(codec);
}

/**
 * Bundles workflows/ as it is on disk.
 *
 * @public the build calls it in dist
 */
export async function bundleWorkflows(codec = false): Promise<{ code: string }> {
  const extension = import.meta.url.endsWith(".ts") ? "ts" : "js";
  const pathOf = (name: string): string =>
    fileURLToPath(new URL(`../../workflows/${name}.${extension}`, import.meta.url));
  return await bundleWorkflowCode({
    workflowsPath: pathOf("index"),
    payloadConverterPath: pathOf("payload-converter"),
    ...(codec ? { failureConverterPath: FAILURE_CONVERTER } : {}),
    // Evaluated once per thread instead of once per workflow: our modules keep no state, the SDK's keep it elsewhere.
    preloadModules: ["@temporalio/workflow", pathOf("index")],
    // The worker needs a source map inside the bundle, but not the sources inside the map: they are half of its size.
    webpackConfigHook: (config) => ({ ...config, devtool: "inline-nosources-source-map" }),
    logger: { trace() {}, debug() {}, info() {}, warn() {}, error: console.error, log() {} },
  });
}

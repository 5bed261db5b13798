/**
 * The canary of decision 7: the parts of Temporal's SDK that we replace are still where the patches expect them. If one
 * of these tests fails after an update of the SDK, the patches must be adapted or removed.
 */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, inject, test } from "vitest";
import { workflowBundle } from "#test/support/processes.ts";
import type { SdkPatchesInput, SdkPatchesOutput } from "#test/support/sdk-patches-process.ts";
import { testNamespace } from "#test/support/services.ts";

const PROGRAM = join(import.meta.dirname, "..", "..", "support", "sdk-patches-process.ts");
/** Runs first in each thread. Says so if the SDK passes a timeout to a call into workflow code. */
const SPY = `data:text/javascript,${encodeURIComponent(`
  import vm from "node:vm";
  const { runInContext } = vm.Script.prototype;
  vm.Script.prototype.runInContext = function (context, options) {
    if (options?.timeout !== undefined) console.error("a call has a timeout");
    return runInContext.call(this, context, options);
  };
`)}`;
/** From here on, Node's AsyncLocalStorage tracks no promises. */
const TRACKS_NOTHING = Number(process.versions.node.split(".")[0]) >= 24;

interface Seen extends SdkPatchesOutput {
  readonly setsTimeouts: boolean;
}

async function run(patched: boolean): Promise<Seen> {
  const bundle = workflowBundle();
  const input: SdkPatchesInput = {
    address: inject("temporalAddress"),
    namespace: await testNamespace(),
    codePath: "codePath" in bundle ? bundle.codePath : "",
    patched,
  };
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [PROGRAM, JSON.stringify(input)], {
    timeout: 50_000,
    env: { ...process.env, NODE_OPTIONS: `--import "${SPY}"` },
  });
  const output = JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as SdkPatchesOutput;
  return { ...output, setsTimeouts: stderr.includes("a call has a timeout") };
}

/** Source-mapped frames of workflow code. */
const FRAMES = /at purgeExpired \(.*workflows\/purge-expired\.[jt]s:\d+:\d+\)/;

test("without patches, the SDK tracks promises, sets timeouts, and answers the stack-trace query", async () => {
  const seen = await run(false);
  expect(seen).toMatchObject({
    activityType: "purge",
    tracksPromises: !TRACKS_NOTHING,
    setsTimeouts: true,
    stackTrace: expect.stringMatching(FRAMES),
  });
});

test("with patches, it does neither, and answers the query", async () => {
  const seen = await run(true);
  expect(seen).toMatchObject({
    activityType: "purge",
    tracksPromises: false,
    setsTimeouts: false,
    stackTrace: expect.stringMatching(FRAMES),
  });
  expect(seen.enhancedStackTrace).toMatchObject({
    stacks: expect.arrayContaining([
      {
        locations: expect.arrayContaining([
          expect.objectContaining({
            function_name: "purgeExpired",
            file_path: expect.stringMatching(/purge-expired\.[jt]s$/),
            line: expect.any(Number),
          }),
        ]),
      },
    ]),
  });
});

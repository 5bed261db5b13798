/** Workflows that any release has started go on under today's code. test/replay/record.test.ts records them. */
import { randomBytes } from "node:crypto";
import { cp, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bundleWorkflowCode, Worker } from "@temporalio/worker";
import { DeterminismViolationError } from "@temporalio/workflow";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { keepRuntime } from "../support/in-process-worker.ts";
import type { Keyring } from "#crypto/keyring.ts";
import { createDataConverter } from "#temporal/codec.ts";
import { withoutStackTraces } from "#temporal/workflow-threads.ts";
import { testKeyring } from "../support/keyring.ts";
import { workflowBundle } from "../support/processes.ts";

const HISTORIES = new URL("../replay/histories/", import.meta.url);
const REPOSITORY = join(import.meta.dirname, "..", "..");
/** By the release that was the first to leave them. Every later release leaves them too, so no file changes or goes. */
const SHAPES: Readonly<Record<string, readonly string[]>> = {
  "0.1.0": [
    "deliver-17-failures",
    "deliver-at-once",
    "deliver-attempt-now-cancelled",
    "deliver-dead-letter-replayed",
    "deliver-expired",
    "deliver-many-requests",
    "deliver-mixed-list",
    "deliver-moved",
    "deliver-retried",
    "deliver-retrying-list",
    "deliver-settled",
    "deliver-signal-during-attempt",
    "deliver-slow-lane",
    "verify-exhausted",
    "verify-first-ping-local",
    "verify-second-ping",
    "verify-superseded",
  ],
  "0.2.0": [
    "deliver-17-failures-described",
    "deliver-rate-limited",
    "purge-expired",
    "replay-cancelled-described",
    "replay-cancelled",
    "replay-completed",
    "replay-continued",
    "replay-paused",
    "replay-running",
    "rotate-credentials",
    "rotate-signing-keys",
    "sign-checkpoint-described",
    "sign-checkpoint",
    "verify-second-ping-described",
  ],
  "0.3.0": ["deliver-asked-to-wait"],
  "0.4.0": [
    "dead-letter-cancelled",
    "dead-letter-replayed",
    "deliver-becomes-dead-letter",
    "replay-deliveries-cancelled",
    "replay-deliveries-completed",
    "replay-deliveries-continued",
    "replay-deliveries-paused",
    "replay-deliveries-running",
  ],
};
const names = (await readdir(HISTORIES)).filter((name) => name.endsWith(".json"));
const scratch = await mkdtemp(join(tmpdir(), "signet-replay-"));

async function historyOf(name: string): Promise<unknown> {
  return JSON.parse(await readFile(new URL(name, HISTORIES), "utf8")) as unknown;
}

// Otherwise the states of each replay's worker hide the results.
beforeAll(keepRuntime);

afterAll(async () => {
  await rm(scratch, { recursive: true, force: true });
});

test("there is a history of every shape that a release can have left", () => {
  const kept = Object.values(SHAPES).flat();
  expect(names.toSorted()).toEqual(kept.map((name) => `${name}.json`).toSorted());
  expect(Object.keys(SHAPES)).toEqual(expect.arrayContaining(["0.1.0", "0.2.0", "0.3.0"]));
});

async function replay(...of: Parameters<typeof Worker.runReplayHistory>): Promise<void> {
  await withoutStackTraces(async () => await Worker.runReplayHistory(...of));
}

describe("a recorded history continues with today's code", () => {
  test.each(names)("%s", async (name) => {
    await replay({ workflowBundle: workflowBundle() }, await historyOf(name));
  });
});

test("a history that 0.3.0 encrypted continues with the key-encryption key, and does not without it", async () => {
  // 0.3.0 encrypted the recorded deliver-dead-letter-replayed.json with this key.
  const keys = [randomBytes(32), Buffer.alloc(32, 7)];
  const history = await historyOf("encrypted/deliver-dead-letter-replayed.json");
  const options = { workflowBundle: workflowBundle() };
  const replayWith = async (keyring: Keyring): Promise<void> =>
    await replay({ ...options, dataConverter: createDataConverter(keyring) }, history);
  await replayWith(testKeyring(...keys));
  await expect(replayWith(testKeyring())).rejects.toThrow(/./);
});

test("incompatible workflow code is detected", async () => {
  for (const path of ["package.json", "workflows", "activities", "src/domain"]) {
    await cp(join(REPOSITORY, path), join(scratch, path), { recursive: true });
  }
  await symlink(join(REPOSITORY, "node_modules"), join(scratch, "node_modules"));
  const path = join(scratch, "workflows", "deliver.ts");
  const code = await readFile(path, "utf8");
  const loop = "while (ledger.open > 0) {";
  expect(code).toContain(loop);
  await writeFile(path, code.replace(loop, `await condition(() => false, 1_000);\n  ${loop}`));
  const tampered = await bundleWorkflowCode({
    workflowsPath: join(scratch, "workflows", "index.ts"),
    logger: { trace() {}, debug() {}, info() {}, warn() {}, error() {}, log() {} },
  });
  await expect(replay({ workflowBundle: tampered }, await historyOf("deliver-at-once.json"))).rejects.toThrow(
    DeterminismViolationError,
  );
});

import { cp, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bundleWorkflowCode, Worker } from "@temporalio/worker";
import { DeterminismViolationError } from "@temporalio/workflow";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bundleWorkflows } from "../../src/temporal/bundle.ts";

const HISTORIES = new URL("histories/", import.meta.url);
const REPOSITORY = join(import.meta.dirname, "..", "..");
const names = (await readdir(HISTORIES)).filter((name) => name.endsWith(".json"));
const scratch = await mkdtemp(join(tmpdir(), "signet-replay-"));
let bundle: { code: string };

async function historyOf(name: string): Promise<unknown> {
  return JSON.parse(await readFile(new URL(name, HISTORIES), "utf8")) as unknown;
}

beforeAll(async () => {
  bundle = await bundleWorkflows();
});

afterAll(async () => {
  await rm(scratch, { recursive: true, force: true });
});

test("every shape has a history", () => {
  expect(names.sort()).toEqual([
    "deliver-17-failures-described.json",
    "deliver-17-failures.json",
    "deliver-asked-to-wait.json",
    "deliver-at-once.json",
    "deliver-attempt-now-cancelled.json",
    "deliver-dead-letter-replayed.json",
    "deliver-expired.json",
    "deliver-mixed-list.json",
    "deliver-moved.json",
    "deliver-rate-limited.json",
    "deliver-retried.json",
    "deliver-retrying-list.json",
    "deliver-settled.json",
    "deliver-signal-during-attempt.json",
    "deliver-slow-lane.json",
    "purge-expired.json",
    "replay-cancelled-described.json",
    "replay-cancelled.json",
    "replay-completed.json",
    "replay-continued.json",
    "replay-paused.json",
    "replay-running.json",
    "rotate-credentials.json",
    "rotate-signing-keys.json",
    "sign-checkpoint-described.json",
    "sign-checkpoint.json",
    "verify-exhausted.json",
    "verify-second-ping-described.json",
    "verify-second-ping.json",
    "verify-superseded.json",
  ]);
});

describe("a recorded history continues with today's code", () => {
  test.each(names)("%s", async (name) => {
    await Worker.runReplayHistory({ workflowBundle: bundle }, await historyOf(name));
  });
});

test("incompatible workflow code is detected", async () => {
  for (const directory of ["workflows", "activities", "src/domain"]) {
    await cp(join(REPOSITORY, directory), join(scratch, directory), { recursive: true });
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
  await expect(
    Worker.runReplayHistory({ workflowBundle: tampered }, await historyOf("deliver-at-once.json")),
  ).rejects.toThrow(DeterminismViolationError);
});

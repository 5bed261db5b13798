/** The schedule of checkpoints on a real worker, and the checkpoint after each revocation. */
import { randomBytes } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { NODE_CRYPTO } from "#lib/transparency-log/node-crypto.ts";
import { openCheckpoint, parseVerifierKey } from "#lib/transparency-log/signed-note.ts";
import { appendEntry } from "#compliance/append-entry.ts";
import { CheckpointKey } from "#compliance/checkpoint-key.ts";
import { createPool } from "#database/pool.ts";
import { transaction } from "#database/transaction.ts";
import { systemClock } from "#runtime/machine-timers.ts";
import { createLogger } from "#observability/logger.ts";
import { publishRevocation } from "#revocation/publish-revocation.ts";
import { CHECKPOINT_REFUSED, TASK_QUEUES } from "#workflows/messages.ts";
import { eventually } from "../support/eventually.ts";
import { useWorld } from "../support/world.ts";

const made = useWorld();
const sources = { clock: systemClock, randomBytes };
beforeAll(async () => {
  await made.current.startWorker();
  // Runs of the schedule would interfere.
  const handle = made.current.temporal.schedule.getHandle("signCheckpoint");
  await eventually(
    async () =>
      await handle.pause().then(
        () => true,
        () => undefined,
      ),
    "the schedule",
  );
});

async function operator<T>(work: Parameters<typeof transaction<T>>[1]): Promise<T> {
  const pool = createPool({
    url: made.current.config.databaseUrl,
    role: "signet_operator",
    max: 1,
    log: createLogger({ level: "silent" }),
  });
  try {
    return await transaction(pool, work);
  } finally {
    await pool.end();
  }
}

async function append(): Promise<void> {
  await operator(
    async (db) =>
      await appendEntry(
        db,
        { type: "tenant.created", actor: "operator:root", tenant: null, target: null },
        sources,
      ),
  );
}

async function run(workflowId: string): Promise<unknown> {
  return await made.current.temporal.workflow.execute("signCheckpoint", {
    workflowId,
    taskQueue: TASK_QUEUES.control,
  });
}

async function notes(): Promise<string[]> {
  const { rows } = await made.current.sql.query<{ note: string }>(
    "SELECT note FROM clog_checkpoint ORDER BY seq",
  );
  return rows.map(({ note }) => note);
}

test("a worker creates the schedule, which runs every minute without overlap", async () => {
  const described = await made.current.temporal.schedule.getHandle("signCheckpoint").describe();
  expect(described.action).toMatchObject({ type: "startWorkflow", workflowType: "signCheckpoint" });
  expect(described.spec.intervals).toMatchObject([{ every: 60_000 }]);
  expect(described.policies.overlap).toBe("SKIP");
});

test("a run signs the added entries with the configured key", async () => {
  await append();
  expect(await run("sign/1")).toMatchObject({ signed: true });
  const before = await notes();
  expect(await run("sign/2")).toMatchObject({ signed: false });
  expect(await notes()).toEqual(before);
  const { checkpointName, checkpointKey = Buffer.of() } = made.current.config;
  const key = new CheckpointKey(checkpointName, checkpointKey);
  const keys = [await parseVerifierKey(key.verifierKey, NODE_CRYPTO)];
  const { size } = await openCheckpoint(before.at(-1) ?? "", keys, NODE_CRYPTO);
  expect(size).toBeGreaterThan(0);
});

test("a revocation gets a checkpoint at once, without the schedule", async () => {
  const before = await notes();
  const { logIndex } = await operator(
    async (db) =>
      await publishRevocation(
        db,
        {
          kind: "cert",
          target: randomBytes(32).toString("hex"),
          tenant: null,
          actor: "operator:root",
        },
        sources,
      ),
  );
  const newest = await eventually(async () => {
    const now = await notes();
    return now.length > before.length ? now.at(-1) : undefined;
  }, "a checkpoint after the revocation");
  expect(Number(newest.split("\n")[1])).toBeGreaterThan(logIndex);
});

test("a tampered log fails the run, and the error names the place", async () => {
  const { sql } = made.current;
  await run("sign/before");
  await sql.query("ALTER TABLE clog DISABLE TRIGGER ALL");
  await sql.query("UPDATE clog SET leaf_hash = sha256('x') WHERE idx = 0");
  await append();
  await expect(run("sign/refused")).rejects.toMatchObject({
    cause: { cause: { type: CHECKPOINT_REFUSED, message: expect.stringContaining("the first") as string } },
  });
});

/** The schedule of the signing keys on a real worker: those of security events, which alone it may hold. */
import { beforeAll, expect, test } from "vitest";
import type { SigningKeyChanges } from "#activities/types.ts";
import { TASK_QUEUES } from "#workflows/messages.ts";
import { eventually } from "../support/eventually.ts";
import { useWorld } from "../support/world.ts";

const made = useWorld();
beforeAll(async () => {
  await made.current.startWorker();
  // Runs of the schedule would interfere.
  const handle = made.current.temporal.schedule.getHandle("rotateSigningKeys");
  await eventually(async () => await handle.pause().then(() => true), "the schedule");
});

async function states(): Promise<string[]> {
  const { rows } = await made.current.sql.query<{ state: string }>(
    "SELECT set_state AS state FROM signing_keys ORDER BY set_activated_at",
  );
  return rows.map(({ state }) => state);
}

async function run(workflowId: string): Promise<SigningKeyChanges> {
  return (await made.current.temporal.workflow.execute("rotateSigningKeys", {
    workflowId,
    taskQueue: TASK_QUEUES.control,
  })) as SigningKeyChanges;
}

test("a worker creates the schedule, which runs every ten minutes without overlap", async () => {
  const handle = made.current.temporal.schedule.getHandle("rotateSigningKeys");
  const described = await handle.describe();
  expect(described.action).toMatchObject({ type: "startWorkflow", workflowType: "rotateSigningKeys" });
  expect(described.spec.intervals).toMatchObject([{ every: 600_000 }]);
  expect(described.policies.overlap).toBe("SKIP");
});

test("a run prepares the next key and applies due changes, and no worker makes a key of access tokens", async () => {
  const { sql } = made.current;
  await run("rotate/1");
  const { rows } = await sql.query("SELECT FROM signing_keys WHERE purpose = 'access'");
  expect(rows).toEqual([]);
  expect(await states()).toEqual(["CURRENT"]);
  expect(await run("rotate/2")).toEqual({ created: [], activated: [], retired: [], gone: [] });

  await sql.query("UPDATE signing_keys SET set_activated_at = set_activated_at - interval '29 days 1 hour'");
  expect((await run("rotate/3")).created).toHaveLength(1);
  expect(await states()).toEqual(["CURRENT", "NEXT"]);

  await sql.query(
    "UPDATE signing_keys SET set_activated_at = set_activated_at - interval '23 hours 30 minutes'",
  );
  const { activated, retired } = await run("rotate/4");
  expect([activated.length, retired.length]).toEqual([1, 1]);
  await sql.query(
    "UPDATE signing_keys SET set_retired_at = set_retired_at - interval '2 days' WHERE set_state = 'PREVIOUS'",
  );
  expect((await run("rotate/5")).gone).toEqual(retired);
  expect(await states()).toEqual(["GONE", "CURRENT"]);
});

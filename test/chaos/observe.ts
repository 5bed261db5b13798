/** Reads the state of a run from the database, Temporal and the worker's metrics. */
import { setTimeout as delay } from "node:timers/promises";
import { Client, Connection } from "@temporalio/client";
import { addsUp, balanceHour } from "#database/repositories/webhooks/delivery-balance.ts";
import { WORKFLOW_TYPES } from "#workflows/messages.ts";
import { withClient } from "../bench/environment/postgres.ts";
import type { World } from "../bench/environment/world.ts";

const SAMPLE_MS = 250;

async function count(world: World, sql: string, values: readonly unknown[] = []): Promise<number> {
  return await withClient(world.adminDatabaseUrl, async (client) => {
    const { rows } = await client.query<{ n: number }>(sql, [...values]);
    return rows[0]?.n ?? Number.NaN;
  });
}

/** Returns the number of attempts with a recorded outcome. */
export async function recordedAttempts(world: World): Promise<number> {
  return await count(
    world,
    `SELECT (SELECT count(*) FROM attempts WHERE duration_ms IS NOT NULL)
      + (SELECT count(*) FROM deliveries WHERE first_duration_ms IS NOT NULL) AS n`,
  );
}

/** Returns the number of attempts at these URLs that timed out after 10 s. */
export async function timedOutAttempts(world: World, urls: readonly string[]): Promise<number> {
  return await count(
    world,
    `SELECT count(*)::int AS n FROM attempts a JOIN deliveries d ON d.day = a.day AND d.id = a.delivery_id
      JOIN endpoints e ON e.id = d.endpoint_id WHERE a.error = 'timeout' AND e.url = ANY ($1)`,
    [urls],
  );
}

/** Returns the number of deliveries that have not arrived. */
export async function undelivered(world: World): Promise<number> {
  return await count(world, "SELECT count(*)::int AS n FROM deliveries WHERE state <> 'DELIVERED'");
}

/**
 * Returns the number of tenants and hours whose counts disagree with the stored deliveries, plus the difference between
 * counted and stored attempts.
 */
export async function miscounted(world: World): Promise<number> {
  return await withClient(world.adminDatabaseUrl, async (client) => {
    await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
    const { rows: hours } = await client.query<{ hour: Date }>(
      "SELECT DISTINCT hour FROM delivery_counts UNION SELECT hour FROM delivery_changes WHERE hour IS NOT NULL",
    );
    let wrong = 0;
    for (const { hour } of hours) {
      wrong += (await balanceHour(client, hour, null)).filter((balance) => !addsUp(balance)).length;
    }
    const { rows } = await client.query<{ n: number }>(
      `SELECT abs((SELECT coalesce(sum(attempts), 0) FROM delivery_counts)
          + (SELECT coalesce(sum(attempts), 0) FROM delivery_changes)
          - (SELECT count(*) FROM attempts WHERE duration_ms IS NOT NULL)
          - (SELECT count(*) FROM deliveries WHERE first_duration_ms IS NOT NULL))::int AS n`,
    );
    return wrong + (rows[0]?.n ?? Number.NaN);
  });
}

async function countWorkflows(world: World, query: string): Promise<number> {
  const connection = await Connection.connect({ address: world.temporalAddress });
  try {
    const client = new Client({ connection, namespace: world.namespace });
    return (await client.workflow.count(query)).count;
  } finally {
    await connection.close();
  }
}

/** Returns the number of open delivery workflows. */
export async function openCarriers(world: World): Promise<number> {
  return await countWorkflows(world, `WorkflowType = "${WORKFLOW_TYPES.deliver}" AND CloseTime IS NULL`);
}

/** Returns the number of open workflows of every type. */
export async function openWorkflows(world: World): Promise<number> {
  return await countWorkflows(world, "CloseTime IS NULL");
}

/** Returns a gauge without labels, as the worker reports it; NaN if it does not. */
export async function workerGauge(world: World, name: string): Promise<number> {
  try {
    const url = `${world.signet.workerMetricsUrl}/metrics`;
    const response = await fetch(url, { signal: AbortSignal.timeout(SAMPLE_MS) });
    return Number(new RegExp(`^${name} (.+)$`, "m").exec(await response.text())?.[1] ?? Number.NaN);
  } catch {
    return Number.NaN;
  }
}

/** Returns the age of the oldest delivery without an attempt, in seconds. */
export async function oldestUnattempted(world: World): Promise<number> {
  return await workerGauge(world, "signet_oldest_unattempted_seconds");
}

/** Samples {@link oldestUnattempted} until `end` is called, which returns the maximum. */
export function watchOldest(world: World): { end(): Promise<number> } {
  const ended = new AbortController();
  let greatest = 0;
  const watching = (async () => {
    while (!ended.signal.aborted) {
      const seconds = await oldestUnattempted(world);
      greatest = Number.isNaN(seconds) ? greatest : Math.max(greatest, seconds);
      await delay(SAMPLE_MS);
    }
  })();
  return {
    end: async () => {
      ended.abort();
      await watching;
      return greatest;
    },
  };
}

/** Polls until `look` returns 0, or until the timeout. Returns the last value. */
export async function untilNone(look: () => Promise<number>, timeoutMs: number): Promise<number> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const left = await look();
    if (left === 0 || performance.now() > deadline) {
      return left;
    }
    await delay(SAMPLE_MS);
  }
}

/** Any changes to the same deliveries at once: every accepted request starts one cycle, and no attempt is lost. */
import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createPool, type Pool } from "#database/pool.ts";
import { REPLAYABLE_STATES } from "#database/repositories/webhooks/replay-items.ts";
import { machineTimers, systemClock } from "#runtime/machine-timers.ts";
import { createLogger } from "#observability/logger.ts";
import { Releaser } from "#webhooks/engine/release.ts";
import { replayPage, type ReplayRunnerOptions } from "#webhooks/replay/replay-runner.ts";
import { cases } from "../support/properties.ts";
import { seedDeadLetters } from "../support/seeded-letters.ts";
import { TEST_CALLER, useWorld } from "../support/world.ts";

const made = useWorld();
const log = createLogger({ level: "silent" });
let pool: Pool;
let runner: ReplayRunnerOptions;

beforeAll(() => {
  const { config, temporal } = made.current;
  pool = createPool({ url: config.databaseUrl, role: "signet_worker", max: 4, log });
  const releaser = new Releaser(temporal, machineTimers, log);
  const onQueued = (): void => undefined;
  runner = { pool, releaser, clock: systemClock, randomBytes, log, onQueued };
});
afterAll(async () => {
  await pool.end();
});

const DELIVERIES = 3;
const which = fc.nat({ max: DELIVERIES - 1 });
const change = fc.oneof(
  fc.record({ kind: fc.constantFrom("resend", "replay", "cancel", "retry"), which }),
  fc.record({ kind: fc.constant("job"), states: fc.subarray([...REPLAYABLE_STATES], { minLength: 1 }) }),
);

/** Puts seeded dead letters into their first states; a delivered one has its attempt in its own row. */
async function seed(states: readonly string[]): Promise<{ tenant: string; ids: string[] }> {
  const world = made.current;
  const tenant = await world.createTenant();
  const { id: endpointId } = await world.createEndpoint(tenant, "http://127.0.0.1:9/never");
  const ids = await seedDeadLetters(world.sql, { tenantId: tenant, endpointId, count: DELIVERIES });
  await world.sql.query(
    `UPDATE deliveries d SET state = s.state, expires_at = CASE WHEN s.state = 'DEAD_LETTERED' THEN expires_at END,
        reason = CASE WHEN s.state = 'DEAD_LETTERED' THEN reason END,
        next_attempt_at = CASE WHEN s.state = 'RETRYING' THEN now() + interval '1 hour' END,
        attempt_count = CASE s.state WHEN 'DELIVERED' THEN 1 ELSE 3 END, last_status = 200,
        delivered_at = CASE WHEN s.state = 'DELIVERED' THEN now() END,
        first_duration_ms = CASE WHEN s.state = 'DELIVERED' THEN 7 END
      FROM unnest($1::text[], $2::text[]) AS s(id, state) WHERE d.id = s.id`,
    [ids, states],
  );
  return { tenant, ids };
}

interface Stored {
  readonly id: string;
  readonly cycle: number;
  readonly epoch: number;
  readonly marked: number[];
}

async function stored(ids: readonly string[]): Promise<Stored[]> {
  const { rows } = await made.current.sql.query<Stored>(
    `SELECT id, cycle, epoch, array(SELECT c FROM generate_series(1, 50) c WHERE resent_cycles @> c) AS marked
      FROM deliveries WHERE id = ANY ($1) ORDER BY id`,
    [ids],
  );
  return rows;
}

test("each accepted resend or replay is one cycle of its own, and the first attempt stays in the log", async () => {
  const world = made.current;
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.constantFrom(...REPLAYABLE_STATES), { minLength: DELIVERIES, maxLength: DELIVERIES }),
      fc.array(change, { minLength: 2, maxLength: 8 }),
      async (states, changes) => {
        const { tenant, ids } = await seed(states);
        const started = new Map(ids.map((id) => [id, 0]));
        const resent = new Map(ids.map((id) => [id, 0]));
        const count = (counts: Map<string, number>, id: string): void => {
          counts.set(id, (counts.get(id) ?? 0) + 1);
        };
        const apply = async (one: (typeof changes)[number]): Promise<void> => {
          if ("states" in one) {
            const selection = { states: one.states, filter: {} };
            const job = await world.makeReplay(tenant, { selection, ratePerSecond: 500 });
            await replayPage(runner, { jobId: job.id, after: 0, size: 500 });
            const page = { after: 0, limit: 100, outcomes: undefined };
            const { rows: items } = await world.replays.items(tenant, job.id, page);
            for (const { delivery_id: deliveryId, result } of items) {
              if (result === "replayed") {
                count(started, deliveryId ?? "");
              }
            }
            return;
          }
          const id = ids[one.which] ?? "";
          switch (one.kind) {
            case "resend":
              await world.deliveries.resend(tenant, id, TEST_CALLER);
              count(started, id);
              count(resent, id);
              return;
            case "replay":
              await world.deliveries.replay(tenant, id, TEST_CALLER);
              count(started, id);
              return;
            case "cancel":
              await world.deliveries.cancel(tenant, id);
              return;
            case "retry":
              await world.deliveries.retry(tenant, id);
          }
        };
        const done = await Promise.allSettled(changes.map(apply));
        const refusals = done.flatMap((result) =>
          result.status === "rejected" ? [String((result.reason as { code?: string }).code)] : [],
        );
        expect(refusals.filter((code) => code !== "INVALID_STATE" && code !== "DLQ_ENTRY_EXPIRED")).toEqual(
          [],
        );
        const found = await stored(ids);
        expect(found.map(({ id, cycle }) => [id, cycle])).toEqual(
          ids.map((id) => [id, 1 + (started.get(id) ?? 0)]),
        );
        for (const { id, cycle, epoch, marked } of found) {
          expect(epoch).toBe(cycle);
          expect(marked.length).toBeGreaterThanOrEqual(resent.get(id) ?? 0);
          expect(marked.every((mark) => mark > 1 && mark <= cycle)).toBe(true);
        }
        for (const [index, id] of ids.entries()) {
          const log = await world.attempts(tenant, id);
          const kept = log.map((attempt) => [
            attempt.id,
            attempt.cycle,
            attempt.attempt,
            attempt.duration_ms,
          ]);
          expect(kept).toEqual(states[index] === "DELIVERED" ? [[`att_${id.slice(4)}`, 1, 1, 7]] : []);
        }
      },
    ),
    cases(30),
  );
});

/** The statement that assigns delivery times, compared with its model and run by two workers at once. */
import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { createPool, type Pool } from "#database/pool.ts";
import { type TurnRequest, takeTurns } from "#database/repositories/webhooks/rate-limit-turns.ts";
import { createLogger } from "#observability/logger.ts";
import { createLineModel } from "#test/support/line-model.ts";
import { useWorld } from "#test/support/world.ts";

const NOW = 1_700_000_000_000;
const made = useWorld();
let pool: Pool;

beforeAll(() => {
  const { config } = made.current;
  const log = createLogger({ level: "error" });
  pool = createPool({ url: config.databaseUrl, role: "signet_worker", max: 8, log });
  return async () => await pool.end();
});

async function endpoints(count: number): Promise<string[]> {
  const world = made.current;
  const tenant = await world.createTenant();
  const created = Array.from({ length: count }, async () => {
    const { id } = await world.createEndpoint(tenant, `http://127.0.0.1/${randomBytes(4).toString("hex")}`);
    return id;
  });
  return await Promise.all(created);
}

describe("the statement that assigns delivery times", () => {
  test("agrees with its model for late workers and changing limits", async () => {
    const step = fc.record({
      afterMs: fc.integer({ min: 0, max: 4_000 }),
      asks: fc.uniqueArray(
        fc.record({
          endpoint: fc.integer({ min: 0, max: 2 }),
          rateLimit: fc.constantFrom(1, 7, 20, 1_000),
          fresh: fc.integer({ min: 0, max: 64 }),
          late: fc.integer({ min: 0, max: 64 }),
        }),
        { selector: ({ endpoint }) => endpoint, minLength: 1, maxLength: 3 },
      ),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 8 }), async (steps) => {
        const ids = await endpoints(3);
        const model = createLineModel();
        let nowMs = NOW;
        for (const { afterMs, asks } of steps) {
          nowMs += afterMs;
          const requests = asks.map(({ endpoint, ...ask }): TurnRequest => ({
            ...ask,
            endpointId: ids[endpoint] ?? "",
          }));
          const [given, expected] = [await takeTurns(pool, requests, nowMs), model(requests, nowMs)];
          for (const { endpointId } of requests) {
            const [turn, modelled] = [given.get(endpointId), expected.get(endpointId)];
            expect(turn?.freshFromMs).toBeCloseTo(modelled?.freshFromMs ?? 0, 1);
            expect(turn?.lateFromMs).toBeCloseTo(modelled?.lateFromMs ?? 0, 1);
          }
        }
      }),
      { numRuns: 15 },
    );
  });

  test("assigns no time twice to concurrent workers", async () => {
    const ids = await endpoints(2);
    const rateLimit = 100;
    const asks = Array.from({ length: 40 }, async (_, index) => {
      // In both orders: the statements must not deadlock.
      const order = index % 2 === 0 ? ids : ids.toReversed();
      return await takeTurns(
        pool,
        order.map((endpointId) => ({ endpointId, rateLimit, fresh: 5, late: 0 })),
        NOW,
      );
    });
    const turns = await Promise.all(asks);
    for (const id of ids) {
      const starts = turns.map((turn) => Math.round((turn.get(id)?.freshFromMs ?? 0) - NOW));
      expect(starts.toSorted((a, b) => a - b)).toEqual(starts.map((_, index) => index * 50));
    }
  });

  test("keeps no rows of a deleted endpoint", async () => {
    const [id = ""] = await endpoints(1);
    await takeTurns(pool, [{ endpointId: id, rateLimit: 1, fresh: 1, late: 0 }], NOW);
    const { sql } = made.current;
    await sql.query("DELETE FROM endpoint_secrets WHERE endpoint_id = $1", [id]);
    await sql.query("DELETE FROM endpoints WHERE id = $1", [id]);
    expect((await sql.query("SELECT FROM endpoint_lines WHERE endpoint_id = $1", [id])).rowCount).toBe(0);
  });
});

/** A process uses the database's time, whatever happens to the machine's clock. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import {
  databaseClockMs,
  CLOCK_SKEW_MAX_MS,
  DatabaseClock,
  openDatabaseClock,
} from "#database/database-clock.ts";
import type { Pool, Queryable } from "#database/pool.ts";
import { createPool } from "#database/pool.ts";
import { createLogger } from "#observability/logger.ts";
import { withoutPause } from "#test/support/pauses.ts";
import { createTestDatabase } from "#test/support/services.ts";
import { useStarted } from "#test/support/started.ts";

const DAY_MS = 86_400_000;
/** Bound of the clock's error: the time that the first answers took. */
const ERROR_MS = 1_000;

const made = useStarted("a pool", async () => {
  const database = await createTestDatabase();
  const pool: Pool = createPool({
    url: database.url,
    role: "signet_worker",
    max: 1,
    log: createLogger({ level: "silent" }),
  });
  return {
    pool,
    close: async () => {
      await pool.end();
      await database.drop();
    },
  };
});

test("a jump of the machine's clock changes no time and is rejected until the clock is right again", async () => {
  const { pool } = made.current;
  await withoutPause(async () => {
    let wallOffsetMs = 0;
    const clock = await openDatabaseClock(pool, {
      wall: () => Date.now() + wallOffsetMs,
      monotonic: () => performance.now(),
    });

    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: -400 * DAY_MS, max: 400 * DAY_MS }),
        fc.boolean(),
        async (jump, ask) => {
          wallOffsetMs = jump;
          if (ask) {
            await clock.measure();
          }
          const before = Math.floor(await databaseClockMs(pool));
          const now = clock.now();
          const after = await databaseClockMs(pool);
          expect(now).toBeGreaterThan(before - ERROR_MS);
          expect(now).toBeLessThan(after + ERROR_MS);
          expect(clock.skewMs).toBeGreaterThan(jump - ERROR_MS);
          expect(clock.skewMs).toBeLessThan(jump + ERROR_MS);
          const borderline = Math.abs(Math.abs(jump) - CLOCK_SKEW_MAX_MS) < ERROR_MS;
          expect(borderline || clock.isRight === Math.abs(jump) < CLOCK_SKEW_MAX_MS).toBe(true);
        },
      ),
    );

    wallOffsetMs = -DAY_MS;
    expect(() => clock.requireRight()).toThrow(expect.objectContaining({ code: "CLOCK_SKEWED" }));
    wallOffsetMs = 0;
    expect(() => clock.requireRight()).not.toThrow();
  });
});

test("late answers widen the bounds no more than necessary", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(
        fc.record({
          there: fc.nat(5_000),
          back: fc.nat(5_000),
          databaseJump: fc.constantFrom(0, 0, -60_000, 90_000),
        }),
        {
          minLength: 1,
        },
      ),
      async (answers) => {
        let monotonic = 1_000;
        let databaseAhead = 1_700_000_000_000;
        const slow = { there: 0, back: 0 };
        const db = {
          query: async () => {
            monotonic += slow.there;
            const now = monotonic + databaseAhead;
            monotonic += slow.back;
            return { rows: [{ now }] };
          },
        } as unknown as Queryable;
        const clock = new DatabaseClock({ wall: () => 0, monotonic: () => monotonic }, db);
        for (const { there, back, databaseJump } of answers) {
          databaseAhead += databaseJump;
          Object.assign(slow, { there, back });
          await clock.measure();
          expect(Math.abs(clock.now() - (monotonic + databaseAhead))).toBeLessThanOrEqual(there + back + 1);
        }
      },
    ),
  );
});

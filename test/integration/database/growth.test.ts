/**
 * What statements cost as a tenant's work grows tenfold, in rows and pages: the short form of `npm run bench -- --only
 * growth` (docs/benchmarks.md), without a clock.
 */
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { EXPONENT_MAX, exponentOf, type Point } from "#test/support/growth.ts";
import { allowMinutes } from "#test/support/limits.ts";
import { fillEndpoints, FILLED_TYPE, fillTenants } from "#test/support/many-rows.ts";
import { createTestDatabase, type TestDatabase } from "#test/support/services.ts";
import { StatementCost } from "#test/support/statement-cost.ts";
import type { Axis, Run, Statement } from "#test/support/growing-statements.ts";
import { AXES } from "#test/support/statement-growth.ts";

allowMinutes(5);

const TIMES = 10;
/** Rows and pages that a statement may cost at any size: an autovacuum beside it changes a few. */
const FEW = 50;

interface Place extends Omit<Run, "db"> {
  readonly database: TestDatabase;
}

async function fill({ fill: fillAxis }: Axis, size: number): Promise<Place> {
  const database = await createTestDatabase();
  const owner = new Client({ connectionString: database.adminUrl });
  await owner.connect();
  const [tenantId = ""] = await fillTenants(owner, 1);
  const [endpointId = ""] = await fillEndpoints(owner, { tenantId, count: 1, type: FILLED_TYPE });
  await fillAxis({ owner, tenantId, endpointId, size });
  // As after autovacuum.
  await owner.query("VACUUM (ANALYZE)");
  await owner.end();
  const cost = await StatementCost.of(database);
  return { database, cost, tenantId, endpointId, size, now: new Date() };
}

async function costOf({ role, commits, before, run }: Statement, place: Place): Promise<number> {
  const { cost, tenantId } = place;
  const own = role === "signet_api" || role === "signet_ingest" ? tenantId : undefined;
  const measure = async (db: Run["db"]): Promise<number> => {
    const made = await before?.({ ...place, db });
    return await cost.measure(db, async () => await run({ ...place, db }, made));
  };
  return commits === true ? await measure(cost.pool(role)) : await cost.withoutTrace(role, own, measure);
}

describe.each(Object.entries(AXES))("%s", (_axis, how) => {
  const places: Place[] = [];
  beforeAll(async () => {
    for (const size of [how.size, how.size * TIMES]) {
      places.push(await fill(how, size));
    }
  });
  afterAll(async () => {
    for (const { cost, database } of places) {
      await cost.end();
      await database.drop();
    }
  });

  const verify = async (statement: Statement): Promise<void> => {
    const points: Point[] = [];
    for (const place of places) {
      points.push([place.size, Math.max(FEW, await costOf(statement, place))]);
    }
    expect(exponentOf(points), JSON.stringify(points)).toBeLessThanOrEqual(EXPONENT_MAX[statement.growth]);
  };
  // In their order: those that commit come last.
  for (const [name, statement] of Object.entries(how.statements)) {
    test(`${name}: its growth is ${statement.growth}`, async () => await verify(statement));
  }
});

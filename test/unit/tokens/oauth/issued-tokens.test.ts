/** The records of issued tokens match what was issued, once each. */
import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { createLogger } from "#observability/logger.ts";
import { IssuedTokens, type IssuedCount } from "#tokens/oauth/issued-tokens.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";

const time = new SimulatedTime();

const log = createLogger({ level: "silent" });
const digest = (...ids: readonly string[]): string =>
  createHash("sha256")
    .update(ids.map((id) => `${id}\n`).join(""))
    .digest("hex");

/** A log that can fail. */
function createLog() {
  const written: IssuedCount[] = [];
  const batches: number[] = [];
  const state = { away: false };
  let nowMs = 1_000;
  const issued = new IssuedTokens({
    timers: time,
    append: async (counts) => {
      await Promise.resolve();
      if (state.away) {
        throw new Error("away");
      }
      batches.push(counts.length);
      written.push(...counts);
    },
    clock: { now: () => nowMs++ },
    log,
  });
  return { written, batches, state, issued };
}

test("each tenant's tokens are counted, with a digest of their ids in order", async () => {
  const { written, issued } = createLog();
  issued.note("a", "1");
  issued.note("b", "2");
  issued.note("a", "3");
  await issued.close();
  expect(written).toEqual([
    { tenantId: "a", count: 2, digest: digest("1", "3"), firstMs: 1_000, lastMs: 1_002 },
    { tenantId: "b", count: 1, digest: digest("2"), firstMs: 1_001, lastMs: 1_001 },
  ]);
});

test("a period does not include the previous one, and without tokens there is no record", async () => {
  const { written, issued } = createLog();
  issued.note("a", "1");
  await issued.write();
  await issued.write();
  issued.note("a", "2");
  await issued.close();
  expect(written.map(({ digest: said }) => said)).toEqual([digest("1"), digest("2")]);
});

test("a failed write is repeated later, and recorded only once", async () => {
  const { written, state, issued } = createLog();
  state.away = true;
  issued.note("a", "1");
  await issued.write();
  expect(written).toEqual([]);
  issued.note("a", "2");
  state.away = false;
  await Promise.all([issued.write(), issued.write()]);
  await issued.close();
  expect(written.map(({ count, digest: said }) => [count, said])).toEqual([
    [1, digest("1")],
    [1, digest("2")],
  ]);
});

test("many tenants do not block the log: a transaction has a hundred of them", async () => {
  const { batches, issued } = createLog();
  for (let tenant = 0; tenant < 250; tenant += 1) {
    issued.note(String(tenant), "1");
  }
  await issued.close();
  expect(batches).toEqual([100, 100, 50]);
});

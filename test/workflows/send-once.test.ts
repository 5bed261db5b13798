import { afterAll, describe, expect, test } from "vitest";
import { createPool } from "#database/pool.ts";
import type { Delivery } from "#database/repositories/webhooks/deliveries.ts";
import { unguardedClock } from "#domain/clock.ts";
import type { AttemptRun } from "#webhooks/engine/attempt-service.ts";
import { Engine } from "#processes/engine.ts";
import { idDay } from "#domain/ids.ts";
import { drawOffsets } from "#domain/retry-schedule.ts";
import { createLogger } from "#observability/logger.ts";
import { startDatabase, stopDatabase } from "../support/database-outage.ts";
import { eventually } from "../support/eventually.ts";
import { type Behaviour, type Receiver, startReceiver } from "../support/receiver-server.ts";
import { testKeyring } from "../support/keyring.ts";
import { useWorld } from "../support/world.ts";

// These tests repeat one attempt of one member, so list sizes do not matter.
// No worker runs: the tests call the activities' code themselves, as two processes if needed.
const made = useWorld();
const OFFSETS = drawOffsets(259_200_000, () => 0.5);
const FAILURE = { kind: "answer", status: 500 } as const;

const processes: (() => Promise<void>)[] = [];

/** These tests send webhooks only. */
function noSetKey(): never {
  throw new Error("no key");
}

/** Creates the sender of a worker process; its clock may be ahead. */
function startSender(aheadMs = 0): Engine {
  const { config } = made.current;
  const log = createLogger({ level: config.logLevel });
  const pool = createPool({ url: config.databaseUrl, role: "signet_worker", max: 4, log });
  const keyring = testKeyring(config.kek ?? Buffer.alloc(0));
  const clock = unguardedClock({ now: () => Date.now() + aheadMs });
  const engine = new Engine(
    { worker: "wrk", config, pool, keyring, setKeys: noSetKey, clock, log },
    () => undefined,
  );
  processes.push(async () => {
    await engine.drain();
    await pool.end();
  });
  return engine;
}

afterAll(async () => {
  await Promise.all(processes.map(async (end) => await end()));
});

interface Attempted {
  readonly receiver: Receiver;
  readonly tenant: string;
  readonly endpoint: string;
  readonly id: string;
  readonly find: () => Promise<Delivery>;
  /** Runs the first attempt, as `attemptFirst` (with a short timeout) or as `settle`. */
  readonly run: (engine: Engine, firstPass?: boolean, epoch?: number) => Promise<AttemptRun>;
}

/** Publishes a delivery whose carrier has been started. */
async function publishTo(...script: readonly Behaviour[]): Promise<Attempted> {
  const world = made.current;
  const receiver = await startReceiver({ script });
  const tenant = await world.createTenant();
  const { id: endpoint } = await world.createEndpoint(tenant, receiver.url);
  const { deliveries } = await world.publish(tenant);
  const id = deliveries[0]?.id ?? "";
  await world.sql.query("UPDATE deliveries SET carrier = id, claimed_at = now() WHERE id = $1", [id]);
  return {
    receiver,
    tenant,
    endpoint,
    id,
    find: async () => await world.deliveries.find(tenant, id),
    run: async (engine, firstPass = false, epoch = 1) =>
      await engine.attempts.run({
        carrier: id,
        members: [{ id, epoch }],
        plan: {
          attempt: 1,
          offsetsMs: OFFSETS,
          anchorMs: null,
          dueMs: null,
          deadLetterMs: 600_000,
          leaves: () => false,
        },
        firstPass,
      }),
  };
}

const kinds = (run: AttemptRun): string[] => run.outcomes.map(({ kind }) => kind);

describe.concurrent("one attempt that is run more than once", () => {
  test("makes one request if the runs are concurrent in one process", async () => {
    const joined = Promise.withResolvers<undefined>();
    const { receiver, run } = await publishTo({ kind: "answer", after: joined.promise });
    const engine = startSender();
    const runs = [run(engine), run(engine), run(engine), run(engine)];
    await receiver.waitFor(1);
    runs.push(run(engine));
    joined.resolve(undefined);
    expect((await Promise.all(runs)).map(kinds)).toEqual(runs.map(() => ["delivered"]));
    expect(receiver.requests).toHaveLength(1);
    await receiver.close();
  });

  test("makes one request, and takes one lease, when that takes longer than the first second", async () => {
    const left = Promise.withResolvers<undefined>();
    const { receiver, run } = await publishTo({ kind: "answer", after: left.promise });
    const engine = startSender();
    const [first, rest] = [
      [run(engine, true), run(engine, true)],
      [run(engine), run(engine)],
    ];
    expect((await Promise.all(first)).map(kinds)).toEqual([["unsettled"], ["unsettled"]]);
    left.resolve(undefined);
    expect((await Promise.all(rest)).map(kinds)).toEqual([["delivered"], ["delivered"]]);
    expect(receiver.requests).toHaveLength(1);
    await receiver.close();
  });

  test("makes no request once there is an outcome, and returns the same outcome", async () => {
    const { receiver, run, find } = await publishTo(FAILURE);
    const [before, after] = [startSender(), startSender()];
    const first = await run(before);
    const again = await run(after);
    expect(kinds(first)).toEqual(["failed"]);
    // The row does not record when the answer came, and whether it requested the wait; the second run assumes it did.
    expect(again.outcomes).toEqual(
      first.outcomes.map((outcome) => ({ ...outcome, asked: true, answeredMs: undefined })),
    );
    expect((await find()).next_attempt_at?.getTime()).toBe(
      first.outcomes.flatMap((outcome) => (outcome.kind === "failed" ? [outcome.dueMs] : []))[0],
    );
    expect(receiver.requests).toHaveLength(1);
    await receiver.close();
  });

  test("waits for another process's request while its lease lasts, and returns its outcome", async () => {
    const { receiver, run, tenant, id } = await publishTo({ kind: "answer", delayMs: 2_500 });
    const [one, other] = [startSender(), startSender()];
    expect(kinds(await run(one, true))).toEqual(["unsettled"]);
    await receiver.waitFor(1);
    expect(kinds(await run(other))).toEqual(["delivered"]);
    expect(receiver.requests).toHaveLength(1);
    expect(await made.current.attempts(tenant, id)).toMatchObject([{ attempt: 1, status: 200 }]);
    await receiver.close();
  });

  test("repeats a dead process's request, but not before its lease has ended", async () => {
    const { receiver, run, tenant, id } = await publishTo({ kind: "answer" });
    const leaseUntil = Date.now() + 2_000;
    await made.current.sql.query(
      `INSERT INTO attempts (day, delivery_id, cycle, attempt, id, tenant_id, started_at, lease_until)
        VALUES ($1, $2, 1, 1, 'att_of_a_process_that_died', $3, now(), $4)`,
      [idDay(id), id, tenant, new Date(leaseUntil)],
    );
    expect(kinds(await run(startSender()))).toEqual(["delivered"]);
    expect(receiver.requests).toHaveLength(1);
    expect(receiver.requests[0]?.receivedAt).toBeGreaterThanOrEqual(leaseUntil);
    expect(await made.current.attempts(tenant, id)).toMatchObject([{ attempt: 1, status: 200 }]);
    await receiver.close();
  });

  test("does not wait for a lease from a wrong clock, which ends later than possible", async () => {
    const { receiver, run, tenant, id } = await publishTo({ kind: "answer" });
    const leaseUntil = Date.now() + 600_000;
    await made.current.sql.query(
      `INSERT INTO attempts (day, delivery_id, cycle, attempt, id, tenant_id, started_at, lease_until)
        VALUES ($1, $2, 1, 1, 'att_of_a_wrong_clock', $3, $4, $4)`,
      [idDay(id), id, tenant, new Date(leaseUntil)],
    );
    expect(kinds(await run(startSender()))).toEqual(["delivered"]);
    expect(receiver.requests[0]?.receivedAt).toBeLessThan(leaseUntil);
    await receiver.close();
  });

  test("that two processes made has one outcome, the first recorded, which both use", async () => {
    const [second, recorded] = [Promise.withResolvers<undefined>(), Promise.withResolvers<undefined>()];
    const { receiver, run, find } = await publishTo(
      { ...FAILURE, after: second.promise },
      { kind: "answer", after: recorded.promise },
    );
    // By the second process's clock, the first one's lease has ended.
    const [one, other] = [startSender(), startSender(60_000)];
    expect(kinds(await run(one, true))).toEqual(["unsettled"]);
    // Without its lease, which the first request has, the second process would send the only one.
    await receiver.waitFor(1);
    const taken = run(other);
    await receiver.waitFor(2);
    second.resolve(undefined);
    expect(kinds(await run(one))).toEqual(["failed"]);
    recorded.resolve(undefined);
    expect(kinds(await taken)).toEqual(["failed"]);
    expect(await find()).toMatchObject({ state: "RETRYING", attempt_count: 1, last_status: 500 });
    await receiver.close();
  });
});

describe.concurrent("the fence", () => {
  test("prevents a carrier from sending under another epoch", async () => {
    const { receiver, run } = await publishTo({ kind: "answer" });
    expect(kinds(await run(startSender(), false, 2))).toEqual(["moved"]);
    expect(receiver.requests).toHaveLength(0);
    await receiver.close();
  });

  test.each(["CANCELLED", "DELIVERED", "EXPIRED"])(
    "prevents sending a delivery that is %s",
    async (state) => {
      const { receiver, run, id } = await publishTo({ kind: "answer" });
      await made.current.sql.query("UPDATE deliveries SET state = $2 WHERE id = $1", [id, state]);
      expect(kinds(await run(startSender()))).toEqual(["moved"]);
      expect(receiver.requests).toHaveLength(0);
      await receiver.close();
    },
  );

  test("keeps a cancellation that arrived while the request was in flight", async () => {
    const cancellation = Promise.withResolvers<undefined>();
    const { receiver, run, find, id, tenant } = await publishTo({
      kind: "answer",
      status: 500,
      after: cancellation.promise,
    });
    const running = run(startSender(), true);
    await receiver.waitFor(1);
    await made.current.sql.query("UPDATE deliveries SET state = 'CANCELLED' WHERE id = $1", [id]);
    cancellation.resolve(undefined);
    await running;
    // On a slow machine the run ends before the outcome is recorded.
    await eventually(
      async () =>
        expect(await made.current.attempts(tenant, id)).toMatchObject([{ attempt: 1, status: 500 }]),
      "the record of the outcome",
    );
    expect(await find()).toMatchObject({ state: "CANCELLED", next_attempt_at: null });
    await receiver.close();
  });
});

describe("an unavailable database", () => {
  test("delays the record of an outcome without a second request", async () => {
    const outage = Promise.withResolvers<undefined>();
    const { receiver, run, find, tenant, id } = await publishTo({ kind: "answer", after: outage.promise });
    const running = run(startSender(), true);
    await receiver.waitFor(1);
    await stopDatabase(made.current);
    outage.resolve(undefined);
    // The request ends but its outcome cannot be written; the first caller times out.
    await running.catch((error: unknown) => error);
    await startDatabase(made.current);
    await eventually(async () => (await find()).state === "DELIVERED", "the record of the outcome");
    expect(receiver.requests).toHaveLength(1);
    expect(await made.current.attempts(tenant, id)).toMatchObject([{ attempt: 1, status: 200 }]);
    await receiver.close();
  });

  test("stops an attempt before anything is sent", async () => {
    const { receiver, run, find } = await publishTo({ kind: "answer" });
    await stopDatabase(made.current);
    await expect(run(startSender())).rejects.toThrow(/not currently accepting connections|terminat/);
    await startDatabase(made.current);
    expect(receiver.requests).toHaveLength(0);
    expect(await find()).toMatchObject({ state: "QUEUED", attempt_count: 0 });
    await receiver.close();
  });
});

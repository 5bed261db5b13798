import { WorkflowNotFoundError } from "@temporalio/client";
import { beforeAll, describe, expect, test } from "vitest";
import type { Delivery } from "#database/repositories/webhooks/deliveries.ts";
import { eventually } from "../support/eventually.ts";
import { countEvents, fetchRuns } from "../support/histories.ts";
import { allowMinutes } from "../support/limits.ts";
import { withoutPause } from "../support/pauses.ts";
import { type Behaviour, type Receiver, startReceiver } from "../support/receiver-server.ts";
import { LIST_SIZES, type ListSize, useWorld, type World } from "../support/world.ts";

allowMinutes(4);

interface Published {
  readonly world: World;
  readonly receiver: Receiver;
  readonly tenant: string;
  readonly id: string;
  readonly until: (wanted: (delivery: Delivery) => boolean) => Promise<Delivery>;
  /** Returns the workflow that carries it now; a delivery leaves its list when it fails. */
  readonly carrier: () => Promise<string>;
}

type Publisher = (...script: readonly Behaviour[]) => Promise<Published>;

/** Starts a worker with that size of lists. Returns a function that publishes an event to a scripted receiver. */
function usePublisher(listMax: ListSize): Publisher {
  // The real schedule: the second attempt is due 6.1 to 6.9 seconds after the first, the third after 14.
  const made = useWorld({ retryWindowMs: 259_200_000, listMax });

  beforeAll(async () => {
    await made.current.startWorker();
  });

  return async (...script) => {
    const world = made.current;
    const receiver = await startReceiver({ script });
    const tenant = await world.createTenant();
    await world.createEndpoint(tenant, receiver.url);
    const { deliveries } = await world.publish(tenant);
    const id = deliveries[0]?.id ?? "";
    const until: Published["until"] = async (wanted) => await world.untilDelivery(tenant, id, wanted);
    const carrier: Published["carrier"] = async () => {
      const current = (await until((delivery) => delivery.workflow_id !== null)).workflow_id ?? "";
      // A delivery is claimed before its workflow starts.
      await eventually(
        async () => await world.temporal.workflow.getHandle(current).describe(),
        "the carrier's workflow",
      );
      return current;
    };
    return { world, receiver, tenant, id, until, carrier };
  };
}

const publishers = { 1: usePublisher(1), 64: usePublisher(64) } as const;

const inState =
  (...states: readonly Delivery["state"][]) =>
  ({ state }: Delivery): boolean =>
    states.includes(state);

const OK: Behaviour = { kind: "answer" };
const FAILURE = { kind: "answer", status: 500 } as const;

describe.concurrent.each(LIST_SIZES)("with at most %i in a workflow:", (listMax) => {
  const publish = publishers[listMax];

  describe.concurrent("a signal during a first attempt", () => {
    for (const signal of ["attemptNow", "replay", "cancel", "release"]) {
      for (const delayMs of [300, 600, 900]) {
        test(`causes no second request: ${signal}, response after ${delayMs} ms`, async () => {
          const { world, receiver, tenant, id, until, carrier } = await publish({
            kind: "answer",
            delayMs,
          });
          await receiver.waitFor(1);
          const handle = world.temporal.workflow.getHandle(await carrier());
          for (let time = 0; time < 2; time += 1) {
            // On a busy machine the response may have arrived first.
            await handle.signal(signal, { delivery_ids: [id] }).catch((error: unknown) => {
              if (!(error instanceof WorkflowNotFoundError)) {
                throw error;
              }
            });
          }
          await handle.result();
          expect(await until(inState("DELIVERED"))).toMatchObject({
            cycle: 1,
            attempt_count: 1,
            workflow_id: listMax === 1 ? id : handle.workflowId,
          });
          expect(receiver.requests).toHaveLength(1);
          expect(await world.attempts(tenant, id)).toMatchObject([{ cycle: 1, attempt: 1, status: 200 }]);
          await receiver.close();
        });
      }
    }
  });

  describe.concurrent("a first attempt that takes longer than a second", () => {
    test("is made once: leased meanwhile, its outcome recorded when it arrives", async () => {
      const reply = Promise.withResolvers<undefined>();
      const { world, receiver, tenant, id, until, carrier } = await publish({ ...OK, after: reply.promise });
      const leased = await eventually(
        async () => (await world.attempts(tenant, id))[0],
        "the attempt's row while the request is in flight",
      );
      expect(leased).toMatchObject({ attempt: 1, duration_ms: null, status: null, error: null });
      const handle = world.temporal.workflow.getHandle(await carrier());
      await eventually(
        async () => ((await handle.describe()).raw.pendingActivities ?? []).length > 0,
        "the workflow to wait with an activity",
      );
      reply.resolve(undefined);
      const delivered = await until(inState("DELIVERED"));
      expect(delivered).toMatchObject({ attempt_count: 1, last_status: 200, last_error: null });
      await world.temporal.workflow.result(await carrier());
      expect(receiver.requests).toHaveLength(1);
      const [attempt, ...others] = await world.attempts(tenant, id);
      expect(others).toEqual([]);
      expect(attempt).toMatchObject({ id: leased.id, status: 200 });
      expect(attempt?.duration_ms).toBeGreaterThanOrEqual(990);
      const [run] = await fetchRuns(world, await carrier());
      expect(countEvents(run?.events ?? [], "ACTIVITY_TASK_SCHEDULED")).toBe(1);
      await receiver.close();
    });

    test("keeps its place in the schedule when it fails", async () => {
      await withoutPause(async () => {
        const { world, receiver, tenant, id, until } = await publish({ ...FAILURE, delayMs: 2_000 });
        const failed = await until(inState("RETRYING"));
        const [attempt] = await world.attempts(tenant, id);
        const dueMs = failed.next_attempt_at?.getTime() ?? 0;
        await receiver.close();
        // The schedule starts between the acceptance of the event and the request.
        expect(dueMs - failed.created_at.getTime()).toBeGreaterThan(6_000);
        expect(dueMs - (attempt?.started_at.getTime() ?? 0)).toBeLessThan(7_000);
      });
    });
  });
});

const publishTo = publishers[64];

describe.concurrent("attemptNow", () => {
  test("makes the next attempt at once in its slot; later slots keep their times", async () => {
    await withoutPause(async () => {
      const { world, receiver, tenant, id, until, carrier } = await publishTo(FAILURE);
      await until(inState("RETRYING"));
      await world.temporal.workflow.getHandle(await carrier()).signal("attemptNow");
      await until(
        ({ attempt_count: attemptCount, next_attempt_at: nextAttemptAt }) =>
          attemptCount === 2 && nextAttemptAt !== null,
      );
      const [first, second] = await world.attempts(tenant, id);
      const startedMs = first?.started_at.getTime() ?? 0;
      expect((second?.started_at.getTime() ?? 0) - startedMs).toBeLessThan(6_000);
      const { next_attempt_at: nextAttemptAt, created_at: createdAt } = await until(() => true);
      // Slot of the third attempt: 15.8 s, less a second and at most a tenth of its gap. The schedule starts with the
      // workflow's first run, after the event was accepted and before the second attempt.
      expect((nextAttemptAt?.getTime() ?? 0) - createdAt.getTime()).toBeGreaterThan(13_900);
      expect((nextAttemptAt?.getTime() ?? 0) - (second?.started_at.getTime() ?? 0)).toBeLessThan(14_900);
      expect(receiver.requests.map(({ headers }) => headers["x-service-attempt"])).toEqual(["1", "2"]);
      await receiver.close();
    });
  });

  test("delivers at once if the receiver has recovered", async () => {
    const { world, receiver, id, until, carrier } = await publishTo(FAILURE, OK);
    await until(inState("RETRYING"));
    const handle = world.temporal.workflow.getHandle(await carrier());
    await handle.signal("attemptNow", { delivery_ids: [id] });
    expect(await until(inState("DELIVERED"))).toMatchObject({ attempt_count: 2, cycle: 1 });
    await handle.result();
    await receiver.close();
  });
});

describe.concurrent("cancel", () => {
  test("ends a waiting delivery: no further attempt, and its workflow closes", async () => {
    const { world, receiver, until, carrier } = await publishTo(FAILURE);
    await until(inState("RETRYING"));
    const handle = world.temporal.workflow.getHandle(await carrier());
    await handle.signal("cancel", { by: "operator" });
    expect(await handle.result()).toMatchObject({ cancelled: 1, delivered: 0 });
    expect(await until(inState("CANCELLED"))).toMatchObject({ attempt_count: 1, next_attempt_at: null });
    expect(receiver.requests).toHaveLength(1);
    await receiver.close();
  });
});

describe.concurrent("Retry-After", () => {
  /** Returns the second attempt's due time, relative to the end of the first and to the event's acceptance. */
  async function pausesAfter(
    status: number,
    retryAfter: string,
  ): Promise<{ pauseMs: number; dueMs: number }> {
    const headers = { "Retry-After": retryAfter };
    const { world, receiver, tenant, id, until } = await publishTo({ kind: "answer", status, headers });
    const failed = await until(inState("RETRYING"));
    const [attempt] = await world.attempts(tenant, id);
    const endedMs = (attempt?.started_at.getTime() ?? 0) + (attempt?.duration_ms ?? 0);
    await receiver.close();
    const nextMs = failed.next_attempt_at?.getTime() ?? 0;
    return { pauseMs: nextMs - endedMs, dueMs: nextMs - failed.created_at.getTime() };
  }

  test.each([301, 400, 404, 429, 500, 503])("of a %i is respected", async (status) => {
    await withoutPause(async () => {
      const { pauseMs } = await pausesAfter(status, "9");
      expect(Math.abs(pauseMs - 9_000)).toBeLessThanOrEqual(5);
    });
  });

  test("is respected up to 24 hours", async () => {
    for (const asked of ["86400", "172800"]) {
      await withoutPause(async () => {
        const { pauseMs } = await pausesAfter(503, asked);
        expect(Math.abs(pauseMs - 86_400_000)).toBeLessThanOrEqual(5);
      });
    }
  });

  test("shorter than the schedule changes nothing", async () => {
    await withoutPause(async () => {
      const { pauseMs, dueMs } = await pausesAfter(503, "1");
      expect(dueMs).toBeGreaterThan(6_000);
      expect(pauseMs).toBeLessThan(7_000);
    });
  });
});

describe.concurrent("a receiver that hangs", () => {
  test("gets a pause of at least three seconds after each timed-out request", async () => {
    await withoutPause(async () => {
      const { world, receiver, tenant, id } = await publishTo({ kind: "hang" });
      await receiver.waitFor(3, 45_000);
      const attempts = await world.attempts(tenant, id);
      const ended = attempts.slice(0, 2).map((attempt) => {
        expect(attempt).toMatchObject({ status: null, error: "timeout", response_body: null });
        expect(attempt.duration_ms).toBeGreaterThanOrEqual(9_990);
        expect(attempt.duration_ms).toBeLessThan(11_500);
        return attempt.started_at.getTime() + (attempt.duration_ms ?? 0);
      });
      expect(ended).toHaveLength(2);
      for (const [index, endedMs] of ended.entries()) {
        expect((receiver.requests[index + 1]?.receivedAt ?? 0) - endedMs).toBeGreaterThanOrEqual(3_000);
      }
      expect(receiver.requests.map(({ headers }) => headers["x-service-attempt"])).toEqual(["1", "2", "3"]);
      await receiver.close();
    });
  });

  test("delays no other deliveries, even if there are many such receivers", async () => {
    const hanging = await Promise.all(
      Array.from({ length: 20 }, async () => await publishTo({ kind: "hang" })),
    );
    await Promise.all(hanging.map(async ({ receiver }) => await receiver.waitFor(1, 30_000)));
    const { receiver, until } = await publishTo(OK);
    await until(inState("DELIVERED"));
    // None of the others has ended, so it waited for none.
    const others = await Promise.all(
      hanging.map(async ({ world, tenant, id }) => await world.attempts(tenant, id)),
    );
    expect(others.flat().filter(({ duration_ms: durationMs }) => durationMs !== null)).toEqual([]);
    await Promise.all(
      [receiver, ...hanging.map((each) => each.receiver)].map(async (each) => await each.close()),
    );
  });
});

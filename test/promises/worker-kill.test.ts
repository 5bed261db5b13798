/** Nothing that was answered 202 is lost when a worker, or the only process, is killed in the middle of it. */
import { mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { deployedApi, receiverOf } from "../support/deployed-api.ts";
import { type RunningDeployment, startDeployment } from "../support/deployed-service.ts";
import { type Answer, eventually } from "../support/eventually.ts";
import { allowMinutes } from "../support/limits.ts";
import { productionImage } from "../support/processes.ts";
import { createTestDatabase, testNamespace } from "../support/services.ts";
import { createTenant, publish, rows, sql } from "../support/tenant.ts";

// Starts two deployments' worth of processes, also on a busy machine.
allowMinutes(4);

const EVENTS = 200;

/** Repeats a call until it succeeds. */
async function until<T extends Answer>(call: () => Promise<T>): Promise<T> {
  return await eventually(async () => await call().catch(() => undefined), "the process to answer");
}

describe.each([
  ["the only worker", false],
  ["the only process, which is api and worker", true],
])("kill -9 of %s", (_, together) => {
  let own: RunningDeployment;

  beforeAll(async () => {
    own = await startDeployment({
      image: productionImage(),
      directory: await mkdtemp(join(inject("runDirectory"), "killed-")),
      database: await createTestDatabase(),
      temporal: { address: inject("temporalAddress"), namespace: await testNamespace() },
      edges: 0,
      together,
    });
  });
  afterAll(async () => {
    await own.close();
  });

  test("every event arrives, and only those in flight may arrive twice", async () => {
    const api = deployedApi(own);
    const receiver = await receiverOf();
    const tenant = await createTenant(api);
    const registered = await tenant.post("/v1/webhooks/endpoints", {
      url: receiver.url,
      events: ["inference.completed"],
    });
    const path = `/v1/webhooks/endpoints/${String(registered.body["id"])}`;
    await eventually(
      async () => (await tenant.get(path)).body["state"] === "ACTIVE",
      "the endpoint to be ACTIVE",
    );
    receiver.clear();
    // Slow answers, so that requests are in flight at the kill.
    receiver.answer(() => ({ kind: "answer", delayMs: 100 }));

    const accepted: string[] = [];
    const publishing = (async () => {
      for (let n = 0; n < EVENTS; n += 1) {
        // Repeated with its key until the process answers again.
        accepted.push(await until(async () => await publish(tenant, { id: `event-${n}`, data: { n } })));
      }
    })();
    await receiver.waitFor(EVENTS / 4);
    const idOf = ({ headers }: (typeof receiver.requests)[number]): string => String(headers["webhook-id"]);
    await own.worker.stop("SIGKILL");
    await receiver.untilRead();
    const [recorded] = await sql<{ n: number }>(
      api,
      "SELECT count(*)::int AS n FROM deliveries WHERE tenant_id = $1 AND first_duration_ms IS NOT NULL",
      [tenant.tenantId],
    );
    const inFlight = new Set(receiver.requests.map(idOf)).size - (recorded?.n ?? 0);
    await (together ? own.startWorker() : publishing);
    await (together ? publishing : own.startWorker());

    await eventually(
      () => new Set(receiver.requests.map(idOf)).size === EVENTS,
      "every accepted event to arrive",
    );
    expect(new Set(receiver.requests.map(idOf))).toEqual(new Set(accepted));
    expect(receiver.requests.length - EVENTS).toBeLessThanOrEqual(inFlight);
    await eventually(
      async () => rows(await tenant.get("/v1/webhooks/deliveries?state=DELIVERED&limit=100")).length === 100,
      "the outcomes",
    );
    await eventually(async () => {
      const states = await Promise.all(
        ["QUEUED", "RETRYING", "DEAD_LETTERED"].map(
          async (state) => rows(await tenant.get(`/v1/webhooks/deliveries?state=${state}`)).length,
        ),
      );
      return states.every((count) => count === 0);
    }, "every delivery to be DELIVERED");
  });
});

import { afterAll, describe, expect, test } from "vitest";
import { createPool, type Pool } from "#database/pool.ts";
import { loadForAttempt } from "#database/repositories/webhooks/attempts.ts";
import { loadContents } from "#database/repositories/webhooks/event-contents.ts";
import { createLogger } from "#observability/logger.ts";
import { startReceiver, verifyReceived } from "../support/receiver-server.ts";
import { useWorld } from "../support/world.ts";

const DATA_MAX = 262_144;
const EVENTS = 40;

const world = useWorld();
const pools: Pool[] = [];

afterAll(async () => {
  await Promise.all(pools.map(async (pool) => await pool.end()));
});

/** Returns `data` of exactly the maximum size that the API accepts, with multi-byte characters. */
function largeData(index: number): { readonly index: number; readonly text: string } {
  const rest = DATA_MAX - Buffer.byteLength(JSON.stringify({ index, text: "é" }));
  return { index, text: `é${"x".repeat(rest)}` };
}

describe("events with the maximum amount of data", () => {
  test("are not loaded together, and arrive as published, also at the second attempt", async () => {
    const { current } = world;
    const [receiver, failing] = [
      await startReceiver(),
      await startReceiver({ script: [{ kind: "answer", status: 500 }, { kind: "answer" }] }),
    ];
    const tenant = await current.createTenant();
    const { secret } = await current.createEndpoint(tenant, receiver.url);
    await current.createEndpoint(tenant, failing.url);
    const events = new Map<string, number>();
    const ids: string[] = [];
    for (let index = 0; index < EVENTS; index += 1) {
      const { event, deliveries } = await current.publish(tenant, largeData(index));
      events.set(event.id, index);
      ids.push(...deliveries.map(({ id }) => id));
    }

    const pool = createPool({
      url: current.config.databaseUrl,
      role: "signet_worker",
      max: 1,
      log: createLogger({ level: "silent" }),
    });
    pools.push(pool);
    await current.sql.query("UPDATE deliveries SET carrier = id WHERE tenant_id = $1", [tenant]);
    const loaded = await loadForAttempt(
      pool,
      ids.map((id) => ({ deliveryId: id, carrier: id, epoch: 1, attempt: 1 })),
    );
    await current.sql.query("UPDATE deliveries SET carrier = NULL WHERE tenant_id = $1", [tenant]);
    expect(loaded.map((delivery) => delivery?.content)).toEqual(ids.map(() => null));
    const [first] = loaded;
    const bytes = first?.content_bytes ?? 0;
    expect(bytes).toBeGreaterThan(DATA_MAX);
    const eventId = first?.event_id ?? "";
    const [content, none] = await loadContents(pool, [
      { eventId, bytes },
      { eventId: "evt_00000000000000000000000000", bytes },
    ]);
    expect(content).toHaveLength(bytes);
    expect(none).toBeUndefined();

    await current.startWorker();
    await receiver.waitFor(EVENTS);
    await failing.waitFor(EVENTS + 1);
    for (const id of ids) {
      await current.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED");
    }
    expect(receiver.requests).toHaveLength(EVENTS);
    for (const request of receiver.requests) {
      expect(() => verifyReceived(request, [secret])).not.toThrow();
    }
    for (const { rawBody } of [...receiver.requests, ...failing.requests]) {
      const body = JSON.parse(rawBody.toString()) as { id: string; data: unknown };
      expect(body.data).toEqual(largeData(events.get(body.id) ?? -1));
    }
    await receiver.close();
    await failing.close();
  });
});

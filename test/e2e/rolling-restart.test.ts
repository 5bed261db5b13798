import { randomBytes } from "node:crypto";
import { afterAll, describe, expect, test } from "vitest";
import { newId } from "#domain/ids.ts";
import { eventually } from "../support/eventually.ts";
import { allowMinutes } from "../support/limits.ts";
import { startOwnTemporal } from "../support/own-temporal.ts";
import type { SpawnedProcess } from "../support/processes.ts";
import { type Receiver, startReceiver } from "../support/receiver-server.ts";
import { useStarted } from "../support/started.ts";
import { startWorkerProcess } from "../support/worker-process.ts";
import { makeWorld, type World } from "../support/world.ts";

allowMinutes(4);

const EVENTS_PER_ROUND = 150;

const ownTemporal = useStarted("Temporal", startOwnTemporal);
const made = useStarted("the world", async () => await makeWorld({ temporal: ownTemporal.current }));
const workers: SpawnedProcess[] = [];

afterAll(async () => {
  await Promise.all(workers.map(async (worker) => await worker.stop()));
});

async function publishTo(world: World, receiver: Receiver, count: number): Promise<string[]> {
  const tenant = await world.createTenant();
  await world.createEndpoint(tenant, receiver.url);
  const published = await Promise.all(Array.from({ length: count }, async () => await world.publish(tenant)));
  return published.map(({ deliveries }) => deliveries[0]?.id ?? "");
}

async function publishInTurn(world: World, tenant: string): Promise<void> {
  for (let event = 0; event < EVENTS_PER_ROUND; event += 1) {
    await world.publish(tenant, { event });
  }
}

async function countOf(world: World, ids: readonly string[], condition: string): Promise<number> {
  const { rows } = await world.sql.query<{ n: number }>(
    `SELECT count(*)::int AS n FROM deliveries WHERE id = ANY ($1) AND ${condition}`,
    [ids],
  );
  return rows[0]?.n ?? 0;
}

describe("claims of a worker that stops", () => {
  test("are handed back when it shuts down gracefully before it has sent them", async () => {
    const world = made.current;
    const receiver = await startReceiver();
    const ids = await publishTo(world, receiver, 5);
    await world.sql.query("UPDATE deliveries SET carrier = id, claimed_at = now() WHERE id = ANY ($1)", [
      ids,
    ]);
    const worker = await world.startWorker();
    // Just claimed, so that no sweep finds it.
    const claimed =
      "UPDATE deliveries SET claimed_at = now(), claimed_by = (SELECT max(id) FROM workers) WHERE id = ANY ($1)";
    await eventually(async () => {
      await world.sql.query(claimed, [ids]);
      return (await countOf(world, ids, "claimed_by IS NOT NULL")) === ids.length;
    }, "the worker's first heartbeat");
    await worker.close();
    expect(await countOf(world, ids, "carrier IS NULL AND state = 'QUEUED' AND epoch = 2")).toBe(ids.length);
    const next = await world.startWorker();
    await receiver.waitFor(ids.length);
    await next.close();
    await receiver.close();
  });

  test("that were sent get their workflows from the next worker, if Temporal is unavailable when it shuts down", async () => {
    const [world, temporal] = [made.current, ownTemporal.current];
    const receiver = await startReceiver();
    const worker = await world.startWorker();
    await temporal.stop();
    const tenant = await world.createTenant();
    await world.createEndpoint(tenant, receiver.url);
    const published = await Promise.all(Array.from({ length: 5 }, async () => await world.publish(tenant)));
    const ids = published.map(({ deliveries }) => deliveries[0]?.id ?? "");
    await eventually(
      async () => (await countOf(world, ids, "state = 'DELIVERED'")) === ids.length,
      "all deliveries",
    );
    await worker.close();
    await temporal.start();
    const next = await world.startWorker();
    for (const id of ids) {
      const workflow = await world.workflowOf(tenant, id);
      expect(await workflow.result()).toMatchObject({ replayed: 0, cancelled: 0, expired: 0 });
    }
    expect(receiver.requests).toHaveLength(ids.length);
    await eventually(
      async () => (await world.sql.query("SELECT FROM unstarted_lists")).rowCount === 0,
      "no list to be left",
    );
    await next.close();
    await receiver.close();
  });

  test("are handed back by the next worker after a kill, once the killed one has been silent for seconds", async () => {
    const world = made.current;
    const receiver = await startReceiver();
    const ids = await publishTo(world, receiver, 5);
    const killed = newId("key", Date.now(), randomBytes);
    await world.sql.query("INSERT INTO workers (id, seen_at) VALUES ($1, now())", [killed]);
    await world.sql.query(
      "UPDATE deliveries SET carrier = id, claimed_at = now(), claimed_by = $2 WHERE id = ANY ($1)",
      [ids, killed],
    );
    const worker = await world.startWorker();
    await receiver.waitFor(ids.length);
    // Not by the sweep, which finds claims some seconds later.
    const line = new RegExp(`"${killed}".*"deliveries":${ids.length},.*were handed back`);
    await eventually(() => line.test(world.observed.log()), "the report of the claims");
    const { rows } = await world.sql.query("SELECT id FROM workers WHERE id = $1", [killed]);
    expect(rows).toEqual([]);
    await worker.close();
    await receiver.close();
  });
});

describe("workers that are replaced one after the other under load", () => {
  test("end with exit code 0 within the grace period, and every event arrives once", async () => {
    const world = made.current;
    const receiver = await startReceiver({ script: () => ({ kind: "answer", delayMs: 20 }) });
    workers.push(...(await Promise.all([startWorkerProcess(world), startWorkerProcess(world)])));
    const tenant = await world.createTenant();
    await world.createEndpoint(tenant, receiver.url);
    let published = 0;
    for (const index of [0, 1]) {
      const publishing = publishInTurn(world, tenant);
      await receiver.waitFor(published + EVENTS_PER_ROUND / 3);
      const ended = await workers[index]?.stop("SIGTERM");
      // One that needs longer than the grace period ends itself, with another code.
      expect(ended).toMatchObject({ code: 0 });
      workers[index] = await startWorkerProcess(world);
      await publishing;
      published += EVENTS_PER_ROUND;
    }
    await receiver.waitFor(published);
    const ids = receiver.requests.map(({ headers }) => headers["webhook-id"]);
    expect(new Set(ids).size).toBe(published);
    expect(ids).toHaveLength(published);
    await receiver.close();
  });
});

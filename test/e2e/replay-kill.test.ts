/** A bulk replay of 10,000 dead letters, during which the worker and then Temporal are killed. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { allowMinutes } from "../support/limits.ts";
import { startOwnTemporal } from "../support/own-temporal.ts";
import type { SpawnedProcess } from "../support/processes.ts";
import { startReceiver } from "../support/receiver-server.ts";
import { seedDeadLetters } from "../support/seeded-letters.ts";
import { useStarted } from "../support/started.ts";
import { startWorkerProcess } from "../support/worker-process.ts";
import { makeWorld } from "../support/world.ts";

allowMinutes(15);

const LETTERS = 10_000;
const TIMEOUT_MS = 300_000;

const ownTemporal = useStarted("Temporal", startOwnTemporal);
const made = useStarted("the world", async () => await makeWorld({ temporal: ownTemporal.current }));
const receiver = useStarted("the receiver", async () => await startReceiver());
let worker: SpawnedProcess | undefined;

beforeAll(async () => {
  worker = await startWorkerProcess(made.current);
});

afterAll(async () => {
  await worker?.stop("SIGKILL");
});

test("a bulk replay continues: every letter gets exactly one new cycle, and the counts are exact", async () => {
  const [world, temporal] = [made.current, ownTemporal.current];
  const tenant = await world.createTenant();
  // The deliveries' requests do not matter here: each is accepted at once, so that none is repeated.
  const { id: endpointId } = await world.createEndpoint(tenant, receiver.current.url);
  const ids = await seedDeadLetters(world.sql, { tenantId: tenant, endpointId, count: LETTERS });
  const job = await world.makeReplay(tenant, { selection: { filter: {} }, ratePerSecond: 500 });
  world.replays.kick(job);
  const untilDone = async (count: number): Promise<void> => {
    await eventually(
      async () => (await world.replays.find(tenant, job.id)).done >= count,
      `${count} to be replayed`,
      TIMEOUT_MS,
    );
  };

  await untilDone(1_000);
  await worker?.stop("SIGKILL");
  worker = await startWorkerProcess(world);
  await untilDone(3_000);
  await temporal.kill();
  await temporal.start();
  await untilDone(6_000);
  await Promise.all([worker?.stop("SIGKILL"), temporal.kill()]);
  await temporal.start();
  worker = await startWorkerProcess(world);
  await untilDone(LETTERS);

  expect(await world.replays.find(tenant, job.id)).toMatchObject({
    state: "COMPLETED",
    total: LETTERS,
    done: LETTERS,
    failed: 0,
    skipped: 0,
  });
  const { rows } = await world.sql.query(
    "SELECT cycle, count(*)::int AS n FROM deliveries WHERE id = ANY ($1) GROUP BY 1",
    [ids],
  );
  expect(rows).toEqual([{ cycle: 2, n: LETTERS }]);
  const results = await world.sql.query(
    "SELECT result, count(*)::int AS n FROM replay_items WHERE job_id = $1 GROUP BY 1",
    [job.id],
  );
  expect(results.rows).toEqual([{ result: "replayed", n: LETTERS }]);
});

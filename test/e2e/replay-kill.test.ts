/** A bulk replay of 10,000 dead letters, in the middle of which the worker and then Temporal are killed. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { type EmbeddedTemporal, startEmbeddedTemporal } from "../../src/embedded/temporal.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import type { SpawnedProcess } from "../support/processes.ts";
import { seedDeadLetters } from "../support/seeded-letters.ts";
import { startWorkerProcess } from "../support/worker-process.ts";
import { makeWorld, type World } from "../support/world.ts";

const LETTERS = 10_000;
const PATIENCE_MS = 120_000;

let home: string;
let port: number;
let temporal: EmbeddedTemporal;
let world: World;
let worker: SpawnedProcess;

async function startTemporal(): Promise<EmbeddedTemporal> {
  return await startEmbeddedTemporal({
    binary: inject("temporalBinary"),
    home,
    port,
    uiPort: null,
    namespaces: ["signet"],
    dbFilename: join(home, "temporal.db"),
    log: () => undefined,
  });
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** Resolves when it is gone, and its port with it. */
async function killTemporal(): Promise<void> {
  process.kill(temporal.pid, "SIGKILL");
  await eventually(() => !isAlive(temporal.pid), "Temporal to be gone");
}

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "signet-replay-"));
  port = await freePort();
  temporal = await startTemporal();
  world = await makeWorld({ temporal: { address: temporal.address, namespace: "signet" } });
  worker = await startWorkerProcess(world);
});

afterAll(async () => {
  await worker.stop("SIGKILL");
  await world.close();
  await temporal.stop();
  await rm(home, { recursive: true, force: true });
});

test("goes on where it was: every letter gets exactly one new cycle, and the counts are exact", async () => {
  const tenant = await world.createTenant();
  const { id: endpointId } = await world.createEndpoint(tenant, "http://127.0.0.1:9/never");
  const ids = await seedDeadLetters(world.sql, { tenantId: tenant, endpointId, count: LETTERS });
  // The deliveries themselves are not what this is about.
  await world.sql.query("UPDATE endpoints SET state = 'DISABLED', disabled_reason = 'tenant' WHERE id = $1", [
    endpointId,
  ]);
  const job = await world.makeReplay(tenant, { selection: { filter: {} }, ratePerSecond: 500 });
  world.replays.kick(job);
  const untilDone = async (count: number): Promise<void> => {
    await eventually(
      async () => (await world.replays.find(tenant, job.id)).done >= count,
      `${count} to be replayed`,
      PATIENCE_MS,
    );
  };

  await untilDone(1_000);
  await worker.stop("SIGKILL");
  worker = await startWorkerProcess(world);
  await untilDone(3_000);
  await killTemporal();
  temporal = await startTemporal();
  await untilDone(6_000);
  await Promise.all([worker.stop("SIGKILL"), killTemporal()]);
  temporal = await startTemporal();
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
}, 300_000);

/**
 * A deny list of 100,000 (a million with `npm run test:all`): hubs, edges behind them and edges of the database start
 * with it, deny what it has, and serve while others read it.
 */
import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "pg";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import type { Environment } from "#config/config.ts";
import { useTestApi } from "../support/api.ts";
import { startDistantProxy } from "../support/distant-proxy.ts";
import {
  Asking,
  type EdgeProcesses,
  endConnections,
  type Holder,
  revokeCredential,
  startEdgeProcesses,
  tokenHolder,
} from "../support/edge-processes.ts";
import { eventually } from "../support/eventually.ts";
import { writeHubCertificates } from "../support/certificates.ts";
import { createHubProcess, type HubChild, storeLeaseKeys } from "../support/hubs.ts";
import { allowMinutes } from "../support/limits.ts";
import { type OwnDatabase, startOwnDatabase } from "../support/own-database.ts";
import { fillRevocations } from "../support/many-revocations.ts";
import { imageMemory } from "../support/production-image.ts";
import { THOROUGH } from "../support/properties.ts";
import { useStarted } from "../support/started.ts";

allowMinutes(6);

const REVOCATIONS = THOROUGH ? 1_000_000 : 100_000;
/** For a hub that reads from afar. */
const START_MS = 120_000;
const DISTANCE = { roundTripMs: 180, jitterMs: 10, loss: 0.01, random: Math.random };

let database: OwnDatabase;
const api = useTestApi({
  database: async () => {
    database = await startOwnDatabase();
    return database;
  },
});

let victim: Holder;
let live: Holder;

beforeAll(async () => {
  [victim, live] = [await tokenHolder(api), await tokenHolder(api)];
  await revokeCredential(api, victim.client);
  const owner = new Client({ connectionString: database.adminUrl });
  await owner.connect();
  await fillRevocations(owner, REVOCATIONS);
  await owner.end();
});

/** Two hubs far from the primary, and a third behind them. */
const made = useStarted("hubs", async () => {
  const directory = await mkdtemp(join(tmpdir(), "signet-many-revocations-"));
  const key = randomBytes(32);
  await storeLeaseKeys(database, [key]);
  const { hub, edge } = await writeHubCertificates(directory);
  const url = new URL(database.url);
  const line = await startDistantProxy(Number(url.port), DISTANCE);
  url.port = String(line.port);
  // With the image's limits on memory.
  const limits = await imageMemory();
  const below = { ...hub, ...limits };
  const parents = await Promise.all(
    [0, 1].map(async () => await createHubProcess({ ...below, SIGNET_DATABASE_URL: url.href })),
  );
  const child = await createHubProcess({ ...below, SIGNET_HUBS: parents.map((each) => each.url).join(",") });
  const hubs = [...parents, child];
  for (const each of hubs) {
    await each.start();
  }
  const behind = (followed: readonly HubChild[]): Environment => ({
    ...edge,
    ...limits,
    SIGNET_HUBS: followed.map((each) => each.url).join(","),
    SIGNET_LEASE_KEY: key.toString("base64"),
  });
  return {
    behindParents: behind(parents),
    behindChild: behind([child]),
    close: async () => {
      await Promise.all(hubs.map(async ({ process }) => await process.stop("SIGKILL")));
      await line.close();
      await rm(directory, { recursive: true });
    },
  };
});

async function start(...settings: readonly Environment[]): Promise<EdgeProcesses> {
  const started = await startEdgeProcesses({ api, settings });
  onTestFinished(async () => await started.close());
  return started;
}

/** Resolves when each edge admits the live token, and knows what was revoked before and since. */
async function untilServing({ edges }: EdgeProcesses): Promise<void> {
  const late = await tokenHolder(api);
  await revokeCredential(api, late.client);
  for (const edge of edges) {
    await eventually(
      async () => (await edge.ask(live.token)).outcome === "admitted",
      "an edge to serve",
      START_MS,
    );
    for (const { token } of [victim, late]) {
      await eventually(
        async () => (await edge.ask(token)).outcome === "TOKEN_REVOKED",
        "a revocation to count",
      );
    }
  }
}

test(`an edge starts with ${REVOCATIONS} revocations from two hubs, and serves while others start`, async () => {
  const first = await start(made.current.behindParents);
  await untilServing(first);
  const [asking, refused] = [new Asking(first.edges, live.token), new Asking(first.edges, victim.token)];
  const others = await start(made.current.behindParents, made.current.behindParents);
  await untilServing(others);
  await asking.until(1, "admitted");
  await asking.stop();
  await refused.stop();
  expect(refused.lastAdmission()).toBe(-Infinity);
});

test("an edge starts with them from a hub behind hubs", async () => {
  await untilServing(await start(made.current.behindChild));
});

test("an edge starts with them from the database, and reads them again after its connection was lost", async () => {
  const direct = await start({
    SIGNET_DATABASE_URL: database.url,
    ...(await imageMemory()),
  });
  await untilServing(direct);
  await endConnections(api, "signet_edge", 1);
  await untilServing(direct);
});

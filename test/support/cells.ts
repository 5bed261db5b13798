/** Two regions: a home cell `eu`, and `us` with its own database, Temporal namespace, api and worker (decision 35). */
import { expect } from "vitest";
import { readLog } from "#compliance/read-log.ts";
import { verifyLog } from "#compliance/verify-log.ts";
import type { Environment } from "#config/config.ts";
import { migrateDatabase } from "#database/migrate.ts";
import { createPool } from "#database/pool.ts";
import { NODE_CRYPTO } from "#lib/transparency-log/node-crypto.ts";
import { parseVerifierKey } from "#lib/transparency-log/signed-note.ts";
import { createLogger } from "#observability/logger.ts";
import { type Answer, jsonBody, readAnswer, unlessStale } from "./answer.ts";
import { type OwnApi, useTestApi } from "./api.ts";
import { openTestSigner } from "./checkpoints.ts";
import { eventually } from "./eventually.ts";
import { accessToken, bearer, provision, type Provisioned } from "./factories.ts";
import { freePorts } from "./free-port.ts";
import { useStarted } from "./started.ts";
import { startTcpProxy, type TcpProxy } from "./tcp-proxy.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

export const CELL_SCOPES = [
  "events:publish",
  "webhooks:read",
  "webhooks:write",
  "credentials:read",
  "compliance:read",
  "portal:sign_in",
];

function through({ port }: TcpProxy, to: string): string {
  const url = new URL(to);
  url.port = String(port);
  return url.href;
}

/** Sends a request with a token, once. With a body, it is a POST. */
export async function callOnce(base: string, token: string, path: string, body?: unknown): Promise<Answer> {
  const { headers, ...content } = jsonBody(body);
  return await readAnswer(
    await fetch(base + path, {
      method: body === undefined ? "GET" : "POST",
      headers: { ...bearer(token), ...headers },
      redirect: "manual",
      ...content,
    }),
  );
}

/** The same, as `unlessStale`. */
export async function call(base: string, token: string, path: string, body?: unknown): Promise<Answer> {
  return await unlessStale(async () => await callOnce(base, token, path, body));
}

/** Creates the login of another cell, as `signet migrate` does in the home cell. */
export async function createCellLogin(home: OwnApi, name: string): Promise<string> {
  const url = new URL(home.database.adminUrl);
  url.username = `cell_${name}_${home.database.name}`;
  url.password = "of-the-cell";
  const { adminUrl } = home.database;
  await migrateDatabase({
    timers: machineTimers,
    adminUrl,
    cell: { url: url.href, name },
    nowMs: Date.now(),
  });
  return url.href;
}

/** Signs and verifies the log of the home cell, as `signet audit verify` does. Returns its number of entries. */
export async function verifiedEntries(home: OwnApi): Promise<number> {
  const signer = openTestSigner(home);
  await signer.sign();
  const keys = [await parseVerifierKey(signer.key.verifierKey, NODE_CRYPTO)];
  const log = createLogger({ level: "silent" });
  const pool = createPool({ url: home.database.url, role: "signet_audit", max: 1, log });
  const { entries } = await verifyLog(readLog(pool), { keys, kept: [] });
  await Promise.all([pool.end(), signer.close()]);
  return entries;
}

/** Use its members in tests and hooks. */
export interface TestCells {
  readonly home: OwnApi;
  readonly us: OwnApi;
  readonly homeUrl: string;
  readonly usUrl: string;
  /** A free address for a third cell. */
  readonly saUrl: string;
  /** Settings of every cell. */
  readonly settings: Environment;
  /** Between the cell `us` and the database of the home cell. */
  readonly wire: { readonly current: TcpProxy };
  /** Creates the login of another cell, as `signet migrate` does in the home cell. Returns its URL. */
  readonly login: (name: string) => Promise<string>;
  /** Creates a client with a token. */
  readonly client: (
    region: string,
    more?: { readonly tenantId?: string },
  ) => Promise<Provisioned & { token: string }>;
  /** Waits until the cell, by default `us`, knows the tenant, which it says itself. */
  readonly untilKnown: (token: string, cell?: string) => Promise<void>;
  /** Creates an endpoint in the cell `us`, and returns its id when it is ACTIVE. */
  readonly activeEndpoint: (
    token: string,
    wanted: { readonly url: string; readonly events: readonly string[] },
  ) => Promise<string>;
}

/** Creates an endpoint in a cell, and returns its id when it is ACTIVE. */
async function activeEndpointAt(
  base: string,
  token: string,
  wanted: { readonly url: string; readonly events: readonly string[] },
): Promise<string> {
  const made = await call(base, token, "/v1/webhooks/endpoints", wanted);
  expect(made).toMatchObject({ status: 201 });
  const id = String(made.body["id"]);
  await eventually(
    async () => (await call(base, token, `/v1/webhooks/endpoints/${id}`)).body["state"] === "ACTIVE",
    "the endpoint to be ACTIVE",
  );
  return id;
}

/** Starts both. Of the cell `ca`, there is only the login that a test creates. */
export async function useCells(): Promise<TestCells> {
  const [homePort = 0, usPort = 0, saPort = 0] = await freePorts(3);
  const [homeUrl, usUrl, saUrl] = [homePort, usPort, saPort].map((port) => `http://127.0.0.1:${port}`) as [
    string,
    string,
    string,
  ];
  const settings = {
    SIGNET_CELLS: `eu=${homeUrl},us=${usUrl},sa=${saUrl},ca=http://127.0.0.1:1`,
    SIGNET_PUBLIC_URL: homeUrl,
  };
  const home = useTestApi({
    worker: true,
    environment: { ...settings, SIGNET_CELL: "eu", SIGNET_API_LISTEN: new URL(homeUrl).host },
  });
  const wire = useStarted(
    "the wire",
    async () => await startTcpProxy(Number(new URL(home.database.url).port)),
  );
  const us = useTestApi({
    worker: true,
    environment: async () => ({
      ...settings,
      SIGNET_CELL: "us",
      SIGNET_API_LISTEN: new URL(usUrl).host,
      // Retries go on for long after the cell is cut off, and one comes soon after its receiver recovers.
      SIGNET_RETRY_WINDOW_MS: "60000",
      SIGNET_HOME_DATABASE_URL: through(wire.current, await createCellLogin(home, "us")),
    }),
  });
  return {
    home,
    us,
    homeUrl,
    usUrl,
    saUrl,
    settings,
    wire,
    login: async (name) => await createCellLogin(home, name),
    client: async (region, more = {}) => {
      const made = await provision(home, { region, scopes: CELL_SCOPES, ...more });
      return { ...made, token: await accessToken(home, made) };
    },
    untilKnown: async (token, cell = usUrl) =>
      void (await eventually(
        async () => (await call(cell, token, "/v1/webhooks/endpoints")).status !== 503,
        "the cell to know the tenant",
      )),
    activeEndpoint: async (token, wanted) => await activeEndpointAt(usUrl, token, wanted),
  };
}

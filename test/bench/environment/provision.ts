/** Creates tenants, credentials and endpoints over HTTP, as operators and tenants do. */
import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { Client } from "pg";
import { secretAad, secretFingerprint } from "#crypto/endpoint-secret.ts";
import { findDataKey } from "#database/repositories/data-keys.ts";
import { newId } from "#domain/ids.ts";
import { generateSecret } from "#lib/receiver/secret.ts";
import { testKeyring } from "#test/support/keyring.ts";
import type { SinkEndpoint } from "../load/load-generator.ts";
import { withClient } from "./postgres.ts";
import type { Signet } from "./signet.ts";

const SCOPES = [
  "webhooks:read",
  "webhooks:write",
  "webhooks:replay",
  "events:publish",
  "events:read",
  "credentials:read",
  "compliance:read",
  "portal:sign_in",
  "ssf:manage",
  "ssf:read",
];
const REQUEST_TIMEOUT_MS = 30_000;
const REPEAT_MS = 500;
const REPEATS_MAX = 20;
const ACTIVE_TIMEOUT_MS = 120_000;
const PAGE = 100;

export interface Tenant {
  readonly id: string;
  readonly clientId: string;
  readonly clientSecret: string;
}

export interface NewTenant extends Tenant {
  readonly credentialId: string;
}

type Json = Readonly<Record<string, unknown>>;

/** @throws Error with the response text unless the status is 2xx */
export async function requestJson(
  method: "GET" | "POST",
  url: string,
  token: string | undefined,
  body?: Json,
): Promise<Json> {
  const ask = async (): Promise<Response> =>
    await fetch(url, {
      method,
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  let response = await ask();
  // A 503 changed nothing. On a busy machine the revocation lease expires now and then.
  for (let repeat = 0; response.status === 503 && repeat < REPEATS_MAX; repeat += 1) {
    await response.body?.cancel();
    await delay(REPEAT_MS);
    response = await ask();
  }
  const text = await response.text();
  if (!response.ok) {
    throw new Error(`${method} ${url}: ${response.status} ${text.slice(0, 500)}`);
  }
  return JSON.parse(text) as Json;
}

/** Creates a tenant with a role, a principal and a credential. */
export async function provisionTenant(
  signet: Signet,
  operatorToken: string,
  name: string,
  region = "eu",
): Promise<NewTenant> {
  const create = async (path: string, body: Json): Promise<Json> =>
    await requestJson("POST", `${signet.adminUrl}${path}`, operatorToken, body);
  const tenant = await create("/tenants", { name, region });
  const id = String(tenant["id"]);
  const role = await create(`/tenants/${id}/roles`, { name: "bench", scopes: SCOPES });
  const principal = await create(`/tenants/${id}/principals`, {
    name: "bench",
    role_id: role["id"],
    region,
    environment: "development",
  });
  const credential = await create(`/principals/${String(principal["id"])}/credentials`, {});
  return {
    id,
    clientId: String(credential["client_id"]),
    clientSecret: String(credential["client_secret"]),
    credentialId: String(credential["id"]),
  };
}

/** Requests a new access token, which is valid for 15 minutes. */
export async function accessToken({ apiUrl }: Signet, { clientId, clientSecret }: Tenant): Promise<string> {
  const answer = await requestJson("POST", `${apiUrl}/v1/auth/token`, undefined, {
    client_id: clientId,
    client_secret: clientSecret,
    grant_type: "client_credentials",
  });
  return String(answer["access_token"]);
}

/**
 * Sends the form of a sign-in page, as a browser does.
 *
 * @returns the session's cookie, as requests send it
 * @throws Error if the page does not sign in
 */
export async function signIn(page: string, fields: Readonly<Record<string, string>>): Promise<string> {
  const opened = await fetch(page, {
    method: "POST",
    redirect: "manual",
    headers: { origin: new URL(page).origin, "content-type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams(fields),
  });
  const [cookie = ""] = (opened.headers.get("set-cookie") ?? "").split(";");
  if (cookie === "") {
    throw new Error(`${page} answered ${opened.status} without a session`);
  }
  return cookie;
}

/** Registers endpoints. Endpoint n takes events of type n modulo the number of types. */
export async function registerEndpoints(
  signet: Signet,
  tenant: Tenant,
  endpoints: readonly SinkEndpoint[],
  types: readonly string[],
): Promise<void> {
  const token = await accessToken(signet, tenant);
  for (const [index, { url }] of endpoints.entries()) {
    await requestJson("POST", `${signet.apiUrl}/v1/webhooks/endpoints`, token, {
      url,
      events: [types[index % types.length]],
    });
  }
}

/** Inserts verified endpoints with secrets, as copies of one that the API has registered. Types as above. */
export async function insertEndpoints(
  adminDatabaseUrl: string,
  kek: Buffer,
  tenant: Tenant,
  { endpoints, types }: { readonly endpoints: readonly SinkEndpoint[]; readonly types: readonly string[] },
): Promise<void> {
  const keyring = testKeyring(kek);
  await withClient(adminDatabaseUrl, async (client) => {
    const dataKey = await findDataKey(client, tenant.id);
    const rows = await Promise.all(
      endpoints.map(async ({ url }, index) => {
        const id = newId("endpoint", Date.now(), randomBytes);
        const secret = generateSecret(randomBytes);
        return {
          endpoint: { id, tenant_id: tenant.id, url, event_types: [types[index % types.length]] },
          secret: {
            endpoint_id: id,
            tenant_id: tenant.id,
            secret: await keyring.sealForTenant(dataKey, tenant.id, secretAad(tenant.id, id, 1), secret),
            fingerprint: secretFingerprint(secret),
          },
        };
      }),
    );
    const verified = "SELECT id FROM endpoints WHERE state = 'ACTIVE' ORDER BY id LIMIT 1";
    const endpointRows = rows.map(({ endpoint }) => endpoint);
    await copyRow(client, { table: "endpoints", where: `id = (${verified})`, rows: endpointRows });
    const secretRows = rows.map(({ secret }) => secret);
    const where = `version = 1 AND endpoint_id = (${verified})`;
    await copyRow(client, { table: "endpoint_secrets", where, rows: secretRows });
  });
}

interface Copies {
  readonly table: string;
  /** Condition of the row to copy. */
  readonly where: string;
  /** Changed columns of each copy. */
  readonly rows: readonly Readonly<Record<string, unknown>>[];
}

async function copyRow(client: Client, { table, where, rows }: Copies): Promise<void> {
  const { rows: found } = await client.query<{ columns: string }>(
    `SELECT string_agg(quote_ident(column_name), ', ') AS columns FROM information_schema.columns
      WHERE table_schema = 'public' AND table_name = $1 AND is_generated = 'NEVER'`,
    [table],
  );
  const columns = found[0]?.columns ?? "";
  await client.query(
    `INSERT INTO ${table} (${columns}) SELECT ${columns}
      FROM (SELECT t FROM ${table} t WHERE ${where}) AS copied(row_of), jsonb_array_elements($1::jsonb) AS changed(members),
        jsonb_populate_record(row_of, members)`,
    [JSON.stringify(rows)],
  );
}

interface EndpointPage {
  readonly data: readonly { readonly state: string }[];
  readonly next_cursor: string | null;
}

async function countActive({ apiUrl }: Signet, token: string): Promise<number> {
  let active = 0;
  let cursor: string | null = "";
  while (cursor !== null) {
    const from: string = cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`;
    const url = `${apiUrl}/v1/webhooks/endpoints?limit=${PAGE}${from}`;
    const page = (await requestJson("GET", url, token)) as unknown as EndpointPage;
    active += page.data.filter(({ state }) => state === "ACTIVE").length;
    cursor = page.next_cursor;
  }
  return active;
}

/** Waits until `count` endpoints of the tenant have answered their ping. */
export async function untilActive(signet: Signet, tenant: Tenant, count: number): Promise<void> {
  const token = await accessToken(signet, tenant);
  const deadline = performance.now() + ACTIVE_TIMEOUT_MS;
  for (;;) {
    const active = await countActive(signet, token);
    if (active === count) {
      return;
    }
    if (performance.now() > deadline) {
      throw new Error(`${active} of ${count} endpoints were verified in ${ACTIVE_TIMEOUT_MS / 1_000} s`);
    }
    await delay(100);
  }
}

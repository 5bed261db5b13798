/** An endpoint whose secret rotates, and receivers that know one secret. */
import { Webhook } from "standardwebhooks";
import { expect } from "vitest";
import { verify } from "#lib/receiver/verify.ts";
import type { OwnApi, TestApi } from "./api.ts";
import type { SignedDelivery } from "./signed-delivery.ts";
import {
  createEndpoint,
  createTenant,
  type Json,
  renew,
  rows,
  sql,
  type Tenant,
  WEBHOOK_SCOPES,
} from "./tenant.ts";

/** An endpoint and the path of its secrets. */
export interface RotatingEndpoint {
  readonly tenant: Tenant;
  readonly id: string;
  readonly path: string;
  /** Its first secret. */
  readonly secret: string;
}

export async function makeRotatingEndpoint(api: TestApi): Promise<RotatingEndpoint> {
  const tenant = await createTenant(api, [...WEBHOOK_SCOPES, "compliance:read"]);
  const { id, secret } = await createEndpoint(api, tenant);
  return { tenant, id, secret, path: `/v1/webhooks/endpoints/${id}/secret` };
}

/** Returns the same endpoint with a currently valid token. */
export async function later(api: OwnApi, endpoint: RotatingEndpoint, ms: number): Promise<RotatingEndpoint> {
  api.clock.advance(ms);
  return { ...endpoint, tenant: await renew(api, endpoint.tenant) };
}

/** Rotates the secret and resolves with the new one. */
export async function rotate({ tenant, path }: RotatingEndpoint, body: Json = {}): Promise<string> {
  const answer = await tenant.post(`${path}/rotate`, body);
  expect(answer).toMatchObject({ status: 200 });
  return String(answer.body["secret"]);
}

export async function statesOf({ tenant, path }: RotatingEndpoint): Promise<unknown[]> {
  return rows(await tenant.get(path)).map(({ version, state }) => [version, state]);
}

/** Whether a receiver with only this secret accepts, by Signet's library and by the stock one. */
export function accepts(secret: string, { body, headers, atMs }: SignedDelivery): boolean {
  const tried = (attempt: () => unknown): boolean => {
    try {
      return attempt() !== undefined;
    } catch {
      return false;
    }
  };
  const library = tried(() => verify({ rawBody: body, headers, secrets: [secret], now: atMs }));
  const plain = Object.fromEntries(Object.entries(headers).filter(([name]) => !name.startsWith("webhook-")));
  const withoutStandard = tried(() =>
    verify({ rawBody: body, headers: plain, secrets: [secret], now: atMs }),
  );
  expect(withoutStandard).toBe(library);
  // The stock library can only use the machine's clock.
  const stockCanTell = Math.abs(atMs - Date.now()) < 60_000;
  const stock = stockCanTell ? tried(() => new Webhook(secret).verify(body, headers)) : library;
  expect(stock).toBe(library);
  return library;
}

/** Returns the stored secrets by version. */
export async function storedSecrets(api: TestApi, id: string): Promise<string[]> {
  const found = await sql<{ secret: string }>(
    api,
    "SELECT secret FROM endpoint_secrets WHERE endpoint_id = $1 ORDER BY version",
    [id],
  );
  return found.map(({ secret }) => secret);
}

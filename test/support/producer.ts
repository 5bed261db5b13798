/** A producer with a signing secret and HTTP, without a token. */
import { expect } from "vitest";
import { signDelivery } from "#lib/receiver/sign.ts";
import type { Answer, ServiceUnderTest, TestApi } from "./api.ts";
import { createTenant, type Json, type Tenant } from "./tenant.ts";

export const PRODUCER_SCOPES = [
  "events:publish",
  "events:read",
  "credentials:read",
  "credentials:write",
  "credentials:revoke",
] as const;

export interface Producer {
  readonly tenant: Tenant;
  readonly keyId: string;
  readonly secret: string;
}

/** Creates a signing secret for the credential of the tenant's token. */
export async function makeSigningSecret(tenant: Tenant, body: Json = {}): Promise<string> {
  const answer = await tenant.post(`/v1/credentials/${tenant.credentialId}/signing-secret`, body);
  expect(answer).toMatchObject({ status: 201 });
  return String(answer.body["secret"]);
}

export async function createProducer(
  api: ServiceUnderTest,
  scopes: readonly string[] = PRODUCER_SCOPES,
): Promise<Producer> {
  const tenant = await createTenant(api, scopes);
  return { tenant, keyId: tenant.credentialId, secret: await makeSigningSecret(tenant) };
}

export interface SignedParts {
  /** The exact bytes to send. */
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Returns Unix seconds of the process under test. */
export function seconds(api: TestApi): number {
  return Math.floor(api.clock.now() / 1_000);
}

/** Returns a correctly signed producer request: `sha256=` over a body with `id` and `sent_at`. */
export function signed(
  { keyId, secret }: Pick<Producer, "keyId" | "secret">,
  event: Json & { readonly id: string },
  sentAt: number,
): SignedParts {
  const body = JSON.stringify({ ...event, sent_at: sentAt });
  const { sha256 } = signDelivery({
    secret,
    body: Buffer.from(body),
    id: "unused",
    timestampSeconds: sentAt,
  });
  return {
    body,
    headers: {
      "content-type": "application/json",
      "x-service-key-id": keyId,
      "x-service-timestamp": String(sentAt),
      "x-service-signature-256": sha256,
    },
  };
}

/** Like {@link signed}, with the headers of Standard Webhooks. */
export function signedV1(
  { keyId, secret }: Pick<Producer, "keyId" | "secret">,
  { id, body, sentAt }: { readonly id: string; readonly body: string; readonly sentAt: number },
): SignedParts {
  const { v1 } = signDelivery({ secret, body: Buffer.from(body), id, timestampSeconds: sentAt });
  return {
    body,
    headers: {
      "content-type": "application/json",
      "x-service-key-id": keyId,
      "webhook-id": id,
      "webhook-timestamp": String(sentAt),
      "webhook-signature": v1,
    },
  };
}

export async function sendSigned(api: ServiceUnderTest, { body, headers }: SignedParts): Promise<Answer> {
  return await api.request("/v1/events", { method: "POST", body, headers });
}

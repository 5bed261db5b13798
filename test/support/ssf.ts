/** Receivers of security events for tests: streams of a tenant, and their tokens verified with jose. */
import { createRemoteJWKSet, jwtVerify } from "jose";
import { expect } from "vitest";
import { CAEP_EVENTS } from "#domain/security-events.ts";
import type { ServiceUnderTest } from "./api.ts";
import { eventually } from "./eventually.ts";
import type { ReceivedRequest, Receiver } from "./receiver-server.ts";
import { accessToken, provision } from "./factories.ts";
import { asTenant, type Json, type Tenant } from "./tenant.ts";

export const PUSH = "urn:ietf:rfc:8935";
const SSF_SCOPES = [
  "ssf:manage",
  "ssf:read",
  "webhooks:read",
  "webhooks:write",
  "webhooks:replay",
  "credentials:revoke",
];
export const ACCEPTED = { kind: "answer", status: 202 } as const;
export const AUTHORIZATION = "Bearer of-the-receiver";

/** Claims of a token. */
export interface SetClaims {
  readonly jti: string;
  readonly iat: number;
  readonly txn: string;
  readonly sub_id: Json;
  readonly events: Readonly<Record<string, Json>>;
}

/** Creates a client that may manage streams, of a new tenant by default. */
export async function streamTenant(api: ServiceUnderTest, tenantId?: string): Promise<Tenant> {
  const of = tenantId === undefined ? {} : { tenantId };
  const client = await provision(api, { scopes: SSF_SCOPES, ...of });
  return asTenant(api, client, await accessToken(api, client));
}

/** Verifies a token with the published keys, as a service with a JWT library does. */
export async function verifiedSet(
  api: Pick<ServiceUnderTest, "publicUrl">,
  token: string,
  streamId: string,
): Promise<SetClaims> {
  const { payload, protectedHeader } = await jwtVerify(
    token,
    createRemoteJWKSet(new URL(`${api.publicUrl}/.well-known/jwks.json`)),
    { issuer: api.publicUrl, audience: streamId, typ: "secevent+jwt" },
  );
  expect(protectedHeader.kid).toEqual(expect.any(String));
  // SSF 1.0 section 4.1: they would make it an access token.
  expect(payload).not.toHaveProperty("sub");
  expect(payload).not.toHaveProperty("exp");
  return payload as unknown as SetClaims;
}

export interface PushStream {
  readonly id: string;
  readonly endpointId: string;
}

/** Creates a push stream, and waits until its receiver has accepted the verification event. */
export async function pushStream(tenant: Tenant, receiver: Receiver, more: Json = {}): Promise<PushStream> {
  receiver.answer([ACCEPTED]);
  const answer = await tenant.post("/v1/ssf/streams", {
    delivery: {
      method: PUSH,
      endpoint_url: `${receiver.url}/events`,
      authorization_header: AUTHORIZATION,
    },
    ...more,
  });
  expect(answer, answer.text).toMatchObject({ status: 201 });
  const { stream_id: id, endpoint_id: endpointId } = answer.body as Record<string, string>;
  await eventually(
    async () => (await tenant.get(`/v1/webhooks/endpoints/${endpointId}`)).body["state"] === "ACTIVE",
    "the stream's endpoint to be ACTIVE",
  );
  receiver.clear();
  return { id: id ?? "", endpointId: endpointId ?? "" };
}

/** Waits until a token with an event of this name has arrived, and returns its claims. */
export async function untilSet(
  api: Pick<ServiceUnderTest, "publicUrl">,
  receiver: Receiver,
  streamId: string,
  uri: string = CAEP_EVENTS["session-revoked"],
): Promise<{ readonly claims: SetClaims; readonly request: ReceivedRequest }> {
  return await eventually(async () => {
    for (const request of receiver.requests) {
      const claims = await verifiedSet(api, request.rawBody.toString(), streamId);
      if (uri in claims.events) {
        return { claims, request };
      }
    }
    return undefined;
  }, `a token with ${uri}`);
}

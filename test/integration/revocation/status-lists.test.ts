/** Status lists (draft-ietf-oauth-status-list): who has a place, and what a revocation sets. */
import { inflateSync } from "node:zlib";
import { createRemoteJWKSet, decodeJwt, jwtVerify } from "jose";
import { describe, expect, test } from "vitest";
import type { Answer } from "../../support/answer.ts";
import { useTestApi } from "../../support/api.ts";
import { bearer, grant, provision, type Provisioned } from "../../support/factories.ts";
import { startSecondApi } from "../../support/second-api.ts";
import { sql } from "../../support/tenant.ts";

const LISTED = "https://mesh.example/api";
const PLAIN = "urn:example:plain";
const SCOPES = ["credentials:read", "credentials:revoke"];
const api = useTestApi({
  environment: { SIGNET_RESOURCES: `${LISTED}, ${PLAIN}`, SIGNET_STATUS_LIST_AUDIENCES: LISTED },
});

interface Place {
  readonly idx: number;
  readonly uri: string;
}

async function token(client: Provisioned, resource = LISTED): Promise<string> {
  const answer = await api.token(grant(client, { resource }));
  expect(answer, answer.text).toMatchObject({ status: 200 });
  return String(answer.body["access_token"]);
}

function placeOf(accessToken: string): Place {
  const { status } = decodeJwt<{ status: { status_list: Place } }>(accessToken);
  return status.status_list;
}

const pathOf = (uri: string): string => new URL(uri).pathname;

async function read(uri: string, headers: Readonly<Record<string, string>> = {}): Promise<Answer> {
  return await api.request(pathOf(uri), { headers });
}

/** Verifies a list as a stranger does, and returns its bits. */
async function bitsOf(uri: string, list: string): Promise<Buffer> {
  const keys = createRemoteJWKSet(new URL(`${api.publicUrl}/.well-known/jwks.json`));
  const { payload } = await jwtVerify<{ status_list: { bits: number; lst: string }; ttl: number }>(list, keys, {
    typ: "statuslist+jwt",
    issuer: api.publicUrl,
    subject: uri,
    currentDate: new Date(api.clock.now()),
  });
  expect(payload.status_list.bits).toBe(1);
  return inflateSync(Buffer.from(payload.status_list.lst, "base64url"));
}

async function isRevoked(accessToken: string): Promise<boolean> {
  const { idx, uri } = placeOf(accessToken);
  const { status, text } = await read(uri);
  expect(status).toBe(200);
  const bits = await bitsOf(uri, text);
  return (((bits[idx >> 3] ?? 0) >> (idx & 7)) & 1) === 1;
}

async function revokeToken(client: Provisioned, accessToken: string): Promise<void> {
  const answer = await api.request("/v1/auth/revoke", {
    method: "POST",
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams({
      token: accessToken,
      client_id: client.clientId,
      client_secret: client.clientSecret,
    }),
  });
  expect(answer.status).toBe(200);
}

test("only tokens of the chosen audience have a place, and the service accepts them like others", async () => {
  const client = await provision(api);
  expect(decodeJwt(await token(client, PLAIN))).not.toHaveProperty("status");
  expect(decodeJwt(await token(client, "signet"))).not.toHaveProperty("status");
  const { idx, uri } = placeOf(await token(client));
  expect(idx).toBeLessThan(2 ** 20);
  expect(uri).toMatch(new RegExp(`^${api.publicUrl}/v1/status-lists/stl_[0-9a-z]{24}$`));
});

describe("a revocation sets the bits", () => {
  test("of the token, and of no other token of its client", async () => {
    const client = await provision(api);
    const [revoked, other] = [await token(client), await token(client)];
    expect(await isRevoked(revoked)).toBe(false);
    await revokeToken(client, revoked);
    expect(await isRevoked(revoked)).toBe(true);
    expect(await isRevoked(other)).toBe(false);
  });
});

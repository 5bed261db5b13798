/** Status lists (draft-ietf-oauth-status-list): who has a place, and what a revocation sets. */
import { randomBytes } from "node:crypto";
import { inflateSync } from "node:zlib";
import { getListFromStatusListJWT, getStatusListFromJWT } from "@sd-jwt/jwt-status-list";
import { createRemoteJWKSet, decodeJwt, jwtVerify } from "jose";
import { describe, expect, test } from "vitest";
import { createPool } from "#database/pool.ts";
import { forgetStatusLists, reservePlaces } from "#database/repositories/tokens/status-lists.ts";
import { StatusListClient } from "#lib/status-list/index.ts";
import { createLogger } from "#observability/logger.ts";
import { LIST_ENDS_MS, LIST_SIZE } from "#tokens/status-lists/places.ts";
import type { Answer } from "#test/support/answer.ts";
import { useTestApi } from "#test/support/api.ts";
import { bearer, grant, provision, type Provisioned } from "#test/support/factories.ts";
import { startSecondApi } from "#test/support/second-api.ts";
import { sql } from "#test/support/tenant.ts";

const LISTED = "https://mesh.example/api";
const PLAIN = "urn:example:plain";
const silent = createLogger({ level: "silent" });
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
  const { payload } = await jwtVerify<{ status_list: { bits: number; lst: string }; ttl: number }>(
    list,
    keys,
    {
      typ: "statuslist+jwt",
      issuer: api.publicUrl,
      subject: uri,
      currentDate: new Date(api.clock.now()),
    },
  );
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
  expect(uri).toMatch(new RegExp(`^${api.publicUrl}/.well-known/status-lists/stl_[0-9a-z]{24}$`));
});

async function operatorsRevoke(path: string, body: unknown = {}): Promise<void> {
  const answer = await api.admin("POST", path, body);
  expect(answer, answer.text).toMatchObject({ status: 200 });
}

test("a token whose place cannot be recorded is not handed out", async () => {
  const client = await provision(api);
  await token(client);
  await sql(api, "REVOKE INSERT ON status_list_tokens FROM signet_issuer");
  try {
    const { status, body } = await api.token(grant(client, { resource: LISTED }));
    expect(status).toBeGreaterThanOrEqual(500);
    expect(body).not.toHaveProperty("access_token");
    await token(client, PLAIN);
  } finally {
    await sql(api, "GRANT INSERT ON status_list_tokens TO signet_issuer");
  }
  await token(client);
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

  test("of a token that operators know only by its jti", async () => {
    const client = await provision(api);
    const [revoked, other] = [await token(client), await token(client)];
    await operatorsRevoke("/revocations", { kind: "jti", target: decodeJwt(revoked).jti });
    expect([await isRevoked(revoked), await isRevoked(other)]).toEqual([true, false]);
  });

  test.each(["credential", "principal", "tenant"] as const)(
    "of all tokens of a %s, and of no others",
    async (noun) => {
      const [client, stranger] = [await provision(api), await provision(api)];
      const tokens = [await token(client), await token(client)];
      const other = await token(stranger);
      const id = { credential: client.credentialId, principal: client.principalId, tenant: client.tenantId }[
        noun
      ];
      await operatorsRevoke(`/${noun}s/${id}/revoke`);
      expect(await Promise.all(tokens.map(isRevoked))).toEqual([true, true]);
      expect(await isRevoked(other)).toBe(false);
    },
  );

  test("by a tenant's client of its own credential", async () => {
    const client = await provision(api, { scopes: SCOPES });
    const listed = await token(client);
    const answer = await api.request(`/v1/credentials/${client.credentialId}/revoke`, {
      method: "POST",
      headers: bearer(await token(client, "signet")),
    });
    expect(answer.status).toBe(200);
    expect(await isRevoked(listed)).toBe(true);
  });

  test("of a tenant's old tokens after it was resumed, and of no new ones", async () => {
    const client = await provision(api);
    const old = await token(client);
    await operatorsRevoke(`/tenants/${client.tenantId}/revoke`);
    await operatorsRevoke(`/tenants/${client.tenantId}/resume`);
    const fresh = await token(client);
    expect([await isRevoked(old), await isRevoked(fresh)]).toEqual([true, false]);
  });

  test("of tokens that are bound to a revoked certificate", async () => {
    const client = await provision(api);
    const [bound, other] = [await token(client), await token(client)];
    const { idx } = placeOf(bound);
    const digest = randomBytes(32);
    const changed = await sql(
      api,
      "UPDATE status_list_tokens SET certificate = $1 WHERE place = $2 AND credential_id = $3 RETURNING place",
      [digest, idx, client.credentialId],
    );
    expect(changed).toHaveLength(1);
    await operatorsRevoke("/revocations", { kind: "cert", target: digest.toString("hex") });
    expect([await isRevoked(bound), await isRevoked(other)]).toEqual([true, false]);
  });
});

describe("the document", () => {
  test("has the media type, can be cached for the ttl, and is not sent again unchanged", async () => {
    const client = await provision(api);
    const listed = await token(client);
    const { uri } = placeOf(listed);
    const first = await read(uri);
    expect(Object.fromEntries(first.headers)).toMatchObject({
      "content-type": "application/statuslist+jwt",
      "cache-control": "public, max-age=15",
      "access-control-allow-origin": "*",
      vary: "accept-encoding",
    });
    const { iat, exp, ttl } = decodeJwt(first.text);
    expect(ttl).toBe(15);
    expect(Number(exp) - Number(iat)).toBe(300);
    const etag = first.headers.get("etag") ?? "";
    expect(await read(uri, { "if-none-match": etag })).toMatchObject({ status: 304, text: "" });
    await revokeToken(client, listed);
    const changed = await read(uri, { "if-none-match": etag });
    expect(changed.status).toBe(200);
    expect(await read(uri, { "if-none-match": changed.headers.get("etag") ?? "" })).toMatchObject({
      status: 304,
    });
  });

  test("is a JWT with gzip, whatever a client accepts", async () => {
    const { uri } = placeOf(await token(await provision(api)));
    for (const asked of [{}, { accept: "application/statuslist+cwt, application/statuslist+jwt;q=0.9" }]) {
      const { headers } = await read(uri, asked);
      expect(headers.get("content-type")).toBe("application/statuslist+jwt");
      expect(headers.get("content-encoding")).toBe("gzip");
      const etag = headers.get("etag") ?? "";
      expect(await read(uri, { ...asked, "if-none-match": etag })).toMatchObject({ status: 304 });
    }
  });

  test("is at the address that the metadata and the aggregation name", async () => {
    const { uri } = placeOf(await token(await provision(api)));
    const { body } = await api.request("/.well-known/oauth-authorization-server");
    expect(body["status_list_aggregation_endpoint"]).toBe(`${api.publicUrl}/.well-known/status-lists`);
    const aggregation = await api.request("/.well-known/status-lists");
    expect(aggregation.headers.get("content-type")).toMatch(/^application\/json/);
    expect(aggregation.body["status_lists"]).toContain(uri);
  });

  test.each([
    "stl_00000000000000000000000a",
    "rev_00000000000000000000000a",
    "..%2f..%2fetc",
    "%00",
    "stl_'; DROP TABLE status_lists; --",
    "9".repeat(3_000),
  ])("does not exist at %j", async (id) => {
    expect((await api.request(`/.well-known/status-lists/${id}`)).status).toBe(404);
  });

  test("takes no parameters: there are no historical lists", async () => {
    const { uri } = placeOf(await token(await provision(api)));
    expect((await api.request(`${pathOf(uri)}?time=1`)).status).toBe(400);
  });

  test("tells nothing of tenants: its claims are the same for all", async () => {
    const clients = [await provision(api), await provision(api)];
    const uris = await Promise.all(clients.map(async (client) => placeOf(await token(client)).uri));
    expect(new Set(uris).size).toBe(1);
    const { text } = await read(uris[0] ?? "");
    expect(Object.keys(decodeJwt(text)).toSorted()).toEqual([
      "exp",
      "iat",
      "iss",
      "status_list",
      "sub",
      "ttl",
    ]);
    expect(clients.some(({ tenantId }) => text.includes(tenantId))).toBe(false);
  });

  test("is what another implementation reads", async () => {
    const client = await provision(api);
    const [revoked, other] = [await token(client), await token(client)];
    await revokeToken(client, revoked);
    const list = getListFromStatusListJWT((await read(placeOf(revoked).uri)).text);
    expect([revoked, other].map((one) => list.getStatus(getStatusListFromJWT(one).idx))).toEqual([1, 0]);
    expect(list.statusList.length).toBe(2 ** 20);
  });

  test("is what our own client reads", async () => {
    const client = await provision(api);
    const [revoked, other] = [await token(client), await token(client)];
    const lists = new StatusListClient({ issuer: api.publicUrl, now: () => api.clock.now() });
    expect(await lists.isRevoked(decodeJwt(other))).toBe(false);
    await revokeToken(client, revoked);
    expect(await lists.isRevoked(decodeJwt(revoked))).toBe(false);
    api.clock.advance(15_000);
    expect(await lists.isRevoked(decodeJwt(revoked))).toBe(true);
    expect(await lists.isRevoked(decodeJwt(other))).toBe(false);
  });
});

describe("several processes", () => {
  test("share lists without sharing a place, and each serves what another one revoked", async () => {
    const second = await startSecondApi(api);
    try {
      const client = await provision(api);
      const request = async (process: Pick<typeof second, "request">): Promise<string> => {
        const { status, body } = await process.request("/v1/auth/token", {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify(grant(client, { resource: LISTED })),
        });
        expect(status).toBe(200);
        return String(body["access_token"]);
      };
      const tokens = await Promise.all(
        Array.from({ length: 300 }, async (_, at) => await request(at % 2 === 0 ? api : second)),
      );
      const places = tokens.map((one) => `${placeOf(one).uri} ${placeOf(one).idx}`);
      expect(new Set(places).size).toBe(tokens.length);
      expect(new Set(tokens.map((one) => decodeJwt(one).jti)).size).toBe(tokens.length);

      const revoked = tokens.find((_, at) => at % 2 === 1) ?? "";
      await revokeToken(client, revoked);
      const { idx, uri } = placeOf(revoked);
      for (const process of [api, second]) {
        const { text } = await process.request(pathOf(uri));
        expect(((await bitsOf(uri, text))[idx >> 3] ?? 0) & (1 << (idx & 7))).not.toBe(0);
      }
    } finally {
      await second.close();
    }
  });
});

/** How processes reserved 1,024 places before migration 0066. */
const OLDER_RESERVATION = `WITH open AS (
    SELECT id FROM status_lists WHERE reserved <= 1047552 AND created_at > $2 ORDER BY created_at DESC LIMIT 1 FOR UPDATE
  ), taken AS (
    UPDATE status_lists l SET reserved = l.reserved + 1024, last_reserved_at = $3
      FROM open WHERE l.id = open.id RETURNING l.number
  ), made AS (
    INSERT INTO status_lists (id, order_key, reserved, created_at, last_reserved_at)
    SELECT $1, '\\x00', 1024, $3, $3 WHERE NOT EXISTS (SELECT FROM open) RETURNING number
  )
  SELECT number FROM taken UNION ALL SELECT number FROM made`;

test("older processes reserve no places in newer lists, which have another order, and newer ones none in older", async () => {
  const pool = createPool({ url: api.database.url, role: "signet_issuer", max: 1, log: silent });
  const [now, openSince] = [new Date(api.clock.now() + 1_000), new Date(api.clock.now())];
  const reserving = { orderKey: Buffer.alloc(32), count: 1_024, size: LIST_SIZE, now, openSince };
  const own = async (id: string) => await reservePlaces(pool, { ...reserving, id });
  const ofOlder = async (id: string) =>
    (await pool.query<{ number: number }>(OLDER_RESERVATION, [id, openSince, now])).rows[0]?.number;
  try {
    const [first, older] = [await own("stl_a"), await ofOlder("stl_b")];
    const [second, olderAgain] = [await own("stl_c"), await ofOlder("stl_d")];
    expect([first.first, second.first]).toEqual([0, 1_024]);
    expect([second.number, olderAgain]).toEqual([first.number, older]);
    expect(older).not.toBe(first.number);
  } finally {
    await pool.end();
  }
});

describe("the end of a list", () => {
  test("comes after the last of its tokens; then its rows are removed", async () => {
    const client = await provision(api);
    const listed = await token(client);
    const { uri } = placeOf(listed);
    const pool = createPool({ url: api.database.url, role: "signet_worker", max: 1, log: silent });
    const forget = async (): Promise<number> =>
      await forgetStatusLists(pool, new Date(api.clock.now() - LIST_ENDS_MS), 100_000);
    const rows = async () =>
      await sql(api, "SELECT FROM status_list_tokens WHERE credential_id = $1", [client.credentialId]);
    try {
      api.clock.advance(1_000_000);
      await forget();
      expect((await read(uri)).status).toBe(200);
      expect(await rows()).toHaveLength(1);
      api.clock.advance(LIST_ENDS_MS);
      expect((await read(uri)).status).toBe(404);
      while ((await forget()) > 0);
      expect(await rows()).toHaveLength(0);
      expect((await api.request("/.well-known/status-lists")).body).toEqual({ status_lists: [] });
      const next = await token(client);
      expect(placeOf(next).uri).not.toBe(uri);
      expect(await isRevoked(next)).toBe(false);
    } finally {
      await pool.end();
    }
  });
});

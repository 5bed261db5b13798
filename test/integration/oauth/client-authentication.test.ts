/** The token endpoint reveals nothing about clients, and stores no secrets. */
import { Client } from "pg";
import { beforeEach, describe, expect, test } from "vitest";
import { newClientId, newClientSecret } from "#tokens/credentials/secret-format.ts";
import { Pepper } from "#crypto/pepper.ts";
import { type Answer, useTestApi } from "#test/support/api.ts";
import { randomBytes } from "node:crypto";
import { eventually } from "#test/support/eventually.ts";
import { accessToken, grant, provision, type Provisioned } from "#test/support/factories.ts";

const api = useTestApi();
let client: Provisioned;

beforeEach(async () => {
  client = await provision(api);
});

async function sql<Row>(text: string, values: unknown[] = []): Promise<Row[]> {
  const connection = new Client({ connectionString: api.database.adminUrl });
  await connection.connect();
  try {
    return (await connection.query(text, values)).rows as Row[];
  } finally {
    await connection.end();
  }
}

function claimsOf({ body }: Answer): Record<string, unknown> {
  const payload = String(body["access_token"]).split(".")[1] ?? "";
  return JSON.parse(Buffer.from(payload, "base64url").toString()) as Record<string, unknown>;
}

const pepper = () => new Pepper(Buffer.from(api.environment["SIGNET_PEPPER"] ?? "", "base64"));

async function addVersion(version: number, state: string): Promise<string> {
  const secret = newClientSecret("production", randomBytes);
  await sql(
    `INSERT INTO secret_versions (credential_id, version, tenant_id, mac, mac_key_id, state, issued_at)
     VALUES ($1, $2, $3, $4, $5, $6, now())`,
    [client.credentialId, version, client.tenantId, pepper().mac(secret), pepper().id, state],
  );
  return secret;
}

test("every rejected client gets the same answer, byte for byte, except for the request id", async () => {
  const suspended = await provision(api);
  await sql("UPDATE tenants SET state = 'SUSPENDED' WHERE id = $1", [suspended.tenantId]);
  const revoked = await provision(api);
  await sql("UPDATE credentials SET state = 'REVOKED' WHERE id = $1", [revoked.credentialId]);
  const retired = await provision(api);
  await sql("UPDATE secret_versions SET state = 'RETIRED' WHERE credential_id = $1", [retired.credentialId]);

  const named = (id: string, secret: string) => ({
    method: "POST",
    headers: {
      "content-type": "application/x-www-form-urlencoded",
      authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString("base64")}`,
    },
    body: "grant_type=client_credentials",
  });
  const byBasic = await Promise.all(
    [client, suspended, revoked, retired]
      .map(({ clientId, clientSecret }, index) => named(clientId, index === 0 ? "wrong" : clientSecret))
      .map(async (init) => await api.request("/v1/auth/token", init)),
  );
  const answers = await Promise.all(
    [
      { grant_type: "client_credentials" },
      grant({ ...client, clientSecret: "" }),
      grant({ ...client, clientId: newClientId(randomBytes) }),
      grant({ ...client, clientSecret: newClientSecret("production", randomBytes) }),
      grant({ ...client, clientSecret: "not even a secret" }),
      grant({ ...client, clientId: "not even an id" }),
      grant({ ...suspended, clientId: client.clientId }),
      grant(suspended),
      grant(revoked),
      grant(retired),
    ].map(async (parameters) => await api.token(parameters)),
  );
  const bare = ({ status, headers, text }: Answer): string => {
    const id = headers.get("x-request-id") ?? "";
    const names = [...headers]
      .filter(([name]) => name !== "date")
      .map(([name, value]) => [name, value.replace(id, "")]);
    return JSON.stringify([status, names, text.replace(id, "")]);
  };
  expect(answers[0]).toMatchObject({ status: 401, body: { code: "INVALID_CLIENT" } });
  expect(new Set(answers.map(bare)).size).toBe(1);
  expect(new Set(byBasic.map(bare)).size).toBe(1);
  // Only the Basic challenge differs.
  const body = ({ headers, text }: Answer): string => text.replace(headers.get("x-request-id") ?? "", "");
  expect(new Set([...answers, ...byBasic].map(body)).size).toBe(1);
});

describe("versions of a secret", () => {
  test.each(["PENDING", "ACTIVE", "RETIRING"])(
    "a version that is %s yields a token that names it",
    async (state) => {
      const secret = await addVersion(2, state);
      const token = await accessToken(api, { ...client, clientSecret: secret });
      expect(JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString())).toMatchObject({
        cv: 2,
      });
      await accessToken(api, client);
    },
  );

  test.each(["RETIRED", "REVOKED"])("a version that is %s yields none", async (state) => {
    const secret = await addVersion(2, state);
    expect(await api.token(grant({ ...client, clientSecret: secret }))).toMatchObject({ status: 401 });
    await accessToken(api, client);
  });
});

test("a revoked or suspended client gets no tokens from the next request on", async () => {
  await accessToken(api, client);
  await sql("UPDATE tenants SET state = 'SUSPENDED' WHERE id = $1", [client.tenantId]);
  expect(await api.token(grant(client))).toMatchObject({ status: 401 });
  await sql("UPDATE tenants SET state = 'ACTIVE' WHERE id = $1", [client.tenantId]);
  await accessToken(api, client);
  await sql("UPDATE credentials SET state = 'REVOKED' WHERE id = $1", [client.credentialId]);
  expect(await api.token(grant(client))).toMatchObject({ status: 401 });
});

test("concurrent requests of different clients each get the right answer", async () => {
  const clients = await Promise.all(Array.from({ length: 5 }, async () => await provision(api)));
  const wrong = newClientSecret("production", randomBytes);
  const answers = await Promise.all(
    Array.from({ length: 60 }, async (_, index) => {
      const one = clients[index % clients.length] ?? client;
      const right = index % 3 !== 0;
      const answer = await api.token(grant(right ? one : { ...one, clientSecret: wrong }));
      return { right, one, answer };
    }),
  );
  const outcome = answers.map(({ one, answer }) => ({
    status: answer.status,
    subject: answer.status === 200 ? claimsOf(answer)["sub"] : null,
    clientId: one.clientId,
  }));
  expect(outcome).toEqual(
    answers.map(({ right, one: { clientId } }) => ({
      status: right ? 200 : 401,
      subject: right ? clientId : null,
      clientId,
    })),
  );
});

describe("last use", () => {
  const lastUsed = async (): Promise<Date | null> => {
    const rows = await sql<{ last_used_at: Date | null }>(
      "SELECT last_used_at FROM secret_versions WHERE credential_id = $1",
      [client.credentialId],
    );
    return rows[0]?.last_used_at ?? null;
  };
  const written = async (): Promise<Date> =>
    await eventually(async () => (await lastUsed()) ?? undefined, "the last use to be written");

  test("is written only after a success", async () => {
    await api.token(grant({ ...client, clientSecret: newClientSecret("production", randomBytes) }));
    const other = await provision(api);
    await accessToken(api, other);
    await eventually(
      async () =>
        (
          await sql("SELECT 1 FROM secret_versions WHERE credential_id = $1 AND last_used_at IS NOT NULL", [
            other.credentialId,
          ])
        ).length === 1,
      "the other client's use",
    );
    expect(await lastUsed()).toBeNull();
  });

  test("is written at most once a minute", async () => {
    await accessToken(api, client);
    const first = await written();
    // The rest of the minute is for a busy machine: the clock also runs.
    api.clock.advance(30_000);
    await accessToken(api, client);
    const other = await provision(api);
    await accessToken(api, other);
    await eventually(
      async () =>
        (
          await sql("SELECT 1 FROM secret_versions WHERE credential_id = $1 AND last_used_at IS NOT NULL", [
            other.credentialId,
          ])
        ).length === 1,
      "the later use",
    );
    expect(await lastUsed()).toEqual(first);
    api.clock.advance(30_000);
    await accessToken(api, client);
    await eventually(async () => (await lastUsed())?.getTime() !== first.getTime(), "the use a minute later");
  });
});

test("the database holds no secret, only a MAC that needs the pepper", async () => {
  const rows = await sql<{ mac: Buffer; row: string }>(
    "SELECT v.mac, v::text || c::text AS row FROM secret_versions v JOIN credentials c ON c.id = v.credential_id WHERE c.id = $1",
    [client.credentialId],
  );
  expect(rows[0]?.mac).toEqual(pepper().mac(client.clientSecret));
  expect(rows[0]?.row).not.toContain(client.clientSecret);
});

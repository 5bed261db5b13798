/** Signing keys and key-encryption keys for operators: API, command line, and effects in every process. */
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Environment, loadConfig } from "#config/config.ts";
import { createLogger } from "#observability/logger.ts";
import { type ApiProcess, startApi } from "#processes/api.ts";
import { useTestApi } from "#test/support/api.ts";
import { type CommandRun, runSignet } from "#test/support/command-line.ts";
import { eventually } from "#test/support/eventually.ts";
import { accessToken, bearer, grant, provision, type Provisioned } from "#test/support/factories.ts";
import { call } from "#test/support/https-request.ts";
import { withoutPause } from "#test/support/pauses.ts";
import { createTenant, sql } from "#test/support/tenant.ts";

const HOUR = 3_600_000;

async function cli(environment: Environment, ...argv: string[]): Promise<CommandRun> {
  return await runSignet(argv, environment);
}

function kidOf(token: string): string {
  return (JSON.parse(Buffer.from(token.split(".")[0] ?? "", "base64url").toString()) as { kid: string }).kid;
}

describe.each(["ES256", "RS256", "Ed25519"])("with %s", (alg) => {
  const api = useTestApi({ environment: { SIGNET_JWT_ALG: alg } });
  let client: Provisioned;
  let second: ApiProcess;

  beforeAll(async () => {
    client = await provision(api);
    const config = {
      ...loadConfig(api.environment),
      databaseUrl: api.database.url,
      temporalAddress: "127.0.0.1:1",
    };
    const elsewhere = { host: "127.0.0.1", port: 0 };
    second = await startApi({
      config: { ...config, apiListen: elsewhere, adminListen: elsewhere },
      log: createLogger({ level: "silent" }),
      clock: api.clock,
    });
  });
  afterAll(async () => {
    await second.close();
  });

  const onSecond = async (token: string) =>
    await call("/v1/credentials", { port: second.publicAddress.port, headers: bearer(token) });
  const onFirst = async (token: string) => await api.request("/v1/credentials", { headers: bearer(token) });
  const jwks = async () =>
    (await api.request("/.well-known/jwks.json")).body["keys"] as Record<string, string>[];

  test("tokens are signed and verified in every process, and no private member is published", async () => {
    const token = await accessToken(api, client);
    expect((await onFirst(token)).status).toBe(200);
    expect((await onSecond(token)).status).toBe(200);
    const keys = await jwks();
    // One of access tokens, and one of security events.
    expect(keys.map((key) => key["alg"])).toEqual([alg, alg]);
    for (const name of ["d", "p", "q", "dp", "dq", "qi", "oth", "k"]) {
      expect(keys.some((key) => name in key)).toBe(false);
    }
  });

  test("revoking the key invalidates its tokens in every process within 250 ms, and new ones are issued", async () => {
    await withoutPause(async () => {
      const token = await accessToken(api, client);
      expect((await onSecond(token)).status).toBe(200);
      const kid = kidOf(token);
      const revoked = await cli(api.environment, "keys", "revoke", kid, "--reason", "leaked", "--json");
      const at = performance.now();
      expect(JSON.parse(revoked.stdout)).toMatchObject({ kid, state: "GONE", revocation_reason: "leaked" });
      for (const ask of [onSecond, onFirst]) {
        let lastAdmitted = at;
        await eventually(async () => {
          const sentAt = performance.now();
          const { status } = await ask(token);
          lastAdmitted = status === 200 ? sentAt : lastAdmitted;
          return status === 401;
        }, "the token to be rejected");
        expect(lastAdmitted - at).toBeLessThan(250);
      }
      expect((await onFirst(token)).body).toMatchObject({ code: "TOKEN_REVOKED" });
    });
    const fresh = await accessToken(api, client);
    expect(await onFirst(fresh)).toMatchObject({ status: 200 });
    expect(await onSecond(fresh)).toMatchObject({ status: 200 });
  });

  test("a rotation publishes the next key at once and signs with it an hour later, and old tokens remain valid", async () => {
    const token = await accessToken(api, client);
    const before = (await jwks())[0]?.["kid"];
    const next = JSON.parse((await cli(api.environment, "keys", "rotate", "--json")).stdout) as Record<
      string,
      string
    >;
    expect(next).toMatchObject({ alg, state: "NEXT", retired_at: null });
    await eventually(async () => (await jwks()).length === 3, "the next key to be published");
    const listed = await cli(api.environment, "keys", "list");
    expect(listed.stdout).toMatch(new RegExp(`${before} +access +${alg} +CURRENT`));
    api.clock.advance(HOUR - 60_000);
    const last = await accessToken(api, client);
    api.clock.advance(120_000);
    const first = await accessToken(api, client);
    expect([kidOf(last), kidOf(first)]).toEqual([before, next["kid"]]);
    expect(await onFirst(last)).toMatchObject({ status: 200 });
    expect(await onSecond(first)).toMatchObject({ status: 200 });
    expect((await onFirst(token)).body).toMatchObject({ code: "TOKEN_EXPIRED" });
  });
});

describe("bad requests", () => {
  const api = useTestApi();

  test.each([
    ["/signing-keys/short/revoke", { reason: "x" }, 404],
    [`/signing-keys/${"x".repeat(43)}/revoke`, { reason: "x" }, 404],
    [`/signing-keys/${"x".repeat(43)}/revoke`, {}, 422],
    [`/signing-keys/${"x".repeat(43)}/revoke`, { reason: "\0" }, 400],
    [`/signing-keys/${"x".repeat(43)}/revoke`, { reason: "a\nb" }, 422],
    [`/signing-keys/${"x".repeat(43)}/revoke`, { reason: "x", more: 1 }, 422],
    ["/key-encryption/rewrap", { cursor: "%%%" }, 422],
    ["/key-encryption/rewrap", { cursor: Buffer.from("credentials|").toString("base64url") }, 400],
    ["/key-encryption/rewrap", { cursor: Buffer.from("tenants|' OR 1=1").toString("base64url") }, 400],
  ])("%s %j is refused", async (path, body, status) => {
    expect(await api.admin("POST", path, body)).toMatchObject({ status });
  });
});

describe("a new key-encryption key and a new pepper", () => {
  const old = { kek: randomBytes(32).toString("base64"), pepper: randomBytes(32).toString("base64") };
  const fresh = { kek: randomBytes(32).toString("base64"), pepper: randomBytes(32).toString("base64") };
  const api = useTestApi({ environment: { SIGNET_KEK: old.kek, SIGNET_PEPPER: old.pepper } });
  const running: ApiProcess[] = [];

  async function startWith(settings: Record<string, string>) {
    const environment = {
      ...api.environment,
      SIGNET_API_LISTEN: "127.0.0.1:0",
      SIGNET_ADMIN_LISTEN: "127.0.0.1:0",
      ...settings,
    };
    const process = await startApi({
      config: { ...loadConfig(environment), databaseUrl: api.database.url, temporalAddress: "127.0.0.1:1" },
      log: createLogger({ level: "silent" }),
    });
    running.push(process);
    const port = String(process.adminAddress.port);
    const request = async (path: string, init: RequestInit) =>
      await fetch(`http://127.0.0.1:${process.publicAddress.port}${path}`, init);
    return {
      cli: async (...argv: string[]) =>
        await cli({ ...environment, SIGNET_ADMIN_LISTEN: `127.0.0.1:${port}` }, ...argv),
      request,
      token: async (client: Provisioned) =>
        await request("/v1/auth/token", {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify(grant(client)),
        }),
    };
  }
  afterAll(async () => {
    await Promise.all(running.map(async (process) => await process.close()));
  });

  test("rewrapping works in batches while the service runs, after which nothing needs the old key", async () => {
    const tenant = await createTenant(api);
    const endpoint = { url: "http://127.0.0.1:19999/hook", events: ["a.b"] };
    const { secret } = (await tenant.post("/v1/webhooks/endpoints", endpoint, { "idempotency-key": "again" }))
      .body;
    const many = await sql(
      api,
      `INSERT INTO tenants (id, name, region, data_key, created_at)
       SELECT 'ten_' || lpad(n::text, 24, '0'), 'many', 'eu', 'v1.00000000.a.b.c', now()
         FROM generate_series(1, 5) n RETURNING id`,
    );
    expect(many).toHaveLength(5);
    for (let count = 0; count < 120; count += 1) {
      await api.admin("POST", "/tenants", { name: "more", region: "eu" });
    }
    const both = await startWith({ SIGNET_KEK: fresh.kek, SIGNET_KEK_PREVIOUS: old.kek });
    const first = await both.cli("keys", "rewrap", "--json");
    // The five unreadable ones are listed and do not prevent the others.
    expect(first.code).toBe(1);
    expect(JSON.parse(first.stdout)).toMatchObject({
      rewrapped: 123,
      unreadable: many.map((row) => row["id"]),
    });
    await sql(api, "DELETE FROM tenants WHERE name = 'many'");
    const again = await both.cli("keys", "rewrap", "--json");
    expect(again.code).toBe(0);
    expect(JSON.parse(again.stdout)).toMatchObject({ rewrapped: 0, unreadable: [] });
    const [counts] = await sql(
      api,
      "SELECT count(DISTINCT split_part(data_key, '.', 2))::int AS tenants, (SELECT count(*)::int FROM clog WHERE type = 'key.rewrapped') AS entries FROM tenants",
    );
    expect(counts).toEqual({ tenants: 1, entries: 3 });

    // The new key alone signs tokens and opens the endpoint's secret.
    const alone = await startWith({ SIGNET_KEK: fresh.kek });
    const { access_token: token } = (await (await alone.token(tenant)).json()) as { access_token: string };
    const shown = await alone.request("/v1/webhooks/endpoints", {
      method: "POST",
      headers: { ...bearer(token), "content-type": "application/json", "idempotency-key": "again" },
      body: JSON.stringify(endpoint),
    });
    expect(await shown.json()).toMatchObject({ secret });
  });

  test("a client that signs in moves to the new pepper and then no longer needs the old one", async () => {
    const client = await provision(api);
    const macKey = async () =>
      (
        await sql<{ mac_key_id: string }>(
          api,
          "SELECT mac_key_id FROM secret_versions WHERE credential_id = $1",
          [client.credentialId],
        )
      )[0]?.mac_key_id;
    const before = await macKey();
    const kek = { SIGNET_KEK: old.kek, SIGNET_KEK_PREVIOUS: fresh.kek };
    const both = await startWith({ ...kek, SIGNET_PEPPER: fresh.pepper, SIGNET_PEPPER_PREVIOUS: old.pepper });
    const alone = await startWith({ ...kek, SIGNET_PEPPER: fresh.pepper });
    expect((await alone.token(client)).status).toBe(401);
    const answers = await Promise.all(
      Array.from({ length: 20 }, async () => (await both.token(client)).status),
    );
    expect(new Set(answers)).toEqual(new Set([200]));
    await eventually(async () => (await macKey()) !== before, "the MAC under the new pepper");
    expect((await alone.token(client)).status).toBe(200);
    // A process that has only the old pepper no longer knows the client.
    expect((await api.token(grant(client))).status).toBe(401);
  });
});

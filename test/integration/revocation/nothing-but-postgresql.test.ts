/**
 * A revocation, and each other change of a credential, needs nothing but PostgreSQL. Its events follow, each once, when
 * what they need is there again.
 */
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chown, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { KMS } from "@aws-sdk/client-kms";
import { Client } from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from "vitest";
import { useTestApi } from "#test/support/api.ts";
import { AWS_REGION, type AwsServer, startAwsServer, withoutAwsServer } from "#test/support/aws-server.ts";
import { useTestEdge } from "#test/support/edge.ts";
import { eventually } from "#test/support/eventually.ts";
import { accessToken, bearer, grant, provision, type Provisioned } from "#test/support/factories.ts";
import { allowMinutes } from "#test/support/limits.ts";
import { startOwnDatabase } from "#test/support/own-database.ts";
import { openTelling, tellOfRevocations } from "#test/support/revocation-notices.ts";
import { type SecondApi, startSecondApi } from "#test/support/second-api.ts";
import { skipUnless } from "#test/support/skips.ts";
import { streamTenant } from "#test/support/ssf.ts";
import { startTcpProxy, type TcpProxy } from "#test/support/tcp-proxy.ts";
import { createEndpoint, createTenant, type Json, sql, type Tenant } from "#test/support/tenant.ts";

// The first run builds the key service.
allowMinutes(10);

const run = promisify(execFile);
const SCOPES = ["inference:read", "webhooks:read"];
const mayMount = process.getuid?.() === 0;

describe.skipIf(withoutAwsServer("Local KMS", "revocations without a key service"))("a revocation", () => {
  let aws: AwsServer;
  let kms: KMS;
  let keyService: TcpProxy;
  let small: string | undefined;
  const environment: Record<string, string> = {};
  beforeAll(async () => {
    aws = await startAwsServer("Local KMS");
    kms = new KMS({ region: AWS_REGION });
    const key = await kms.createKey({});
    keyService = await startTcpProxy(Number(new URL(aws.url).port));
    process.env["AWS_ENDPOINT_URL_KMS"] = `http://127.0.0.1:${keyService.port}`;
    Object.assign(environment, { SIGNET_KEK: "", SIGNET_KEK_KMS: key.KeyMetadata?.Arn ?? "" });
  });
  afterAll(async () => {
    keyService.thaw();
    kms.destroy();
    await keyService.close();
    await aws.close();
    if (small !== undefined) {
      await run("umount", ["--lazy", small]);
      await rm(small, { recursive: true });
    }
  });
  // After the server, whose key it uses.
  const api = useTestApi({ environment, database: startOwnDatabase });
  const edge = useTestEdge(api);
  let tenant: Tenant;
  let streams: readonly string[];
  let restarted: SecondApi;

  /** A new tenant with two streams and an endpoint that takes everything. */
  async function newTenant(): Promise<{ readonly tenant: Tenant; readonly streams: readonly string[] }> {
    const made = await streamTenant(api);
    await createEndpoint(api, made, { events: ["*"] });
    const answers = [await made.post("/v1/ssf/streams", {}), await made.post("/v1/ssf/streams", {})];
    return { tenant: made, streams: answers.map(({ body }) => String(body["stream_id"])) };
  }

  beforeEach(async () => {
    ({ tenant, streams } = await newTenant());
    // A process that has no tenant's key, without Temporal.
    const settings = { ...api.environment, TEMPORAL_ADDRESS: "127.0.0.1:1" };
    restarted = await startSecondApi({ database: api.database, environment: settings });
    return async () => await restarted.close();
  });

  const json = (token: string, body: Json) => ({
    method: "POST",
    headers: { ...bearer(token), "content-type": "application/json" },
    body: JSON.stringify(body),
  });

  interface Holder extends Provisioned {
    readonly token: string;
  }

  async function holder(): Promise<Holder> {
    const client = await provision(api, { tenantId: tenant.tenantId, scopes: SCOPES });
    return { ...client, token: await accessToken(api, client) };
  }

  async function verdicts({ token }: Holder): Promise<readonly unknown[]> {
    const headers = bearer(token);
    const atEdge = await fetch(`${edge.url}/v1/inference/x`, { headers });
    const atApi = await api.request("/v1/webhooks/endpoints", { headers });
    return [atEdge.status, atApi.status, atApi.body["code"]];
  }

  /** Counts the events of revocations: `credential.revoked`, and `session-revoked` in the queues of streams. */
  async function told(of: Tenant = tenant, ids = streams): Promise<readonly [own: number, queued: number]> {
    const own = await sql(api, "SELECT FROM events WHERE tenant_id = $1 AND type = 'credential.revoked'", [
      of.tenantId,
    ]);
    const queued = await sql(
      api,
      `SELECT FROM ssf_polled_sets s JOIN events e ON e.id = s.event_id
        WHERE s.stream_id = ANY ($1::text[]) AND e.type = 'signet.session_revoked'`,
      [ids],
    );
    return [own.length, queued.length];
  }

  async function waiting(): Promise<number> {
    return (await sql(api, "SELECT FROM revocation_notices")).length;
  }

  /** Revokes of every kind. Each is answered with 200, and its tokens are refused. */
  async function revokeAll(): Promise<void> {
    const [credential, principal, token, leaked] = victims;
    for (const victim of victims) {
      expect((await verdicts(victim)).slice(0, 2)).toEqual([200, 200]);
    }
    const leak = json(tenant.token, { reason: "leaked" });
    const path = `/v1/credentials/${credential.credentialId}/revoke`;
    expect(await restarted.request(path, leak)).toMatchObject({ status: 200 });
    const operators = await api.admin("POST", `/principals/${principal.principalId}/revoke`, { reason: "x" });
    expect(operators).toMatchObject({ status: 200 });
    const form = { method: "POST", body: new URLSearchParams({ ...grantOf(token), token: token.token }) };
    expect(await restarted.request("/v1/auth/revoke", form)).toMatchObject({ status: 200 });
    const target = json(tenant.token, { target: leaked.clientSecret, scope: "tenant" });
    expect(await restarted.request("/v1/revocations", target)).toMatchObject({ status: 200 });
    for (const victim of victims) {
      expect(await verdicts(victim)).toEqual([401, 401, "TOKEN_REVOKED"]);
    }
  }

  function grantOf(client: Provisioned): Record<string, string> {
    const { client_id: id, client_secret: secret } = grant(client);
    return { client_id: String(id), client_secret: String(secret) };
  }

  let victims: readonly [Holder, Holder, Holder, Holder];
  beforeEach(async () => {
    victims = [await holder(), await holder(), await holder(), await holder()];
    // Of the new credentials.
    await tellAll();
  });

  /** Two workers at once, until nothing waits. */
  async function tellAll(): Promise<void> {
    await eventually(async () => {
      await Promise.all([tellOfRevocations(api), tellOfRevocations(api)]);
      return (await waiting()) === 0;
    }, "all events to be published");
  }

  /** Two credentials, a principal and a token, in two streams. */
  const ALL = [2, 2 * 4] as const;

  test("without the key service, in a process that holds no key, and without Temporal", async () => {
    const tell = await openTelling(api);
    keyService.freeze();
    try {
      await revokeAll();
      await expect(tell()).rejects.toThrow("cannot be unwrapped");
      expect([await told(), await waiting()]).toEqual([[0, 0], 4]);
    } finally {
      keyService.thaw();
    }
    await tellAll();
    expect(await told()).toEqual(ALL);
  });

  test("while another transaction locks the tenant's streams, which other tenants do not notice", async () => {
    const other = await newTenant();
    const { credentialId } = await provision(api, { tenantId: other.tenant.tenantId });
    const locking = new Client({ connectionString: api.database.adminUrl });
    await locking.connect();
    try {
      await locking.query("BEGIN");
      await locking.query("SELECT FROM ssf_streams WHERE tenant_id = $1 FOR UPDATE", [tenant.tenantId]);
      await revokeAll();
      await api.admin("POST", `/credentials/${credentialId}/revoke`, {});
      await expect(tellOfRevocations(api)).rejects.toThrow("lock timeout");
      expect([await told(), await told(other.tenant, other.streams)]).toEqual([
        [0, 0],
        [1, 2],
      ]);
    } finally {
      await locking.end();
    }
    await tellAll();
    expect(await told()).toEqual(ALL);
  });

  /** A client whose secret has a successor, which it has not used yet. */
  async function dueHolder(): Promise<Holder & { readonly next: string }> {
    const client = await provision(api, {
      tenantId: tenant.tenantId,
      scopes: [...SCOPES, "credentials:write"],
    });
    await sql(api, "UPDATE secret_versions SET due_at = now() - interval '1 s' WHERE credential_id = $1", [
      client.credentialId,
    ]);
    const { body } = await api.token(grant(client));
    const { client_secret: next } = body["credential_rotation"] as Record<string, string>;
    return { ...client, token: String(body["access_token"]), next: next ?? "" };
  }

  /** Creates credentials, rotates and replaces one, and changes scopes. Each is answered with success. */
  async function changeAll({ token, next, ...client }: Awaited<ReturnType<typeof dueHolder>>): Promise<void> {
    const created = await api.admin("POST", `/principals/${client.principalId}/credentials`, {
      san_uri: "spiffe://acme.example/billing",
    });
    expect(created, created.text).toMatchObject({ status: 201 });
    const rotated = new URLSearchParams({
      grant_type: "client_credentials",
      ...grantOf({ ...client, clientSecret: next }),
    });
    expect(await restarted.request("/v1/auth/token", { method: "POST", body: rotated })).toMatchObject({
      status: 200,
    });
    const replaced = await restarted.request(
      "/v1/credentials",
      json(token, { replaces: client.credentialId, overlap_seconds: 3_600 }),
    );
    expect(replaced, replaced.text).toMatchObject({ status: 201 });
    await api.admin("PATCH", `/roles/${client.roleId}`, { scopes: ["inference:read"] });
    const changed = await api.admin("POST", `/principals/${client.principalId}/reprovision`, {});
    expect(changed, changed.text).toMatchObject({ status: 200 });
  }

  /** Counts the streams' tokens of changes by their types. */
  async function changesTold(): Promise<Readonly<Record<string, number>>> {
    const rows = await sql<{ type: string; count: number }>(
      api,
      `SELECT e.type, count(*)::int AS count FROM ssf_polled_sets s JOIN events e ON e.id = s.event_id
        WHERE s.stream_id = ANY ($1::text[]) AND e.type IN ('signet.credential_change', 'signet.token_claims_change')
        GROUP BY e.type`,
      [streams],
    );
    return Object.fromEntries(rows.map(({ type, count }) => [type, count]));
  }

  /** In two streams: two new credentials, one with a certificate, which is an event of its own, and a rotation. */
  const CHANGES = { "signet.credential_change": 2 * 4, "signet.token_claims_change": 2 };

  test("or a new, rotated or replaced credential, and changed scopes, without the key service and with locked streams", async () => {
    const client = await dueHolder();
    await tellAll();
    const before = await changesTold();
    const locking = new Client({ connectionString: api.database.adminUrl });
    await locking.connect();
    keyService.freeze();
    try {
      await locking.query("BEGIN");
      await locking.query("SELECT FROM ssf_streams WHERE tenant_id = $1 FOR UPDATE", [tenant.tenantId]);
      await changeAll(client);
      expect([await changesTold(), await waiting()]).toEqual([before, 4]);
    } finally {
      await locking.end();
      keyService.thaw();
    }
    await tellAll();
    const after = await changesTold();
    for (const [type, count] of Object.entries(CHANGES)) {
      expect((after[type] ?? 0) - (before[type] ?? 0), type).toBe(count);
    }
  });

  test.skipIf(skipUnless(mayMount, "revocations with a full disk", "only root can mount one"))(
    "while the disk of the events is full",
    async () => {
      small = await mkdtemp(join(inject("runDirectory"), "small-"));
      await run("mount", ["-t", "tmpfs", "-o", "size=4m,mode=0700", "tmpfs", small]);
      const [place] = await sql<{ directory: string }>(
        api,
        "SELECT current_setting('data_directory') AS directory",
      );
      const { uid, gid } = await stat(place?.directory ?? "");
      await chown(small, uid, gid);
      await sql(api, `CREATE TABLESPACE small LOCATION '${small}'`);
      const parts = await sql<{ name: string }>(
        api,
        "SELECT oid::regclass::text AS name FROM pg_class WHERE relkind = 'r' AND relname ~ '^(events|deliveries)_'",
      );
      for (const { name } of parts) {
        await sql(api, `ALTER TABLE ${name} SET TABLESPACE small`);
      }
      const publisher = await createTenant(api, ["events:publish"]);
      const filler = join(small, "filler");
      await writeFile(filler, randomBytes(4 << 20)).catch(() => undefined);
      // Small ones fill the room that large ones leave in the last page.
      for (const length of [3_000, 100, 1]) {
        await eventually(async () => {
          const data = { text: randomBytes(length).toString("base64") };
          return (await publisher.post("/v1/events", { type: "a.b", data })).status >= 500;
        }, "no room for events");
      }
      await revokeAll();
      await expect(tellOfRevocations(api)).rejects.toThrow("No space left");
      await rm(filler);
      await tellAll();
      expect(await told()).toEqual(ALL);
    },
  );
});

/** Creates one of everything that operators and tenants can create, so that a release's record has rows in every table. */
import { generateKeyPairSync, randomBytes, randomUUID } from "node:crypto";
import { SignJWT } from "jose";
import { setLeaseKeys } from "#database/repositories/tokens/lease-keys.ts";
import { withClient } from "../bench/environment/postgres.ts";
import { accessToken, requestJson, signIn, type Tenant } from "../bench/environment/provision.ts";
import type { World } from "../bench/environment/world.ts";
import { eventually } from "../support/eventually.ts";

const SCOPES = [
  "compliance:read",
  "credentials:read",
  "credentials:revoke",
  "credentials:write",
  "events:publish",
  "events:read",
  "portal:sign_in",
  "ssf:manage",
  "ssf:read",
  "webhooks:read",
  "webhooks:replay",
  "webhooks:write",
];
/** A tile of the compliance log's tree is written when it is full: 256 entries. */
const ENTRIES = 260;
const TYPED = "release.typed";

/**
 * What other deployments have, with cells, hubs or an upgrade under way, and what a crash leaves: a cell whose first entries
 * are late, a day that is being dropped, an hour to count, and the list of a worker that is gone.
 */
const ELSEWHERE = `INSERT INTO cell_logs (cell, login) VALUES ('us', 'signet_cell_us');
  INSERT INTO cell_entries (cell, place, before_index, after_index, arrived_at) VALUES ('us', 7, '\\x7b', '\\x7d', now());
  INSERT INTO home_position (id, seq) VALUES (1, 0);
  INSERT INTO day_drops (day) VALUES (current_date - 40);
  INSERT INTO day_drop_lines (day, id) VALUES (current_date - 40, 'dlv_' || repeat('0', 24));
  INSERT INTO uncounted_hours (hour) VALUES (date_trunc('hour', now() - interval '1 day'));
  INSERT INTO unstarted_lists (carrier, worker, first_day, last_day, first_id, last_id, opened_at)
    SELECT 'bat_' || repeat('0', 24), 'gone', current_date, current_date, id, id, now()
    FROM (SELECT 'dlv_' || repeat('0', 24) AS id) d`;

type Json = Readonly<Record<string, unknown>>;

export class Everything {
  readonly #world: World;
  readonly #tenant: Tenant;
  #token = "";

  constructor(world: World, tenant: Tenant) {
    this.#world = world;
    this.#tenant = tenant;
  }

  async #operator(path: string, body: Json): Promise<Json> {
    const { signet, operatorToken } = this.#world;
    return await requestJson("POST", `${signet.adminUrl}${path}`, operatorToken, body);
  }

  async #tenants(path: string, body: Json, headers: Readonly<Record<string, string>> = {}): Promise<Json> {
    const response = await fetch(`${this.#world.signet.apiUrl}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${this.#token}`, "content-type": "application/json", ...headers },
      body: JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) {
      throw new Error(`${path}: ${response.status} ${text}`);
    }
    return (text === "" ? {} : JSON.parse(text)) as Json;
  }

  /** Waits until a table has rows. */
  async untilRows(table: string): Promise<void> {
    await withClient(this.#world.adminDatabaseUrl, async (client) => {
      await eventually(
        async () => (await client.query(`SELECT FROM ${table} LIMIT 1`)).rows.length === 1,
        `rows in ${table}`,
        180_000,
      );
    });
  }

  /** Creates a principal with every scope, and an operator with a token. */
  async provision(): Promise<void> {
    const { id } = this.#tenant;
    const role = await this.#operator(`/tenants/${id}/roles`, { name: "everything", scopes: SCOPES });
    const principal = await this.#operator(`/tenants/${id}/principals`, {
      name: "everything",
      role_id: role["id"],
      region: "eu",
      environment: "development",
    });
    const credentials = `/principals/${String(principal["id"])}/credentials`;
    const made = await this.#operator(credentials, {});
    const [clientId, clientSecret] = [String(made["client_id"]), String(made["client_secret"])];
    this.#token = await accessToken(this.#world.signet, { id, clientId, clientSecret });
    await this.#assert(credentials);
    const operator = await this.#operator("/operators", { name: "anna", role: "security" });
    const { token } = await this.#operator(`/operators/${String(operator["id"])}/tokens`, {});
    const { origin } = new URL(this.#world.signet.adminUrl);
    await signIn(`${origin}/portal/operator/sign-in`, { token: String(token) });
  }

  /** Requests a token with an assertion, whose id is stored until it expires. */
  async #assert(credentials: string): Promise<void> {
    const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const key = { ...publicKey.export({ format: "jwk" }), kid: "ec", alg: "ES256", use: "sig" };
    const { client_id: clientId } = await this.#operator(credentials, {
      rotation_mode: "workload",
      jwks: { keys: [key] },
    });
    const { apiUrl } = this.#world.signet;
    const claims = { iss: String(clientId), sub: String(clientId), aud: apiUrl, jti: randomUUID() };
    const assertion = await new SignJWT(claims)
      .setProtectedHeader({ alg: "ES256", kid: "ec" })
      .setIssuedAt()
      .setExpirationTime("60s")
      .sign(privateKey);
    await requestJson("POST", `${apiUrl}/v1/auth/token`, undefined, {
      grant_type: "client_credentials",
      client_assertion_type: "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
      client_assertion: assertion,
    });
  }

  /** Creates a tenant's objects: a typed event, an endpoint with every setting, a producer, a portal session. */
  async own(url: string): Promise<void> {
    const data = { type: "object", properties: { run: { type: "string" } } };
    await this.#tenants("/v1/webhooks/event-types", { name: TYPED, description: "A run", schema: data });
    const { id: endpoint } = await this.#tenants("/v1/webhooks/endpoints", {
      url,
      events: [TYPED],
      metadata: { team: "payments" },
      filter: { type: { $in: [TYPED] } },
      headers: { "X-Environment": "staging" },
      authentication: { type: "header", name: "Authorization", value: "Bearer sealed" },
      rate_limit: 2,
    });
    const path = `/v1/webhooks/endpoints/${String(endpoint)}`;
    const { apiUrl } = this.#world.signet;
    await eventually(
      async () => (await requestJson("GET", `${apiUrl}${path}`, this.#token))["state"] === "ACTIVE",
      "the endpoint with every setting",
    );
    await this.#tenants(`${path}/grade`, {});
    await this.#tenants(`${path}/secret/rotate`, {});
    const made = await this.#tenants("/v1/credentials", {}, { "idempotency-key": "one" });
    await this.#tenants(`/v1/credentials/${String(made["id"])}/signing-secret`, {});
    // The revocation waits in the queue of this stream.
    const { stream_id: stream } = await this.#tenants("/v1/ssf/streams", {});
    const subject = { format: "opaque", id: "other" };
    await this.#tenants("/v1/ssf/subjects/remove", { stream_id: stream, subject });
    const revoked = await this.#tenants("/v1/credentials", {});
    await this.#tenants(`/v1/credentials/${String(revoked["id"])}/revoke`, { reason: "drill" });
    for (const signsIn of [true, false]) {
      const { url: link } = await this.#tenants("/v1/portal/links", {});
      if (signsIn) {
        const secret = new URL(String(link)).searchParams.get("link") ?? "";
        await signIn(`${this.#world.signet.apiUrl}/portal/sign-in`, { link: secret });
      }
    }
  }

  /** An event type with a schema that matches the bench's events. */
  get typed(): { readonly type: string; readonly token: string } {
    return { type: TYPED, token: this.#token };
  }

  /** Replays all failed deliveries in bulk; they fail again. */
  async replay(): Promise<void> {
    const { id } = await this.#tenants("/v1/webhooks/dlq/replay", { filter: {} });
    const url = `${this.#world.signet.apiUrl}/v1/webhooks/replays/${String(id)}`;
    await eventually(
      async () => (await requestJson("GET", url, this.#token))["state"] === "COMPLETED",
      "the replay to end",
      120_000,
    );
  }

  /** Replays one dead letter, which waits again. */
  async replayOne(): Promise<void> {
    const { apiUrl } = this.#world.signet;
    const { data } = await requestJson("GET", `${apiUrl}/v1/webhooks/dlq`, this.#token);
    const [letter] = data as readonly { readonly id: string }[];
    await this.#tenants(`/v1/webhooks/dlq/${letter?.id}/replay`, {});
  }

  /** Revokes while no worker runs, so that the notice waits, and stores what only other deployments have. */
  async elsewhere(): Promise<void> {
    const { id } = await this.#tenants("/v1/credentials", {});
    await this.#tenants(`/v1/credentials/${String(id)}/revoke`, { reason: "drill" });
    await withClient(this.#world.adminDatabaseUrl, async (client) => {
      await setLeaseKeys(client, [randomBytes(32)]);
      await client.query(ELSEWHERE);
    });
  }

  /** Fills a whole tile of the log and signs a checkpoint of it. */
  async log(): Promise<void> {
    const { signet, operatorToken } = this.#world;
    for (let entry = 0; entry < ENTRIES; entry += 1) {
      const response = await fetch(`${signet.adminUrl}/tenants/${this.#tenant.id}/limits`, {
        method: "PATCH",
        headers: { authorization: `Bearer ${operatorToken}`, "content-type": "application/json" },
        body: JSON.stringify({ endpoints: 100 + entry }),
      });
      if (!response.ok) {
        throw new Error(await response.text());
      }
    }
    for (const table of ["clog_tile", "clog_checkpoint", "dead_letter_counts"]) {
      await this.untilRows(table);
    }
  }
}

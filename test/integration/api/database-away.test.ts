/** What callers get while the database is down: a 503 that asks them to retry. */
import { decodeJwt } from "jose";
import { afterAll, beforeAll, expect, test } from "vitest";
import { useTestApi } from "#test/support/api.ts";
import { startDatabase, stopDatabase } from "#test/support/database-outage.ts";
import { accessToken, bearer, provision } from "#test/support/factories.ts";

const api = useTestApi({ environment: { SIGNET_STATUS_LIST_AUDIENCES: "signet" } });
const service = { config: { databaseUrl: "" } };
let headers: Record<string, string>;
let list: string;
let credentials: Record<string, string>;

beforeAll(async () => {
  service.config.databaseUrl = api.database.url;
  const client = await provision(api, { scopes: ["credentials:read", "events:publish"] });
  const token = await accessToken(api, client);
  headers = { ...bearer(token), "content-type": "application/json" };
  const { status } = decodeJwt<{ status: { status_list: { uri: string } } }>(token);
  list = new URL(status.status_list.uri).pathname;
  // Makes the list, which is then in memory.
  await api.request(list);
  credentials = { client_id: client.clientId, client_secret: client.clientSecret };
  await stopDatabase(service);
});

afterAll(async () => {
  await startDatabase(service);
});

test.each([
  ["GET", "/v1/credentials", undefined],
  ["POST", "/v1/events", JSON.stringify({ type: "inference.completed", data: {} })],
])("%s %s answers 503 with Retry-After and does not mention the database", async (method, path, body) => {
  const answer = await api.requestOnce(path, { method, headers, ...(body === undefined ? {} : { body }) });
  expect(answer.status).toBe(503);
  expect(answer.headers.get("retry-after")).toMatch(/^\d+$/);
  // Without the database, the revocation state soon becomes stale too.
  expect(["UNAVAILABLE", "REVOCATION_STALE"]).toContain(answer.body["code"]);
  expect(answer.text).not.toMatch(/database|postgres|connection/i);
});

test("a status list is not served once revocations are unknown, though it was made before", async () => {
  const status = async (): Promise<number> => (await api.requestOnce(list)).status;
  await expect.poll(status, { timeout: 50_000 }).toBe(503);
});

test("the token endpoint answers temporarily_unavailable", async () => {
  const answer = await api.token({ ...credentials, grant_type: "client_credentials" });
  expect(answer.status).toBe(503);
  expect(answer.headers.get("retry-after")).toMatch(/^\d+$/);
  expect(answer.body).toMatchObject({ error: "temporarily_unavailable", code: "UNAVAILABLE" });
});

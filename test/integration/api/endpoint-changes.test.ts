/** Changes, disabling and enabling of an endpoint, without a worker: each answer and its effects. */
import { describe, expect, test } from "vitest";
import { useTestApi } from "#test/support/api.ts";
import type { Answer } from "#test/support/answer.ts";
import {
  createEndpoint,
  createTenant,
  expectRefusal,
  type Json,
  rows,
  sql,
  type Tenant,
  WEBHOOK_SCOPES,
} from "#test/support/tenant.ts";

const api = useTestApi();
const ENDPOINTS = "/v1/webhooks/endpoints";
const OTHER_URL = "http://127.0.0.1:19999/other";

async function patch(tenant: Tenant, id: string, body: unknown): Promise<Answer> {
  return await tenant.send("PATCH", `${ENDPOINTS}/${id}`, { body });
}

const workflowOf = ({ body }: Answer): unknown => (body["verification"] as Json)["workflow_id"];

async function entries(tenant: Tenant, type: string): Promise<readonly Json[]> {
  return rows(await tenant.get(`/v1/compliance/entries?type=${type}`));
}

/** Creates a verified endpoint with every field set. */
async function verified(): Promise<{ tenant: Tenant; id: string }> {
  const tenant = await createTenant(api, [...WEBHOOK_SCOPES, "compliance:read"]);
  const { id } = await createEndpoint(api, tenant, { metadata: { team: "a" } });
  await sql(
    api,
    `UPDATE endpoints SET description = 'first', verification_state = 'VERIFIED', verification_attempts = 3,
      verification_last_error = 'status', verified_at = now(), verified_by = 'echo' WHERE id = $1`,
    [id],
  );
  return { tenant, id };
}

describe("a change", () => {
  test("affects only the fields it names, and keeps the state", async () => {
    const { tenant, id } = await verified();
    const before = (await tenant.get(`${ENDPOINTS}/${id}`)).body;
    api.clock.advance(1_000);
    const answer = await patch(tenant, id, { events: ["pipeline.failed"], description: "second" });
    expect(answer).toMatchObject({ status: 200 });
    expect(answer.body).toEqual({
      ...before,
      events: ["pipeline.failed"],
      description: "second",
      updated_at: expect.stringMatching(/Z$/) as string,
    });
    expect(answer.body["updated_at"]).not.toBe(before["updated_at"]);
    expect((await tenant.get(`${ENDPOINTS}/${id}`)).body).toEqual(answer.body);
    expect(await entries(tenant, "endpoint.updated")).toMatchObject([
      { target: id, details: { changed: ["events", "description"], events: ["pipeline.failed"] } },
    ]);
  });

  test("removes optional fields with null", async () => {
    const { tenant, id } = await verified();
    const answer = await patch(tenant, id, { metadata: null, description: null });
    expect(answer).toMatchObject({
      status: 200,
      body: { metadata: null, description: null, state: "ACTIVE" },
    });
  });

  test("keeps the metadata as it was written", async () => {
    const { tenant, id } = await verified();
    await tenant.send("PATCH", `${ENDPOINTS}/${id}`, { raw: '{"metadata":{"b": 1.0, "a":2}}' });
    expect((await tenant.get(`${ENDPOINTS}/${id}`)).text).toContain('"metadata":{"b": 1.0, "a":2}');
  });

  test("that changes nothing returns the endpoint unchanged and is not logged", async () => {
    const { tenant, id } = await verified();
    const before = (await tenant.get(`${ENDPOINTS}/${id}`)).body;
    api.clock.advance(1_000);
    const { url, events, description, metadata } = before;
    for (const body of [{}, { url, events, description, metadata }]) {
      expect(await patch(tenant, id, body)).toMatchObject({ status: 200, body: before });
    }
    expect(await entries(tenant, "endpoint.updated")).toEqual([]);
  });

  test.each<[string, Json, string]>([
    ["a url of null", { url: null }, "/url"],
    ["events of null", { events: null }, "/events"],
    ["no events", { events: [] }, "/events"],
    ["metadata that is an array", { metadata: [] }, "/metadata"],
    ["metadata that is a string", { metadata: "{}" }, "/metadata"],
    ["a state", { state: "ACTIVE" }, "/state"],
    ["a secret", { secret: "whsec_x" }, "/secret"],
    ["an id", { id: "ep_x" }, "/id"],
  ])("is rejected with %s", async (_name, body, pointer) => {
    const { tenant, id } = await verified();
    const answer = await patch(tenant, id, body);
    expectRefusal(answer, 422, "VALIDATION_FAILED");
    expect((answer.body["errors"] as Json[]).map((problem) => problem["pointer"])).toContain(pointer);
  });

  test("is rejected with a forbidden URL, with metadata that is too long, and without a body", async () => {
    const { tenant, id } = await verified();
    expectRefusal(await patch(tenant, id, { url: "https://169.254.169.254/" }), 422, "TARGET_URL_FORBIDDEN");
    expectRefusal(await patch(tenant, id, { metadata: { a: "x".repeat(4_096) } }), 422, "LIMIT_EXCEEDED");
    expectRefusal(await tenant.send("PATCH", `${ENDPOINTS}/${id}`), 400, "INVALID_REQUEST");
    expect((await tenant.get(`${ENDPOINTS}/${id}`)).body).toMatchObject({ state: "ACTIVE" });
  });
});

describe("a new URL", () => {
  test("resets the endpoint to PENDING, in a new generation without verification results", async () => {
    const { tenant, id } = await verified();
    const answer = await patch(tenant, id, { url: OTHER_URL });
    expect(answer).toMatchObject({
      status: 200,
      body: {
        url: OTHER_URL,
        state: "PENDING",
        verification: { attempts: 0, last_error: null, verified_at: null, verified_by: null },
      },
    });
    expect(workflowOf(answer)).toBe(`verify/${id}/2`);
    expect(await sql(api, "SELECT verification_state FROM endpoints WHERE id = $1", [id])).toEqual([
      { verification_state: "WANTED" },
    ]);
    const [entry] = await entries(tenant, "endpoint.updated");
    expect(entry).toMatchObject({ details: { changed: ["url"] } });
    expect(JSON.stringify(entry)).not.toContain("other");
  });

  test("that normalizes to the old one changes nothing", async () => {
    const { tenant, id } = await verified();
    expect(await patch(tenant, id, { url: "http://127.0.0.1:19999/x/../hook" })).toMatchObject({
      body: { state: "ACTIVE" },
    });
  });

  test("leaves a disabled endpoint disabled", async () => {
    const { tenant, id } = await verified();
    await tenant.post(`${ENDPOINTS}/${id}/disable`);
    const answer = await patch(tenant, id, { url: OTHER_URL });
    expect(answer).toMatchObject({ status: 200, body: { url: OTHER_URL, state: "DISABLED" } });
    expect(await tenant.post(`${ENDPOINTS}/${id}/enable`)).toMatchObject({ body: { state: "PENDING" } });
  });

  test("can be set six times a minute; a rejected request changes nothing", async () => {
    const { tenant, id } = await verified();
    for (let count = 0; count < 6; count += 1) {
      expect(await patch(tenant, id, { url: `${OTHER_URL}/${count}` })).toMatchObject({ status: 200 });
    }
    expectRefusal(await patch(tenant, id, { url: OTHER_URL, events: ["a.b"] }), 429, "RATE_LIMITED");
    expect((await tenant.get(`${ENDPOINTS}/${id}`)).body).toMatchObject({
      url: `${OTHER_URL}/5`,
      events: ["inference.completed"],
    });
    expect(await patch(tenant, id, { description: "no ping" })).toMatchObject({ status: 200 });
  });
});

describe("disabling and enabling", () => {
  const disable = async (tenant: Tenant, id: string): Promise<Answer> =>
    await tenant.post(`${ENDPOINTS}/${id}/disable`);
  const enable = async (tenant: Tenant, id: string): Promise<Answer> =>
    await tenant.post(`${ENDPOINTS}/${id}/enable`);

  test("leads from ACTIVE to DISABLED and back through PENDING, and is logged", async () => {
    const { tenant, id } = await verified();
    const other = await createEndpoint(api, tenant, { events: ["endpoint.disabled"] });
    expect(await disable(tenant, id)).toMatchObject({
      status: 200,
      body: { state: "DISABLED", disabled_reason: "tenant" },
    });
    expect(await tenant.post("/v1/events", { type: "inference.completed", data: {} })).toMatchObject({
      body: { deliveries: 1 },
    });
    expect(rows(await tenant.get("/v1/webhooks/dlq"))).toMatchObject([
      { endpoint_id: id, reason: "endpoint_disabled" },
    ]);
    const notices = rows(await tenant.get("/v1/webhooks/deliveries?event_type=endpoint.disabled"));
    expect(notices).toMatchObject([{ endpoint_id: other.id, state: "QUEUED" }]);
    const enabled = await enable(tenant, id);
    expect(enabled).toMatchObject({ status: 202, body: { state: "PENDING", disabled_reason: null } });
    expect(workflowOf(enabled)).toBe(`verify/${id}/2`);
    const actor = `credential:${tenant.credentialId}`;
    expect(await entries(tenant, "endpoint.disabled")).toMatchObject([
      { actor, target: id, details: { reason: "tenant" } },
    ]);
    expect(await entries(tenant, "endpoint.enabled")).toMatchObject([{ actor, target: id }]);
  });

  test("is rejected in a state that does not allow it", async () => {
    const { tenant, id } = await verified();
    expectRefusal(await enable(tenant, id), 409, "INVALID_STATE");
    await disable(tenant, id);
    expectRefusal(await disable(tenant, id), 409, "INVALID_STATE");
    await enable(tenant, id);
    expectRefusal(await enable(tenant, id), 409, "INVALID_STATE");
    expect(await disable(tenant, id)).toMatchObject({ status: 200 });
    await tenant.send("DELETE", `${ENDPOINTS}/${id}`);
    expectRefusal(await enable(tenant, id), 404, "NOT_FOUND");
    expectRefusal(await disable(tenant, id), 404, "NOT_FOUND");
    expectRefusal(await patch(tenant, id, {}), 404, "NOT_FOUND");
  });

  test("replaces the reason of an endpoint that was disabled for failing", async () => {
    const { tenant, id } = await verified();
    await sql(api, "UPDATE endpoints SET state = 'DISABLED', disabled_reason = 'failing' WHERE id = $1", [
      id,
    ]);
    expect(await disable(tenant, id)).toMatchObject({ body: { disabled_reason: "tenant" } });
  });

  test("succeeds once when many requests enable the endpoint at the same time", async () => {
    const { tenant, id } = await verified();
    await disable(tenant, id);
    const answers = await Promise.all(Array.from({ length: 5 }, async () => await enable(tenant, id)));
    expect(answers.map(({ status }) => status).toSorted((one, other) => one - other)).toEqual([
      202, 409, 409, 409, 409,
    ]);
    expect(workflowOf(await tenant.get(`${ENDPOINTS}/${id}`))).toBe(`verify/${id}/2`);
    expect(await entries(tenant, "endpoint.enabled")).toHaveLength(1);
  });
});

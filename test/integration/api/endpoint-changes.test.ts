/** Changing, disabling and enabling an endpoint, without a worker: what each request answers and leaves behind. */
import { describe, expect, test } from "vitest";
import { useTestApi } from "../../support/api.ts";
import type { Answer } from "../../support/answer.ts";
import {
  createEndpoint,
  createTenant,
  expectRefusal,
  type Json,
  rows,
  sql,
  type Tenant,
  WEBHOOK_SCOPES,
} from "../../support/tenant.ts";

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

/** A verified endpoint with everything set. */
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
  test("touches what it names and leaves the rest, the state too", async () => {
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

  test("takes away with null what can be absent", async () => {
    const { tenant, id } = await verified();
    const answer = await patch(tenant, id, { metadata: null, description: null });
    expect(answer).toMatchObject({
      status: 200,
      body: { metadata: null, description: null, state: "ACTIVE" },
    });
  });

  test("keeps the spelling of metadata", async () => {
    const { tenant, id } = await verified();
    await tenant.send("PATCH", `${ENDPOINTS}/${id}`, { raw: '{"metadata":{"b": 1.0, "a":2}}' });
    expect((await tenant.get(`${ENDPOINTS}/${id}`)).text).toContain('"metadata":{"b": 1.0, "a":2}');
  });

  test("that changes nothing answers the endpoint as it is, and is not logged", async () => {
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
    ["metadata that is a list", { metadata: [] }, "/metadata"],
    ["metadata that is a text", { metadata: "{}" }, "/metadata"],
    ["a state", { state: "ACTIVE" }, "/state"],
    ["a secret", { secret: "whsec_x" }, "/secret"],
    ["an id", { id: "ep_x" }, "/id"],
  ])("is refused with %s", async (_name, body, pointer) => {
    const { tenant, id } = await verified();
    const answer = await patch(tenant, id, body);
    expectRefusal(answer, 422, "VALIDATION_FAILED");
    expect((answer.body["errors"] as Json[]).map((problem) => problem["pointer"])).toContain(pointer);
  });

  test("is refused with a URL that the address policy refuses, metadata that is too long, and no body", async () => {
    const { tenant, id } = await verified();
    expectRefusal(await patch(tenant, id, { url: "https://169.254.169.254/" }), 422, "TARGET_URL_FORBIDDEN");
    expectRefusal(await patch(tenant, id, { metadata: { a: "x".repeat(4_096) } }), 422, "LIMIT_EXCEEDED");
    expectRefusal(await tenant.send("PATCH", `${ENDPOINTS}/${id}`), 400, "INVALID_REQUEST");
    expect((await tenant.get(`${ENDPOINTS}/${id}`)).body).toMatchObject({ state: "ACTIVE" });
  });
});

describe("another URL", () => {
  test("has acknowledged nothing: the endpoint is PENDING, of a new generation, with nothing known of pings", async () => {
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

  test("that is the same in its normal form is no other", async () => {
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

  test("can be given six times a minute; what is refused changes nothing", async () => {
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

  test("goes from ACTIVE to DISABLED and by PENDING back, and is logged", async () => {
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
    const told = rows(await tenant.get("/v1/webhooks/deliveries?event_type=endpoint.disabled"));
    expect(told).toMatchObject([{ endpoint_id: other.id, state: "QUEUED" }]);
    const enabled = await enable(tenant, id);
    expect(enabled).toMatchObject({ status: 202, body: { state: "PENDING", disabled_reason: null } });
    expect(workflowOf(enabled)).toBe(`verify/${id}/2`);
    const actor = `credential:${tenant.credentialId}`;
    expect(await entries(tenant, "endpoint.disabled")).toMatchObject([
      { actor, target: id, details: { reason: "tenant" } },
    ]);
    expect(await entries(tenant, "endpoint.enabled")).toMatchObject([{ actor, target: id }]);
  });

  test("is refused where it leads nowhere", async () => {
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

  test("takes over an endpoint that was disabled for failing", async () => {
    const { tenant, id } = await verified();
    await sql(api, "UPDATE endpoints SET state = 'DISABLED', disabled_reason = 'failing' WHERE id = $1", [
      id,
    ]);
    expect(await disable(tenant, id)).toMatchObject({ body: { disabled_reason: "tenant" } });
  });

  test("of many requests at once, one enables", async () => {
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

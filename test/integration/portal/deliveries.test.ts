/** The portal's pages about deliveries. */
import { randomBytes } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { newId } from "#domain/ids.ts";
import { type Answer, useSharedApi } from "#test/support/api.ts";
import { type PortalVisitor, signInToPortal } from "#test/support/portal.ts";
import { createEndpoint, createTenant, publish, rows, sql, type Tenant } from "#test/support/tenant.ts";

const api = useSharedApi();
const SCOPES = ["portal:sign_in", "webhooks:read", "webhooks:write", "webhooks:replay", "events:publish"];
const HOSTILE = `<script>alert("1")</script>`;

let tenant: Tenant;
let visitor: PortalVisitor;

async function deliveryOf(owner: Tenant, type = "inference.completed"): Promise<string> {
  const event = await publish(owner, { type });
  return String(rows(await owner.get(`/v1/webhooks/deliveries?event_id=${event}`))[0]?.["id"]);
}

async function signIn(owner: Tenant, scopes?: readonly string[]): Promise<PortalVisitor> {
  return await signInToPortal(api, owner.token, scopes === undefined ? {} : { scopes });
}

beforeAll(async () => {
  tenant = await createTenant(api, SCOPES);
  await createEndpoint(api, tenant, { events: ["inference.completed", "pipeline.failed"] });
  visitor = await signIn(tenant);
});

test("the list filters by state, endpoint, type and time, and reports invalid filters", async () => {
  const id = await deliveryOf(tenant);
  const other = await deliveryOf(tenant, "pipeline.failed");
  const list = await visitor.get("/portal/deliveries");
  expect(list).toMatchObject({ status: 200 });
  expect(list.text).toContain(`/portal/deliveries/${id}"`);
  const shows = async (query: string, wanted: string): Promise<boolean> => {
    const page = await visitor.get(`/portal/deliveries?${query}`);
    expect(page).toMatchObject({ status: 200 });
    return page.text.includes(`/portal/deliveries/${wanted}"`);
  };
  expect(await shows("state=&endpoint_id=&event_type=pipeline.failed&from=&to=", id)).toBe(false);
  expect(await shows("event_type=pipeline.failed", other)).toBe(true);
  expect(await shows("state=DELIVERED", id)).toBe(false);
  expect(await shows("from=2025-01-01T00:00", id)).toBe(true);
  expect(await shows("to=2025-01-01T00:00", id)).toBe(false);
  for (const query of ["state=NONE", "from=yesterday", "endpoint_id=mine", "cursor=none"]) {
    const page = await visitor.get(`/portal/deliveries?${query}`);
    expect(page).toMatchObject({ status: 400 });
    expect(page.text).toContain('role="alert"');
  }
});

test("the filter finds queued deliveries, whether claimed or not", async () => {
  const [waiting, claimed] = [await deliveryOf(tenant), await deliveryOf(tenant)];
  await sql(api, "UPDATE deliveries SET carrier = id, claimed_at = now() WHERE id = $1", [claimed]);
  const { text } = await visitor.get("/portal/deliveries?state=QUEUED");
  for (const id of [waiting, claimed]) {
    expect(text).toContain(`/portal/deliveries/${id}"`);
  }
});

test("a delivery shows its attempts, with the receiver's answers escaped", async () => {
  const id = await deliveryOf(tenant);
  await sql(
    api,
    `INSERT INTO attempts (day, delivery_id, cycle, attempt, id, tenant_id, started_at, duration_ms, status, error, response_body)
      SELECT day, id, 1, 1, $2, tenant_id, now(), 37, 500, 'status', $3 FROM deliveries WHERE id = $1`,
    [id, newId("attempt", Date.now(), randomBytes), HOSTILE],
  );
  await sql(
    api,
    `UPDATE deliveries SET state = 'RETRYING', attempt_count = 1, next_attempt_at = now() + interval '1 hour',
      event_type = $2 WHERE id = $1`,
    [id, HOSTILE],
  );
  const { text, status } = await visitor.get(`/portal/deliveries/${id}`);
  expect(status).toBe(200);
  expect(text).not.toContain(HOSTILE);
  expect(text).toContain("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;");
  expect(text).toContain("HTTP 500");
  expect(text).toContain("took 37 ms");
  expect(text).toContain("webhook-signature: (not stored)");
  expect(text).toContain("data-countdown");
  expect((await visitor.get("/portal/deliveries")).text).not.toContain(HOSTILE);
});

test("the next attempt can be made now, and a delivery can be cancelled once", async () => {
  const id = await deliveryOf(tenant);
  await sql(
    api,
    "UPDATE deliveries SET state = 'RETRYING', next_attempt_at = now() + interval '1 hour' WHERE id = $1",
    [id],
  );
  const retried = await visitor.post(`/portal/deliveries/${id}/retry`);
  expect(retried.status).toBe(303);
  expect((await visitor.get(retried.headers.get("location") ?? "")).text).toContain("attempt starts now");
  const cancelled = await visitor.post(`/portal/deliveries/${id}/cancel`);
  expect(cancelled.status).toBe(303);
  const again = await visitor.post(`/portal/deliveries/${id}/cancel`);
  expect(again).toMatchObject({ status: 409 });
  expect(again.text).toContain("already CANCELLED");
});

test("an endpoint's pages show its own newest deliveries and its last day, however many others get", async () => {
  const owner = await createTenant(api, SCOPES);
  const follower = await signIn(owner);
  const { id: quiet } = await createEndpoint(api, owner, { events: ["pipeline.failed"] });
  const path = `/portal/endpoints/${quiet}`;
  const empty = (await follower.get(path)).text;
  expect(empty).toContain("No deliveries yet");
  expect((await follower.get(`${path}/hours`)).text).toContain("No deliveries.");
  const { id: busy } = await createEndpoint(api, owner);
  const first = await deliveryOf(owner, "pipeline.failed");
  const events = Array.from({ length: 55 }, () => ({ type: "inference.completed", data: {} }));
  expect(await owner.post("/v1/events", { events })).toMatchObject({ status: 202 });
  const { text } = await follower.get(path);
  expect(text).toContain(`/portal/deliveries/${first}"`);
  expect(text).toContain(`/portal/deliveries?endpoint_id=${quiet}"`);
  expect(text).toContain(`${path}/hours"`);
  expect((await follower.get(`${path}/hours`)).text).toContain('aria-label="Volume by hour: 1 delivery"');
  const others = (await follower.get(`/portal/endpoints/${busy}`)).text;
  expect(others.match(/\/portal\/deliveries\/dlv_/g)).toHaveLength(5);
  const hours = (await follower.get(`/portal/endpoints/${busy}/hours`)).text;
  expect(hours).toContain('aria-label="Volume by hour: 55 deliveries"');
});

test("another tenant's delivery does not exist, and a session with fewer scopes sees and does less", async () => {
  const foreign = await createTenant(api, SCOPES);
  await createEndpoint(api, foreign);
  const id = await deliveryOf(foreign);
  const answers = await Promise.all([
    visitor.get(`/portal/deliveries/${id}`),
    visitor.post(`/portal/deliveries/${id}/retry`),
    visitor.post(`/portal/deliveries/${id}/cancel`),
  ]);
  expect(answers.map(({ status }) => status)).toEqual([404, 404, 404]);
  const reader = await signIn(foreign, ["webhooks:read"]);
  const page = await reader.get(`/portal/deliveries/${id}`);
  expect(page.text).not.toContain("Attempt now");
  const unauthorised = await signIn(foreign, ["events:publish"]);
  const refusals: Answer[] = await Promise.all([
    reader.post(`/portal/deliveries/${id}/cancel`),
    unauthorised.get("/portal/deliveries"),
    unauthorised.get(`/portal/deliveries/${id}`),
    unauthorised.get("/portal/deliveries/live"),
  ]);
  expect(refusals.map(({ status }) => status)).toEqual([403, 403, 403, 403]);
  expect(await api.request("/portal/deliveries/live")).toMatchObject({ status: 401 });
});

/** Reads the list's stream until `wanted`, as a reconnecting browser would. */
async function readLive(follower: PortalVisitor, wanted: RegExp, position?: string): Promise<string> {
  const abort = new AbortController();
  const headers = {
    cookie: follower.cookie,
    ...(position === undefined ? {} : { "last-event-id": position }),
  };
  const { body } = await fetch(`${api.publicUrl}/portal/deliveries/live`, { headers, signal: abort.signal });
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of body ?? []) {
    text += decoder.decode(chunk as Uint8Array, { stream: true });
    if (wanted.test(text)) {
      break;
    }
  }
  abort.abort();
  return text;
}

test("the list's stream resumes after a disconnection with the changes made meanwhile", async () => {
  const [, position = ""] = /^id: (\d+)$/m.exec(await readLive(visitor, /^id: \d+$/m)) ?? [];
  const missed = await deliveryOf(tenant);
  const resumed = await readLive(visitor, new RegExp(missed), position);
  expect(resumed).toContain('event: ready\ndata: {"complete":true}');
  const refused = await api.request("/portal/deliveries/live", {
    headers: { cookie: visitor.cookie, "last-event-id": "yesterday" },
  });
  expect(refused).toMatchObject({ status: 400 });
});

test("the list's stream has only its session's tenant, and ends with the session", async () => {
  const follower = await signIn(tenant);
  const response = await fetch(`${api.publicUrl}/portal/deliveries/live`, {
    headers: { cookie: follower.cookie },
  });
  expect(response.headers.get("content-type")).toBe("text/event-stream");
  expect(response.headers.get("content-security-policy")).toContain("default-src 'none'");
  await follower.post("/portal/sign-out");
  // Read to its end, which comes with the next check of the session.
  expect(await response.text()).toMatch(/event: end\ndata: {"reason":"revoked"}\n\n$/);
});

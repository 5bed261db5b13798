/** Test events from the portal: a greeting with one click, or entered data, sent exactly as entered. */
import { randomBytes } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import type { Answer } from "#test/support/answer.ts";
import { useSharedApi } from "#test/support/api.ts";
import { type PortalVisitor, signInToPortal } from "#test/support/portal.ts";
import { createEndpoint, createTenant, rows, type Tenant } from "#test/support/tenant.ts";

const api = useSharedApi();
const SCOPES = ["portal:sign_in", "webhooks:read", "webhooks:write", "events:read"];

let tenant: Tenant;
let visitor: PortalVisitor;

const unescaped = (text: string): string =>
  text.replaceAll("&quot;", '"').replaceAll("&lt;", "<").replaceAll("&gt;", ">");
const typeOf = ({ text }: Answer): string => /name="type"\s+value="([^"]*)"/.exec(text)?.[1] ?? "?";
const dataOf = ({ text }: Answer): string =>
  unescaped(/<textarea[^>]*\sname="data"[^>]*>\n([^<]*)<\/textarea>/.exec(text)?.[1] ?? "?");
const deliveries = async (endpoint: string) =>
  rows(await tenant.get(`/v1/webhooks/deliveries?endpoint_id=${endpoint}`));

beforeAll(async () => {
  tenant = await createTenant(api, SCOPES);
  visitor = await signInToPortal(api, tenant.token);
  await tenant.post("/v1/webhooks/event-types", {
    name: "inference.completed",
    schema: { type: "object", required: ["run"], properties: { run: { type: "integer" } } },
    examples: [{ run: 7, note: "<b>" }],
  });
  await tenant.post("/v1/webhooks/event-types", { name: "pipeline.failed" });
});

test("the greeting leads to its delivery, and repeated forms send it once", async () => {
  const { id } = await createEndpoint(api, tenant);
  const once = randomBytes(16).toString("base64url");
  const path = `/portal/endpoints/${id}/test`;
  const [first, second] = [await visitor.post(path, { once }), await visitor.post(path, { once })];
  const [delivery, ...others] = await deliveries(id);
  expect(others).toEqual([]);
  const location = `/portal/deliveries/${String(delivery?.["id"])}?done=tested`;
  expect([first, second].map(({ headers }) => headers.get("location"))).toEqual([location, location]);
  const page = await visitor.get(location);
  expect(page.text).toContain("test event was sent for delivery");
  const endpoint = await visitor.get(`/portal/endpoints/${id}`);
  expect(endpoint.text).toContain(`/portal/deliveries/${String(delivery?.["id"])}"`);
});

test("the form begins with an example of a type that the endpoint takes, or of the chosen type", async () => {
  const { id } = await createEndpoint(api, tenant, { events: ["inference.completed", "pipeline.failed"] });
  const path = `/portal/endpoints/${id}/test-event`;
  const form = await visitor.get(path);
  expect(typeOf(form)).toBe("inference.completed");
  expect(JSON.parse(dataOf(form))).toEqual({ run: 7, note: "<b>" });
  const example = async (type: string): Promise<Answer> =>
    await visitor.post(path, { step: "example", type, data: "lost" });
  expect(JSON.parse(dataOf(await example("endpoint.test")))).toEqual({ message: "This is a test event." });
  for (const type of ["pipeline.failed", "never.heard", "../endpoints", ""]) {
    const answer = await example(type);
    expect({ type, status: answer.status, data: dataOf(answer) }).toEqual({ type, status: 200, data: "{}" });
    expect(typeOf(answer)).toBe(type);
  }
  expect(await deliveries(id)).toEqual([]);
});

test("data are sent as entered, to this endpoint only", async () => {
  const { id } = await createEndpoint(api, tenant, { events: ["never.published"] });
  const { id: other } = await createEndpoint(api, tenant);
  const data = '{"run": 1152921504606846977, "ratio": 1.0, "b": 1, "a": "\\u00e9"}';
  const sent = await visitor.post(`/portal/endpoints/${id}/test-event`, {
    step: "send",
    type: " inference.completed ",
    data,
  });
  expect(sent.status).toBe(303);
  const [delivery] = await deliveries(id);
  expect(delivery).toMatchObject({ event_type: "inference.completed" });
  expect((await tenant.get(`/v1/events/${String(delivery?.["event_id"])}`)).text).toContain(data);
  expect(await deliveries(other)).toEqual([]);
});

test.each([
  ["inference.completed", "{", "data", "is not JSON"],
  ["inference.completed", "", "data", "is not JSON"],
  ["inference.completed", "[1]", "data", "must be"],
  ["inference.completed", '{"run":1},"type":"x.y"', "data", "is not JSON"],
  ["No Type", "{}", "type", "must be an event type such as"],
])("%s with %s is rejected beside the field, which keeps its text", async (type, data, name, message) => {
  const { id } = await createEndpoint(api, tenant);
  const answer = await visitor.post(`/portal/endpoints/${id}/test-event`, { step: "send", type, data });
  expect(answer.status).toBe(422);
  expect(new RegExp(`id="${name}-error">([^<]*)`).exec(answer.text)?.[1]).toContain(message);
  expect({ type: typeOf(answer), data: dataOf(answer) }).toEqual({ type, data });
  expect(await deliveries(id)).toEqual([]);
});

test("an inactive endpoint gets no test event, and the page says so", async () => {
  const { id } = await createEndpoint(api, tenant, { state: "PENDING" });
  expect((await visitor.get(`/portal/endpoints/${id}`)).text).not.toContain("test-event");
  const answer = await visitor.post(`/portal/endpoints/${id}/test-event`, {
    step: "send",
    type: "a.b",
    data: "{}",
  });
  expect(answer).toMatchObject({ status: 409 });
  expect(answer.text).toContain("only ACTIVE endpoints receive events");
});

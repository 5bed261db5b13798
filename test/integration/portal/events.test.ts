/** The portal's pages on events, and its search by any id. */
import { beforeAll, expect, test } from "vitest";
import { useSharedApi } from "#test/support/api.ts";
import { type PortalVisitor, signInToPortal } from "#test/support/portal.ts";
import { createEndpoint, createTenant, publish, rows, type Tenant } from "#test/support/tenant.ts";

const api = useSharedApi();
const SCOPES = [
  "portal:sign_in",
  "webhooks:read",
  "webhooks:write",
  "events:publish",
  "events:read",
  "credentials:read",
];

let tenant: Tenant;
let visitor: PortalVisitor;
let endpoint: string;

beforeAll(async () => {
  tenant = await createTenant(api, SCOPES);
  ({ id: endpoint } = await createEndpoint(api, tenant, { events: ["inference.completed"] }));
  visitor = await signInToPortal(api, tenant.token);
});

test("events are listed with the number of their deliveries, also those that matched no endpoint", async () => {
  const matched = await publish(tenant, { type: "inference.completed" });
  const alone = await publish(tenant, { type: "pipeline.failed", data: { run: 7 } });
  const { text } = await visitor.get("/portal/events");
  expect(text).toContain(`/portal/events/${matched}"`);
  const row = text.split("<tr").find((part) => part.includes(alone));
  expect(row).toContain("matched no endpoint");
  const filtered = (await visitor.get("/portal/events?event_type=pipeline.failed")).text;
  expect(filtered).toContain(alone);
  expect(filtered).not.toContain(matched);
  expect(await visitor.get("/portal/events?from=yesterday")).toMatchObject({ status: 400 });
  const page = (await visitor.get(`/portal/events/${alone}`)).text;
  expect(page).toContain("No endpoint was subscribed");
  expect(page).toContain("&quot;run&quot;: 7");
  const [delivery] = rows(await tenant.get(`/v1/webhooks/deliveries?event_id=${matched}`));
  expect((await visitor.get(`/portal/events/${matched}`)).text).toContain(
    `/portal/deliveries/${String(delivery?.["id"])}"`,
  );
});

test("the search finds everything by its id, and nothing of another tenant", async () => {
  const id = `order-${endpoint}`;
  const sent = await tenant.post("/v1/events", { type: "inference.completed", data: {}, id });
  const event = String(sent.body["id"]);
  const [delivery] = rows(await tenant.get(`/v1/webhooks/deliveries?event_id=${event}`));
  const name = `of.${endpoint}`;
  await tenant.post("/v1/webhooks/event-types", { name });
  const { credentialId, clientId } = tenant;
  const places: Readonly<Record<string, string>> = {
    [endpoint]: `/portal/endpoints/${endpoint}`,
    [event]: `/portal/events/${event}`,
    [String(delivery?.["id"])]: `/portal/deliveries/${String(delivery?.["id"])}`,
    [credentialId]: `/portal/credentials/${credentialId}`,
    [clientId]: `/portal/credentials/${credentialId}`,
    [name]: `/portal/event-types/${name}`,
    [id]: `/portal/events?id=${id}`,
  };
  const stranger = await signInToPortal(api, (await createTenant(api, SCOPES)).token);
  for (const [text, place] of Object.entries(places)) {
    const found = await visitor.get(`/portal/search?q=${encodeURIComponent(` ${text} `)}`);
    expect({ text, to: found.headers.get("location") }).toEqual({ text, to: place });
    expect(await stranger.get(`/portal/search?q=${text}`)).toMatchObject({ status: 404 });
  }
  const blind = await signInToPortal(api, tenant.token, { scopes: [] });
  for (const text of Object.keys(places)) {
    expect(await blind.get(`/portal/search?q=${text}`)).toMatchObject({ status: 404 });
  }
});

test("the search repeats what it did not find, except for secrets", async () => {
  expect((await visitor.get("/portal/search?q=%3Cb%3E")).text).toContain("<code>&lt;b&gt;</code>");
  const secret = `whsec_${"A".repeat(32)}`;
  const answer = await visitor.get(`/portal/search?q=${secret}`);
  expect(answer).toMatchObject({ status: 404 });
  expect(answer.text).not.toContain(secret);
});

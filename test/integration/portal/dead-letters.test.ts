/** The portal's pages about dead letters and their replay. */
import { beforeAll, expect, test } from "vitest";
import { useSharedApi } from "#test/support/api.ts";
import { eventually } from "#test/support/eventually.ts";
import { type PortalVisitor, signInToPortal } from "#test/support/portal.ts";
import { seedDeadLetters } from "#test/support/seeded-letters.ts";
import { createEndpoint, createTenant, sql, type Tenant } from "#test/support/tenant.ts";

const api = useSharedApi({ worker: true });
const SCOPES = ["portal:sign_in", "webhooks:read", "webhooks:write", "webhooks:replay", "events:publish"];
const HOSTILE = `"><img src=x onerror=alert(1)>`;

let tenant: Tenant;
let visitor: PortalVisitor;
let endpointId: string;

const query = async (text: string, values: unknown[]): Promise<unknown> => await sql(api, text, values);

async function seed(owner: Tenant, count: number, error = "status"): Promise<string[]> {
  return await seedDeadLetters({ query }, { tenantId: owner.tenantId, endpointId, count, error });
}

beforeAll(async () => {
  tenant = await createTenant(api, SCOPES);
  ({ id: endpointId } = await createEndpoint(api, tenant));
  visitor = await signInToPortal(api, tenant.token);
});

test("the queue is shown by endpoint and failure, filtered and escaped", async () => {
  const [first = "", second = ""] = await seed(tenant, 2);
  const [slow = ""] = await seed(tenant, 1, "timeout");
  await sql(api, "UPDATE deliveries SET event_type = $2 WHERE id = $1", [second, HOSTILE]);
  const page = await visitor.get("/portal/dead-letters");
  expect(page).toMatchObject({ status: 200 });
  expect(page.text).toContain("17 attempts failed");
  expect(page.text).not.toContain(HOSTILE);
  expect(page.text).toContain("&lt;img src=x");
  const timeouts = await visitor.get("/portal/dead-letters?last_error=timeout");
  expect([first, second, slow].map((id) => timeouts.text.includes(id))).toEqual([false, false, true]);
  expect(await visitor.get("/portal/dead-letters?last_error=none")).toMatchObject({ status: 400 });
});

test("the export streams the tenant's letters that match the filters", async () => {
  const [, other] = [await seed(tenant, 1), await createTenant(api, SCOPES)];
  const exported = await visitor.get("/portal/dead-letters/export?last_error=status");
  expect(exported).toMatchObject({ status: 200 });
  expect(exported.headers.get("content-type")).toContain("application/x-ndjson");
  const lines = exported.text.trimEnd().split("\n");
  expect(lines.length).toBeGreaterThan(0);
  for (const line of lines) {
    expect(JSON.parse(line)).toMatchObject({ state: "DEAD_LETTERED", last_error: "status" });
  }
  const foreign = await signInToPortal(api, other.token);
  expect((await foreign.get("/portal/dead-letters/export")).text).toBe("");
});

test("selected letters are replayed as a job, whose page shows its progress and its end", async () => {
  const [chosen = ""] = await seed(tenant, 2);
  const nothing = await visitor.post("/portal/dead-letters/replay", { which: "chosen" });
  expect(nothing).toMatchObject({ status: 422 });
  expect(nothing.text).toContain("Select at least one");
  const made = await visitor.post("/portal/dead-letters/replay", { which: "chosen", "ids[]": chosen });
  expect(made.status).toBe(303);
  const path = made.headers.get("location") ?? "";
  await eventually(async () => (await visitor.get(path)).text.includes("completed"), "the end of the job");
  expect((await visitor.get(path)).text).toContain("1 of 1");
  expect((await visitor.get("/portal/replays")).text).toContain(path);
  // The page of a completed job says that it cannot be changed.
  expect((await visitor.post(`${path}/pause`)).status).toBe(409);
});

test("a fixed receiver's deliveries are counted, sent again after a confirmation, and their outcomes are shown", async () => {
  const owner = await createTenant(api, SCOPES);
  const { id } = await createEndpoint(api, owner);
  const letters = { tenantId: owner.tenantId, endpointId: id, count: 3 };
  const [letter = "", ended = ""] = await seedDeadLetters({ query }, letters);
  await sql(api, "UPDATE deliveries SET state = 'DELIVERED', expires_at = NULL WHERE id = $1", [ended]);
  const guest = await signInToPortal(api, owner.token);
  expect((await guest.get(`/portal/endpoints/${id}`)).text).toContain("My receiver is fixed");
  const path = `/portal/endpoints/${id}/recover`;
  expect((await guest.get(path)).text).toContain("Send 2 deliveries now");
  expect((await guest.get(`${path}?what=all&since=`)).text).toContain("Send 3 deliveries now");
  expect((await guest.get(`${path}?what=retrying`)).text).toContain("Nothing to send");
  expect(await guest.get(`${path}?since=2025-02-30T00:00`)).toMatchObject({ status: 422 });
  const made = await guest.post(path, { what: "failed", since: "" });
  expect(made.status).toBe(303);
  const job = made.headers.get("location") ?? "";
  await eventually(async () => (await guest.get(job)).text.includes("completed"), "the end of the job");
  expect((await guest.get(job)).text).toContain("Delivered since");
  expect((await guest.get(`${job}/items`)).text).toContain(letter);
  expect(await guest.get(`${job}/items?outcome=NONE`)).toMatchObject({ status: 400 });

  expect((await guest.get(`/portal/deliveries/${ended}`)).text).toContain("Resend");
  const resent = await guest.post(`/portal/deliveries/${ended}/resend`);
  expect(resent.headers.get("location")).toBe(`/portal/deliveries/${ended}?done=resent`);
  expect((await guest.get(`/portal/deliveries/${ended}?done=resent`)).text).toContain("cycle 2");
  expect(await guest.post(`/portal/deliveries/${ended}/resend`)).toMatchObject({ status: 409 });
});

test("a replay into a disabled endpoint is refused before it starts, and its job is never green", async () => {
  const owner = await createTenant(api, SCOPES);
  const { id } = await createEndpoint(api, owner, { state: "DISABLED" });
  const letters = { tenantId: owner.tenantId, endpointId: id, count: 2 };
  const [one = "", two = ""] = await seedDeadLetters({ query }, letters);
  const guest = await signInToPortal(api, owner.token);
  expect((await guest.get("/portal/dead-letters")).text).toContain("Oldest failed");
  const counted = await guest.post("/portal/dead-letters/replay", { which: "all" });
  expect(counted.text).toContain("All of them would fail");
  expect(counted.text).not.toContain('value="confirmed"');
  const chosen = await guest.post("/portal/dead-letters/replay", { which: "chosen", "ids[]": one });
  expect(chosen).toMatchObject({ status: 422 });
  expect(chosen.text).toContain("1 of the selected dead letters would fail");
  const page = await guest.get(`/portal/deliveries/${one}`);
  expect(page.text).toContain("This endpoint is disabled");
  expect(page.text).not.toContain(`/portal/dead-letters/${one}/replay`);
  expect(await guest.post(`/portal/dead-letters/${two}/replay`)).toMatchObject({ status: 409 });

  const made = await guest.post("/portal/dead-letters/replay", { which: "confirmed" });
  const job = made.headers.get("location") ?? "";
  await eventually(async () => (await guest.get(job)).text.includes("completed:"), "the end of the job");
  const { text } = await guest.get(job);
  expect(text).toContain("completed: nothing delivered");
  expect(text).toContain("(endpoint disabled).");
  expect(text).not.toContain("badge good");
  expect((await guest.get(`${job}/items?state=FAILED`)).text).toContain("endpoint disabled");
  expect((await guest.get("/portal/replays")).text).not.toContain("badge good");
});

test("a session without the scopes cannot replay, and another tenant's letters and jobs do not exist", async () => {
  const foreign = await createTenant(api, SCOPES);
  const [letter = ""] = await seed(tenant, 1);
  const foreignTenant = await signInToPortal(api, foreign.token);
  expect(await foreignTenant.post(`/portal/dead-letters/${letter}/replay`)).toMatchObject({ status: 404 });
  const reader = await signInToPortal(api, tenant.token, { scopes: ["webhooks:read"] });
  expect((await reader.get("/portal/dead-letters")).text).not.toContain("Replay selected");
  expect(await reader.post(`/portal/dead-letters/${letter}/replay`)).toMatchObject({ status: 403 });
  const counted = await visitor.post("/portal/dead-letters/replay", { which: "all", last_error: "status" });
  expect(counted.status).toBe(200);
  expect(counted.text).toMatch(/To replay: \d+ dead letter/);
  const all = await visitor.post("/portal/dead-letters/replay", { which: "confirmed", last_error: "status" });
  const path = all.headers.get("location") ?? "";
  expect(path).toMatch(/^\/portal\/replays\/rpl_/);
  expect(await foreignTenant.get(path)).toMatchObject({ status: 404 });
  expect(await foreignTenant.post(`${path}/cancel`)).toMatchObject({ status: 404 });
  expect(await reader.post(`${path}/cancel`)).toMatchObject({ status: 403 });
});

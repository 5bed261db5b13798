/** The portal's pages on events that an endpoint never got: counted exactly, then sent, and nothing else. */
import { beforeAll, expect, test } from "vitest";
import type { Answer } from "#test/support/answer.ts";
import { useSharedApi } from "#test/support/api.ts";
import { type PortalVisitor, signInToPortal } from "#test/support/portal.ts";
import { createEndpoint, createTenant, publish, rows, type Tenant } from "#test/support/tenant.ts";

const api = useSharedApi();
const SCOPES = ["portal:sign_in", "webhooks:read", "webhooks:write", "webhooks:replay", "events:publish"];

let tenant: Tenant;
let visitor: PortalVisitor;

beforeAll(async () => {
  tenant = await createTenant(api, SCOPES);
  visitor = await signInToPortal(api, tenant.token);
});

/** Returns the hidden fields of the form below the count. */
function hiddenFields({ text }: Answer): Record<string, string> {
  const form = /<form method="post" action="[^"]+\/send">([^]*?)<\/form>/.exec(text)?.[1] ?? "";
  return Object.fromEntries(
    [...form.matchAll(/<input\s+type="hidden"\s+name="([a-z_]+)"\s+value="([^"]*)"/g)].map(
      ([, name = "", value = ""]) => [name, value],
    ),
  );
}

const replays = async () => rows(await tenant.get("/v1/webhooks/replays"));
/** A day ago, in the format of `datetime-local` fields. */
const yesterday = (): string => new Date(api.clock.now() - 86_400_000).toISOString().slice(0, 16);

test("counting changes nothing, and sending covers exactly the counted events", async () => {
  const { id: there } = await createEndpoint(api, tenant);
  for (const type of ["inference.completed", "inference.completed", "pipeline.failed"]) {
    await publish(tenant, { type });
  }
  const { id } = await createEndpoint(api, tenant);
  const path = `/portal/endpoints/${id}/missing`;
  const page = await visitor.get(`/portal/endpoints/${id}`);
  expect(page.text).toContain(`href="${path}"`);
  const before = yesterday();
  const form = await visitor.get(path);
  // A minute may end meanwhile.
  expect([before, yesterday()].filter((since) => form.text.includes(`value="${since}"`))).not.toEqual([]);
  const counted = await visitor.post(path, { since: yesterday(), until: "", rate_per_second: "7" });
  expect(counted.status).toBe(200);
  expect(counted.text).toContain("Missing: 2 events");
  expect(counted.text).toContain("at most 7 per second");
  expect(await replays()).toEqual([]);
  const fields = hiddenFields(counted);
  expect(fields["until"]).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  const sent = await visitor.post(`${path}/send`, fields);
  expect(sent.status).toBe(303);
  const [job] = await replays();
  expect(job).toMatchObject({ kind: "missing", endpoint_id: id, total: 2, rate_per_second: 7 });
  expect(sent.headers.get("location")).toBe(`/portal/replays/${String(job?.["id"])}`);
  // Sending the same form again yields the same job.
  expect(await visitor.post(`${path}/send`, fields)).toMatchObject({ status: 303 });
  expect(await replays()).toHaveLength(1);
  const progress = await visitor.get(`/portal/replays/${String(job?.["id"])}`);
  expect(progress.text).toContain("missing events");
  expect(progress.text).toContain(`href="/portal/endpoints/${id}"`);
  const cancelled = await visitor.post(`/portal/replays/${String(job?.["id"])}/cancel`);
  const after = await visitor.get(cancelled.headers.get("location") ?? "");
  expect(after.text).toContain("Events that were not sent are still missing");
  expect(there).not.toBe(id);
});

test("without missing events there is nothing to send", async () => {
  const { id } = await createEndpoint(api, tenant, { events: ["never.published"] });
  const { text } = await visitor.post(`/portal/endpoints/${id}/missing`, { since: yesterday(), until: "" });
  expect(text).toContain("No missing events");
  expect(text).not.toContain("/missing/send");
});

test.each([
  [{ since: "", until: "" }, "since", 422],
  [{ since: "2025-02-30T10:00", until: "" }, "since", 422],
  [{ since: "2025-01-01T10:00", until: "soon" }, "until", 422],
  // These ranges are always empty, so an answer of none would mislead.
  [{ since: "2025-01-02T10:00", until: "2025-01-01T10:00" }, "since", 422],
  [{ since: "2099-01-01T10:00", until: "" }, "since", 422],
  [{ since: "2025-01-01T10:00", until: "", rate_per_second: "fast" }, "rate_per_second", 422],
  [{ since: "2025-01-01T10:00", until: "", rate_per_second: "5001" }, "rate_per_second", 422],
])("%j is rejected beside the field, which keeps its text", async (fields, name, status) => {
  const { id } = await createEndpoint(api, tenant);
  const answer = await visitor.post(`/portal/endpoints/${id}/missing`, fields);
  expect(answer.status).toBe(status);
  expect(answer.text).toContain(`id="${name}-error"`);
  expect(answer.text).toContain(`value="${fields.since}"`);
});

test("an inactive endpoint and a session without replay scopes are not offered missing events", async () => {
  const { id } = await createEndpoint(api, tenant, { state: "DISABLED" });
  expect((await visitor.get(`/portal/endpoints/${id}`)).text).not.toContain("/missing");
  const refused = await visitor.post(`/portal/endpoints/${id}/missing`, { since: yesterday(), until: "" });
  expect(refused).toMatchObject({ status: 409 });
  expect(refused.text).toContain("only ACTIVE endpoints can receive missed events");
  const { id: active } = await createEndpoint(api, tenant);
  const reader = await signInToPortal(api, tenant.token, { scopes: ["webhooks:read", "webhooks:write"] });
  expect((await reader.get(`/portal/endpoints/${active}`)).text).not.toContain("/missing");
  expect(await reader.get(`/portal/endpoints/${active}/missing`)).toMatchObject({ status: 403 });
});

/** The portal's pages on credentials: created and rotated where the session may, with their use. */
import { beforeAll, expect, test } from "vitest";
import { useSharedApi } from "#test/support/api.ts";
import { accessToken } from "#test/support/factories.ts";
import { type PortalVisitor, signInToPortal } from "#test/support/portal.ts";
import { createTenant, rows, type Tenant } from "#test/support/tenant.ts";

const api = useSharedApi();
const SCOPES = ["portal:sign_in", "webhooks:read", "credentials:read", "credentials:write"];
const NEW = { name: "", san_uri: "", certificate_thumbprints: "" };

let tenant: Tenant;
let visitor: PortalVisitor;

beforeAll(async () => {
  tenant = await createTenant(api, SCOPES);
  visitor = await signInToPortal(api, tenant.token);
});

function secretOf(text: string): string {
  return /sgn_(?:live|test)_sk_[A-Za-z0-9_-]+/.exec(text)?.[0] ?? "";
}

test("a credential is created with a name, its secret shown once, and it gets tokens", async () => {
  const made = await visitor.post("/portal/credentials/new", { ...NEW, name: "Billing <b>" });
  expect(made.status).toBe(200);
  const clientSecret = secretOf(made.text);
  const [credential] = rows(await tenant.get("/v1/credentials"));
  expect(credential).toMatchObject({ name: "Billing <b>", last_used_at: null });
  const clientId = String(credential?.["client_id"]);
  await accessToken(api, { ...tenant, clientId, clientSecret }, SCOPES.join(" "));
  const list = (await visitor.get("/portal/credentials")).text;
  expect(list).toContain("Billing &lt;b&gt;");
  expect(list).not.toContain(clientSecret);
  const page = await visitor.get(`/portal/credentials/${String(credential?.["id"])}`);
  expect(page.text).toContain("Last used");
});

test("a credential is rotated: the new one replaces it, with its name", async () => {
  await visitor.post("/portal/credentials/new", { ...NEW, name: "Reports" });
  const [old] = rows(await tenant.get("/v1/credentials"));
  const path = `/portal/credentials/${String(old?.["id"])}`;
  expect((await visitor.get(path)).text).toContain(`action="${path}/rotate"`);
  const rotated = await visitor.post(`${path}/rotate`, { overlap: "3600" });
  expect(secretOf(rotated.text)).not.toBe("");
  const [replacement] = rows(await tenant.get("/v1/credentials"));
  expect(replacement).toMatchObject({ name: "Reports" });
  expect(await tenant.get(`/v1/credentials/${String(old?.["id"])}`)).toMatchObject({
    body: { replaced_by: replacement?.["id"] },
  });
  expect((await visitor.get(path)).text).not.toContain(`action="${path}/rotate"`);
  expect(await visitor.post(`${path}/rotate`, {})).toMatchObject({ status: 409 });
});

test("an invalid field is reported beside it", async () => {
  const refused = await visitor.post("/portal/credentials/new", { ...NEW, certificate_thumbprints: "abc" });
  expect(refused.status).toBe(422);
  expect(refused.text).toMatch(/id="certificate_thumbprints-error">Certificate thumbprints must/);
});

test("a session cannot create a credential with scopes that it lacks", async () => {
  const narrow = await signInToPortal(api, tenant.token, {
    scopes: ["credentials:read", "credentials:write"],
  });
  const refused = await narrow.post("/portal/credentials/new", NEW);
  expect(refused.status).toBe(403);
  expect(refused.text).toContain("scopes that the token does not have");
  const reader = await signInToPortal(api, tenant.token, { scopes: ["credentials:read"] });
  expect((await reader.get("/portal/credentials")).text).not.toContain("/portal/credentials/new");
});

test("only a session may lack the scope for signing in", async () => {
  const token = await accessToken(api, tenant, SCOPES.slice(1).join(" "));
  const answer = await api.request("/v1/credentials", {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: "{}",
  });
  expect(answer).toMatchObject({ status: 403, body: { missing_scopes: ["portal:sign_in"] } });
});

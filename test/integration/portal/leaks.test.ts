/** The portal revokes by what leaked, within the session's tenant and scopes, and never shows a secret again. */
import { beforeAll, expect, test } from "vitest";
import { useSharedApi } from "#test/support/api.ts";
import { accessToken, grant, provision, type Provisioned } from "#test/support/factories.ts";
import { type PortalVisitor, signInToPortal } from "#test/support/portal.ts";
import { createTenant, SAFE_SUMMARY, type Tenant } from "#test/support/tenant.ts";

const api = useSharedApi();
const SCOPES = ["portal:sign_in", "credentials:read", "credentials:revoke"];
const PATH = "/portal/credentials/revoke";

let tenant: Tenant;
let visitor: PortalVisitor;

beforeAll(async () => {
  tenant = await createTenant(api, SCOPES);
  visitor = await signInToPortal(api, tenant.token);
});

async function victim(): Promise<Provisioned> {
  return await provision(api, { tenantId: tenant.tenantId });
}

async function revoke(target: string, more: Readonly<Record<string, string>> = {}) {
  return await visitor.post(PATH, { target, reason: "", confirm: "revoke", ...more });
}

test("a credential ends by its client id, its secret or its token, and the page names the processes", async () => {
  const clients = [await victim(), await victim()] as const;
  for (const [client, target] of [
    [clients[0], clients[0].clientId],
    [clients[1], clients[1].clientSecret],
  ] as const) {
    const page = await revoke(target, { reason: "found in a repository" });
    expect(page.status).toBe(200);
    expect(page.text).toContain(client.clientId);
    expect(page.text).toMatch(/<code>api-[0-9a-f]{8}<\/code>/);
    expect(page.text).toMatch(SAFE_SUMMARY);
    expect(page.text).not.toContain(client.clientSecret);
    expect((await api.token(grant(client))).status).toBe(401);
  }
  const client = await victim();
  const token = await accessToken(api, client);
  const page = await revoke(token);
  expect(page.text).toContain("The credential stays");
  expect(page.text).not.toContain(token);
  expect((await api.token(grant(client))).status).toBe(200);
});

test("another tenant's credential, an unknown secret and a missing confirmation change nothing", async () => {
  const other = await provision(api);
  const client = await victim();
  const refusals = [
    [await revoke(other.clientSecret), 404, "No credential has this client secret."],
    [await revoke(other.clientId), 404, "There is no such credential."],
    [await revoke(client.clientSecret.slice(0, -1)), 422, "is not a whole client secret"],
    [await revoke(client.clientSecret, { confirm: "no" }), 422, "must be the word revoke"],
  ] as const;
  for (const [page, status, text] of refusals) {
    expect(page.status).toBe(status);
    expect(page.text).toContain(text);
    expect(page.text).not.toContain(client.clientSecret.slice(0, -1));
    expect(page.text).not.toContain(other.clientSecret);
  }
  for (const one of [other, client]) {
    expect((await api.token(grant(one))).status).toBe(200);
  }
});

test("the form needs credentials:revoke", async () => {
  const reader = await signInToPortal(api, await accessToken(api, tenant, "portal:sign_in credentials:read"));
  expect((await visitor.get("/portal/credentials")).text).toContain("What leaked?");
  expect((await reader.get("/portal/credentials")).text).not.toContain("What leaked?");
});

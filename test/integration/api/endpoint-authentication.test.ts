/** Custom headers and authentication towards receivers. Secrets are write-only. */
import { describe, expect, test } from "vitest";
import { useTestApi } from "#test/support/api.ts";
import { createTenant, expectRefusal, type Json, rows, sql, type Tenant } from "#test/support/tenant.ts";
import { createAuthority } from "../delivery/http-certificates.ts";

const api = useTestApi();
const ENDPOINTS = "/v1/webhooks/endpoints";
const BASE = { url: "https://hooks.example.com/in", events: ["inference.completed"] };
const OAUTH = {
  type: "oauth2_client_credentials",
  token_url: "https://tokens.example.com/token",
  client_id: "client",
  client_secret: "canary-oauth",
  scope: "a b",
};

async function create(tenant: Tenant, settings: Json): Promise<Json> {
  const answer = await tenant.post(ENDPOINTS, { ...BASE, ...settings });
  expect(answer).toMatchObject({ status: 201 });
  return answer.body;
}

async function problems(tenant: Tenant, settings: Json): Promise<readonly string[]> {
  const answer = await tenant.post(ENDPOINTS, { ...BASE, ...settings });
  expect(answer).toMatchObject({ status: 422, body: { code: "VALIDATION_FAILED" } });
  return (answer.body["errors"] as { pointer: string }[]).map(({ pointer }) => pointer);
}

async function sealed(id: unknown): Promise<readonly { sealed: string; version: number }[]> {
  return await sql(api, "SELECT sealed, version FROM endpoint_authentications WHERE endpoint_id = $1", [id]);
}

async function requestVersion(id: unknown): Promise<number | null | undefined> {
  const [row] = await sql<{ request_version: number | null }>(
    api,
    "SELECT request_version FROM endpoints WHERE id = $1",
    [id],
  );
  return row?.request_version;
}

describe("an endpoint's authentication", () => {
  test("is shown without its secret, which appears in no answer, log line or plaintext column", async () => {
    const tenant = await createTenant(api);
    const authority = createAuthority();
    const { cert, key } = authority.issue("DNS:sender.example.com");
    authority.remove();
    const kinds: readonly (readonly [Json, Json])[] = [
      [
        { type: "header", name: "Authorization", value: "Bearer canary-header" },
        { type: "header", name: "Authorization" },
      ],
      [OAUTH, { type: OAUTH.type, token_url: OAUTH.token_url, client_id: "client", scope: "a b" }],
      [
        { type: "client_certificate", certificate: cert, private_key: key },
        {
          type: "client_certificate",
          fingerprint: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
          subject: "CN=receiver",
          not_after: expect.any(String) as string,
        },
      ],
    ];
    for (const [given, shown] of kinds) {
      const made = await create(tenant, { authentication: given });
      expect(made["authentication"]).toEqual({ ...shown, updated_at: expect.any(String) as string });
      const id = String(made["id"]);
      const answers = [await tenant.get(`${ENDPOINTS}/${id}`), await tenant.get(ENDPOINTS)];
      const [stored] = await sealed(id);
      expect(stored?.sealed).toMatch(/^v1\./);
      const endpointRow = JSON.stringify(await sql(api, "SELECT * FROM endpoints WHERE id = $1", [id]));
      const seen = [...answers.map(({ text }) => text), JSON.stringify(made), endpointRow, api.log.join("")];
      expect(seen.join("")).not.toMatch(/canary|PRIVATE KEY|BEGIN/);
    }
    const entries = JSON.stringify(await sql(api, "SELECT * FROM clog"));
    expect(entries).not.toContain("canary");
  });

  test("can be replaced and removed, and is erased with its endpoint; each change has its own version", async () => {
    const tenant = await createTenant(api);
    const plain = await create(tenant, {});
    expect(plain).toMatchObject({ headers: {}, authentication: null });
    expect(await requestVersion(plain["id"])).toBeNull();
    const path = `${ENDPOINTS}/${String(plain["id"])}`;
    const change = async (body: Json): Promise<Json> => {
      const answer = await tenant.send("PATCH", path, { body });
      expect(answer).toMatchObject({ status: 200 });
      return answer.body;
    };
    expect(await change({ headers: { "X-A": "1" } })).toMatchObject({ headers: { "X-A": "1" } });
    expect(await requestVersion(plain["id"])).toBe(1);
    await change({ authentication: OAUTH });
    const [first] = await sealed(plain["id"]);
    expect(first?.version).toBe(2);
    // A change of the secret alone is a change too.
    await change({ authentication: { ...OAUTH, client_secret: "canary-2" } });
    const [second] = await sealed(plain["id"]);
    expect(second?.version).toBe(3);
    expect(second?.sealed).not.toBe(first?.sealed);
    expect(await change({ description: "else" })).toMatchObject({
      headers: { "X-A": "1" },
      authentication: { type: OAUTH.type },
      description: "else",
    });
    expect(await requestVersion(plain["id"])).toBe(3);
    expect(await change({ headers: null, authentication: null })).toMatchObject({
      headers: {},
      authentication: null,
      state: "PENDING",
    });
    expect(await sealed(plain["id"])).toEqual([]);
    expect(await requestVersion(plain["id"])).toBe(4);
    await change({ authentication: OAUTH });
    expect(await tenant.send("DELETE", path)).toMatchObject({ status: 204 });
    expect(await sealed(plain["id"])).toEqual([]);
  });

  test.each([
    ["/authentication/value", { type: "header", name: "X-Key", value: "canary" }],
    ["/authentication/client_secret", OAUTH],
  ])("stays with the origin it was given for: %s", async (pointer, authentication) => {
    const tenant = await createTenant(api);
    const path = `${ENDPOINTS}/${String((await create(tenant, { authentication }))["id"])}`;
    const change = async (body: Json) => await tenant.send("PATCH", path, { body });
    for (const url of ["https://mine.example.com/in", "https://hooks.example.com:8443/in"]) {
      expect(await change({ url, description: "moved" })).toMatchObject({
        status: 422,
        body: { errors: [{ pointer, code: "required" }] },
      });
    }
    expect((await tenant.get(path)).body).toMatchObject({ url: BASE.url, description: null });
    expect(await change({ url: "https://hooks.example.com/other" })).toMatchObject({ status: 200 });
    const url = "https://mine.example.com/in";
    expect(await change({ url, authentication })).toMatchObject({ status: 200, body: { url } });
    expect(await change({ url: BASE.url, authentication: null })).toMatchObject({
      status: 200,
      body: { url: BASE.url, authentication: null },
    });
    expect(await change({ url })).toMatchObject({ status: 200, body: { url } });
  });

  test("names what changed in the compliance log, without values", async () => {
    const tenant = await createTenant(api, ["webhooks:write", "webhooks:read", "compliance:read"]);
    const made = await create(tenant, {});
    await tenant.send("PATCH", `${ENDPOINTS}/${String(made["id"])}`, {
      body: { headers: { "X-A": "canary" }, authentication: OAUTH },
    });
    const found = rows(await tenant.get("/v1/compliance/entries?limit=10"));
    const updated = found.find(({ type }) => type === "endpoint.updated");
    expect(updated).toMatchObject({ details: { changed: ["headers", "authentication"] } });
    expect(JSON.stringify(found)).not.toContain("canary");
  });

  test("is the same for a repeated registration; a different one with the same key is rejected", async () => {
    const tenant = await createTenant(api);
    const headers = { "idempotency-key": "one" };
    const body = { ...BASE, headers: { "X-A": "1" }, authentication: OAUTH };
    const first = await tenant.post(ENDPOINTS, body, headers);
    const { client_secret: secret, ...others } = OAUTH;
    const again = await tenant.post(
      ENDPOINTS,
      { ...body, authentication: { client_secret: secret, ...others } },
      headers,
    );
    expect(again.body).toEqual(first.body);
    const other = { ...body, authentication: { ...OAUTH, client_id: "other" } };
    expectRefusal(await tenant.post(ENDPOINTS, other, headers), 409, "IDEMPOTENCY_KEY_REUSED");
  });

  test("cannot change while the tenant is on hold", async () => {
    const tenant = await createTenant(api);
    const made = await create(tenant, { authentication: OAUTH });
    await sql(api, "UPDATE tenants SET held_at = now() WHERE id = $1", [tenant.tenantId]);
    const answer = await tenant.send("PATCH", `${ENDPOINTS}/${String(made["id"])}`, {
      body: { authentication: { type: "header", name: "X-A", value: "b" } },
    });
    expectRefusal(answer, 409, "INVALID_STATE");
    expect((await sealed(made["id"]))[0]?.version).toBe(1);
  });
});

describe("an error with a pointer rejects", () => {
  test("reserved headers, and secrets among the plain headers", async () => {
    const tenant = await createTenant(api);
    const forbidden = [
      "Host",
      "content-type",
      "Content-Length",
      "Transfer-Encoding",
      "Connection",
      "TE",
      "User-Agent",
      "X-Service-Signature-256",
      "x-service-anything",
      "X-Signet-Identity",
      "Webhook-Signature",
      "webhook-extra",
      "X-Forwarded-For",
      "Forwarded",
      "Client-Cert",
      "Metadata-Flavor",
      "X-aws-ec2-metadata-token",
      "Proxy-Authorization",
      "Authorization",
      "Cookie",
    ];
    for (const name of forbidden) {
      expect(await problems(tenant, { headers: { [name]: "x" } }), name).toEqual([`/headers/${name}`]);
    }
    for (const name of ["Content-Type", "X-Service-Signature-256", "Host", "Metadata-Flavor"]) {
      expect(await problems(tenant, { authentication: { type: "header", name, value: "x" } }), name).toEqual([
        "/authentication/name",
      ]);
    }
    expect(await problems(tenant, { headers: { "X-A": "1", "x-a": "2" } })).toEqual(["/headers/x-a"]);
  });

  test("invalid header names and values, and too many of them", async () => {
    const tenant = await createTenant(api);
    for (const name of ["", "X A", "X:A", "X\r\nA", "Ü", "1x", "x".repeat(65)]) {
      expect((await problems(tenant, { headers: { [name]: "x" } })).length, name).toBeGreaterThan(0);
    }
    for (const value of ["", " x", "x ", "a\r\nX-B: c", "a\nb", "ü", "x".repeat(1_025), 1, null]) {
      const pointers = await problems(tenant, { headers: { "X-A": value } });
      expect(pointers, JSON.stringify(value)).toContain("/headers/X-A");
    }
    const many = Object.fromEntries(Array.from({ length: 17 }, (_, index) => [`X-${index}`, "x"]));
    expect(await problems(tenant, { headers: many })).toEqual(["/headers"]);
    const long = Object.fromEntries(
      Array.from({ length: 9 }, (_, index) => [`X-${index}`, "x".repeat(1_024)]),
    );
    expect(await problems(tenant, { headers: long })).toEqual(["/headers"]);
  });

  test("forbidden token URLs and invalid certificates", async () => {
    const tenant = await createTenant(api);
    for (const url of [
      "http://169.254.169.254/latest",
      "https://10.0.0.1/",
      "https://internal/",
      "ftp://a.b/",
    ]) {
      expect(await problems(tenant, { authentication: { ...OAUTH, token_url: url } }), url).toEqual([
        "/authentication/token_url",
      ]);
    }
    const authority = createAuthority();
    const one = authority.issue("DNS:a.example.com");
    const other = authority.issue("DNS:b.example.com");
    authority.remove();
    const certificate = async (given: { certificate?: string; private_key?: string }) =>
      await problems(tenant, {
        authentication: { type: "client_certificate", certificate: one.cert, private_key: one.key, ...given },
      });
    expect(await certificate({ certificate: "x" })).toEqual(["/authentication/certificate"]);
    expect(await certificate({ private_key: "x" })).toEqual(["/authentication/private_key"]);
    expect(await certificate({ private_key: other.key })).toEqual(["/authentication/private_key"]);
    expect((await problems(tenant, { authentication: { type: "none" } })).length).toBeGreaterThan(0);
    expect(await problems(tenant, { authentication: { ...OAUTH, extra: 1 } })).toContain(
      "/authentication/extra",
    );
  });
});

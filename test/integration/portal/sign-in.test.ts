/** Signing in to the portal: once per link, from the portal's page, and no longer than the link's credential. */
import { describe, expect, test } from "vitest";
import { type Answer, useTestApi } from "#test/support/api.ts";
import { accessToken, bearer, provision, type Provisioned } from "#test/support/factories.ts";
import { mintLink, openLink, type PortalVisitor, signInToPortal } from "#test/support/portal.ts";
import { sql } from "#test/support/tenant.ts";

const api = useTestApi();
const SCOPES = [
  "portal:sign_in",
  "webhooks:read",
  "webhooks:write",
  "credentials:read",
  "credentials:revoke",
  "compliance:read",
];

interface SignedIn {
  readonly client: Provisioned;
  readonly token: string;
  readonly visitor: PortalVisitor;
}

async function client(): Promise<Provisioned> {
  return await provision(api, { scopes: SCOPES });
}

async function tokenOf(made: Provisioned): Promise<string> {
  return await accessToken(api, made, SCOPES.join(" "));
}

async function signedIn(): Promise<SignedIn> {
  const made = await client();
  const token = await tokenOf(made);
  return { client: made, token, visitor: await signInToPortal(api, token) };
}

async function links(
  token: string,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  return await api.request("/v1/portal/links", {
    method: "POST",
    headers: { ...bearer(token), "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
}

describe("a link", () => {
  test("shows a page, opens one session, and cannot be used again", async () => {
    const url = await mintLink(api, await tokenOf(await client()));
    const path = url.slice(api.publicUrl.length);
    const views = await Promise.all([api.request(path), api.request(path)]);
    for (const view of views) {
      expect(view.status).toBe(200);
      expect(view.text).toContain("Sign in to the portal");
    }
    const opened = await Promise.all([1, 2, 3, 4].map(async () => await openLink(api, url)));
    expect(opened.filter(({ status }) => status === 303)).toHaveLength(1);
    expect(opened.filter(({ status }) => status === 401)).toHaveLength(3);
  });

  test("is valid for the requested time, at most 15 minutes", async () => {
    const token = await tokenOf(await client());
    expect(await links(token, { expires_in_seconds: 901 })).toMatchObject({
      status: 422,
      body: { code: "VALIDATION_FAILED" },
    });
    const short = await mintLink(api, token, { expires_in_seconds: 60 });
    api.clock.advance(61_000);
    expect(await openLink(api, short)).toMatchObject({ status: 401 });
  });

  test("has no scopes that its token lacks", async () => {
    const narrow = await accessToken(api, await client(), "portal:sign_in webhooks:read");
    expect(await links(narrow, { scopes: ["webhooks:read", "webhooks:write"] })).toMatchObject({
      status: 403,
      body: { code: "SCOPE_VIOLATION", missing_scopes: ["webhooks:write"] },
    });
  });

  test("is not returned for the same Idempotency-Key to a token with fewer scopes", async () => {
    const made = await client();
    const narrow = await accessToken(api, made, "portal:sign_in");
    const bodies = [{}, { scopes: ["webhooks:write"] }];
    for (const [index, body] of bodies.entries()) {
      const key = { "idempotency-key": `link-${index}` };
      const wide = await links(await tokenOf(made), body, key);
      expect(wide.status).toBe(201);
      const refused = await links(narrow, body, key);
      expect(refused.status).toBe(index === 0 ? 409 : 403);
      expect(refused.text).not.toContain("sign-in?link=");
      const again = await links(await tokenOf(made), body, key);
      expect(again.body).toEqual(wide.body);
    }
  });

  test("is rejected with any character changed, or with another tenant's id", async () => {
    const url = new URL(await mintLink(api, await tokenOf(await client())));
    const secret = url.searchParams.get("link") ?? "";
    const other = await client();
    const forged = [
      secret.replace(/.$/, (last) => (last === "A" ? "B" : "A")),
      `${other.tenantId}.${secret.split(".")[1] ?? ""}`,
      secret.replace(".", "'"),
      "",
    ];
    for (const link of forged) {
      url.searchParams.set("link", link);
      expect({ link, status: (await openLink(api, url.href)).status }).toEqual({ link, status: 401 });
    }
  });

  test("invalidates the oldest one if 100 are already waiting", async () => {
    const token = await tokenOf(await client());
    const oldest = await mintLink(api, token);
    api.clock.advance(1);
    const minted = [];
    for (let count = 0; count < 100; count += 1) {
      minted.push(await mintLink(api, token));
    }
    expect(await openLink(api, oldest)).toMatchObject({ status: 401 });
    expect(await openLink(api, minted[0] ?? "")).toMatchObject({ status: 303 });
    expect(await openLink(api, minted.at(-1) ?? "")).toMatchObject({ status: 303 });
  });

  test("is rejected on requests from other sites, and without information about the origin", async () => {
    const url = await mintLink(api, await tokenOf(await client()));
    for (const headers of [
      { "sec-fetch-site": "cross-site" },
      { "sec-fetch-site": "same-site" },
      { "sec-fetch-site": "none" },
      { origin: "https://evil.example" },
      { origin: "null" },
    ]) {
      expect(await openLink(api, url, headers)).toMatchObject({ status: 400 });
    }
    expect(await openLink(api, url)).toMatchObject({ status: 303 });
  });
});

describe("a session", () => {
  test("is identified by a cookie hidden from scripts and other sites, and by hashes in the database", async () => {
    const token = await tokenOf(await client());
    const opened = await openLink(api, await mintLink(api, token));
    const cookie = opened.headers.get("set-cookie") ?? "";
    expect(cookie).toMatch(/; Path=\/; HttpOnly; SameSite=Strict$/);
    const secret = cookie.split(/[=;]/)[1] ?? "";
    const stored = await sql<{ row: string }>(api, "SELECT to_jsonb(s)::text AS row FROM portal_sessions s");
    expect(stored.length).toBeGreaterThan(0);
    expect(stored.filter(({ row }) => row.includes(secret.split(".")[1] ?? ""))).toEqual([]);
    expect(api.log.filter((line) => line.includes(secret))).toEqual([]);
  });

  test("ends after eight hours, and when its user signs out", async () => {
    const { visitor } = await signedIn();
    expect(await visitor.get("/portal")).toMatchObject({ status: 200 });
    expect(await visitor.post("/portal/sign-out")).toMatchObject({ status: 303 });
    expect(await visitor.get("/portal")).toMatchObject({ status: 401 });
    const { visitor: other } = await signedIn();
    api.clock.advance(8 * 3_600_000 - 60_000);
    expect(await other.get("/portal")).toMatchObject({ status: 200 });
    api.clock.advance(61_000);
    expect(await other.get("/portal")).toMatchObject({ status: 401 });
  });

  test("of the same credential is listed, and can be ended by another one", async () => {
    const { token, visitor } = await signedIn();
    const other = await signInToPortal(api, token);
    const agent = "Mozilla/5.0 (X11; Linux x86_64; rv:150.0) Gecko/20100101 Firefox/150.0";
    await openLink(api, await mintLink(api, token), { "user-agent": agent });
    const list = await visitor.get("/portal/sessions");
    expect(list.text).toContain("Firefox on Linux from 127.0.0.1");
    const ends = [...list.text.matchAll(/action="(\/portal\/sessions\/[0-9a-f]{64}\/end)"/g)].map(
      ([, action = ""]) => action,
    );
    expect(ends).toHaveLength(3);
    const stranger = await signedIn();
    for (const end of ends) {
      await stranger.visitor.post(end);
    }
    expect(await other.get("/portal")).toMatchObject({ status: 200 });
    for (const end of ends) {
      await visitor.post(end);
    }
    expect(await other.get("/portal")).toMatchObject({ status: 401 });
    expect(await visitor.get("/portal")).toMatchObject({ status: 401 });
  });

  test("is replaced when its browser signs in again, also for another tenant", async () => {
    const { token, visitor } = await signedIn();
    const again = await openLink(api, await mintLink(api, token), { cookie: visitor.cookie });
    expect(again).toMatchObject({ status: 303 });
    expect(await visitor.get("/portal")).toMatchObject({ status: 401 });
    const elsewhere = await signedIn();
    const [cookie = ""] = (again.headers.get("set-cookie") ?? "").split(";");
    expect((await api.request("/portal", { headers: { cookie } })).status).toBe(200);
    await openLink(api, await mintLink(api, elsewhere.token), { cookie });
    expect((await api.request("/portal", { headers: { cookie } })).status).toBe(401);
    expect((await elsewhere.visitor.get("/portal")).status).toBe(200);
  });

  test("is not replaced by an invalid link", async () => {
    const { token, visitor } = await signedIn();
    const link = await mintLink(api, token);
    await openLink(api, link);
    expect(await openLink(api, link, { cookie: visitor.cookie })).toMatchObject({ status: 401 });
    expect((await visitor.get("/portal")).status).toBe(200);
  });

  test("ends the oldest one if its credential already has 50", async () => {
    const { token, visitor: oldest } = await signedIn();
    api.clock.advance(1);
    const visitors = [];
    for (let count = 0; count < 49; count += 1) {
      visitors.push(await signInToPortal(api, token));
    }
    expect((await oldest.get("/portal")).status).toBe(200);
    api.clock.advance(1);
    const last = await signInToPortal(api, token);
    expect((await last.get("/portal")).status).toBe(200);
    expect((await oldest.get("/portal")).status).toBe(401);
    for (const visitor of visitors) {
      expect((await visitor.get("/portal")).status).toBe(200);
    }
  });

  test("can end only sessions whose scopes are no wider than its own", async () => {
    const { token, visitor: wide } = await signedIn();
    const narrow = await signInToPortal(api, token, { scopes: ["webhooks:read"] });
    const endsOf = async (visitor: PortalVisitor): Promise<string[]> =>
      [
        ...(await visitor.get("/portal/sessions")).text.matchAll(
          /action="(\/portal\/sessions\/[0-9a-f]{64}\/end)"/g,
        ),
      ].map(([, action = ""]) => action);
    const own = await endsOf(narrow);
    expect(own).toHaveLength(1);
    const all = await endsOf(wide);
    expect(all).toHaveLength(2);
    const [ofWide = ""] = all.filter((end) => !own.includes(end));
    expect(await narrow.post(ofWide)).toMatchObject({ status: 403 });
    expect((await wide.get("/portal")).status).toBe(200);
    await wide.post(own[0] ?? "");
    expect((await narrow.get("/portal")).status).toBe(401);
  });

  test.each([
    {
      ends: "the revocation of its credential",
      end: async ({ client: { credentialId } }: SignedIn) =>
        await api.admin("POST", `/credentials/${credentialId}/revoke`, {}),
    },
    {
      ends: "the revocation of its principal",
      end: async ({ client: { principalId } }: SignedIn) =>
        await api.admin("POST", `/principals/${principalId}/revoke`, {}),
    },
    {
      ends: "the suspension of its tenant",
      end: async ({ client: { tenantId } }: SignedIn) =>
        await api.admin("POST", `/tenants/${tenantId}/suspend`, {}),
    },
    {
      ends: "a hold of its tenant",
      end: async ({ client: { tenantId } }: SignedIn) =>
        await api.admin("POST", `/tenants/${tenantId}/hold`, {}),
    },
    {
      ends: "the revocation of the token that its link was made with",
      end: async ({ client: { clientId, clientSecret }, token }: SignedIn) =>
        await api.request("/v1/auth/revoke", {
          method: "POST",
          headers: { "content-type": "application/x-www-form-urlencoded" },
          body: new URLSearchParams({
            client_id: clientId,
            client_secret: clientSecret,
            token,
          }).toString(),
        }),
    },
  ])("ends with $ends", async ({ end }) => {
    const signed = await signedIn();
    const link = await mintLink(api, signed.token);
    const answer = await end(signed);
    expect({ status: answer.status, text: answer.text }).toMatchObject({ status: 200 });
    expect(await signed.visitor.get("/portal")).toMatchObject({ status: 401 });
    expect(await openLink(api, link)).toMatchObject({ status: 401 });
    const left = await sql(
      api,
      `SELECT hash FROM portal_sessions WHERE tenant_id = $1
       UNION ALL SELECT hash FROM portal_links WHERE tenant_id = $1`,
      [signed.client.tenantId],
    );
    expect(left).toEqual([]);
  });

  test("loses scopes with its principal", async () => {
    const { client: made, visitor } = await signedIn();
    expect(await visitor.get("/portal/endpoints")).toMatchObject({ status: 200 });
    await sql(api, "UPDATE principals SET scopes = '{portal:sign_in}' WHERE id = $1", [made.principalId]);
    expect(await visitor.get("/portal/endpoints")).toMatchObject({ status: 403 });
    expect(await visitor.get("/portal")).toMatchObject({ status: 200 });
  });

  test("has its beginning and its end in the compliance log", async () => {
    const { token, visitor } = await signedIn();
    await visitor.post("/portal/sign-out");
    const { body } = await api.request("/v1/compliance/entries", { headers: bearer(token) });
    const types = (body["data"] as { type: string }[]).map(({ type }) => type);
    expect(types).toEqual(
      expect.arrayContaining(["portal.link_created", "portal.signed_in", "portal.session_ended"]),
    );
  });
});

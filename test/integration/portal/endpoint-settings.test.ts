/** The portal's form for an endpoint: filter, headers, metadata, rate, echo, and authentication to the receiver. */
import { beforeAll, describe, expect, test } from "vitest";
import { createAuthority } from "../delivery/http-certificates.ts";
import { type Answer, useTestApi } from "#test/support/api.ts";
import { type PortalVisitor, signInToPortal } from "#test/support/portal.ts";
import { createEndpoint, createTenant, sql, type Tenant } from "#test/support/tenant.ts";

const api = useTestApi();
const SCOPES = ["portal:sign_in", "webhooks:read", "webhooks:write"];
const BASE = { url: "https://example.com/hooks", events: "", description: "" };
const CANARY = "canary-4f1d0c9ab7e6";

let tenant: Tenant;
let visitor: PortalVisitor;

const ENTITIES: Readonly<Record<string, string>> = {
  "&amp;": "&",
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&#39;": "'",
};
const unescape = (text: string): string =>
  text.replaceAll(/&(?:amp|lt|gt|quot|#39);/g, (entity) => ENTITIES[entity] ?? "");

/** Returns the contents of a text area. */
function areaOf({ text }: Answer, name: string): string {
  return unescape(
    new RegExp(`<textarea[^>]*\\sname="${name}"[^>]*>\\n([^<]*)</textarea>`).exec(text)?.[1] ?? "?",
  );
}

/** Returns the error message beside a field. */
function errorOf({ text }: Answer, name: string): string {
  return unescape(new RegExp(`<p class="error" id="${name}-error">([^<]*)</p>`).exec(text)?.[1] ?? "");
}

async function add(fields: Readonly<Record<string, string>>): Promise<Answer> {
  return await visitor.post("/portal/endpoints/new", { ...BASE, ...fields });
}

async function idOfAdded(fields: Readonly<Record<string, string>>): Promise<string> {
  const answer = await add(fields);
  expect({ status: answer.status, notice: /role="alert">([^<]*)/.exec(answer.text)?.[1] }).toEqual({
    status: 200,
    notice: undefined,
  });
  return /\/portal\/endpoints\/(ep_[0-9a-z]{24})/.exec(answer.text)?.[1] ?? "";
}

const edit = async (id: string, fields: Readonly<Record<string, string>>): Promise<Answer> =>
  await visitor.post(`/portal/endpoints/${id}/edit`, { ...BASE, ...fields });

/** Returns the API's answer as text, to compare the spelling of numbers. */
const textOf = async (id: string): Promise<string> => (await tenant.get(`/v1/webhooks/endpoints/${id}`)).text;
const bodyOf = async (id: string) => (await tenant.get(`/v1/webhooks/endpoints/${id}`)).body;

beforeAll(async () => {
  tenant = await createTenant(api, SCOPES);
  visitor = await signInToPortal(api, tenant.token);
});

describe("settings", () => {
  const SETTINGS = {
    filter: '{"data.amount": {"$gte": 100}}',
    headers: "X-Environment: staging\r\nX-Team:  billing: eu \r\n\r\n",
    metadata: '{"one": 1.0, "big": 1152921504606846977, "team": "ml"}',
    rate_limit: "20",
    require_echo: "yes",
  };

  test("are stored with a new endpoint and shown; metadata keep their spelling", async () => {
    const id = await idOfAdded(SETTINGS);
    expect(await bodyOf(id)).toMatchObject({
      filter: { "data.amount": { $gte: 100 } },
      headers: { "X-Environment": "staging", "X-Team": "billing: eu" },
      rate_limit: 20,
      require_echo: true,
      authentication: null,
    });
    expect(await textOf(id)).toContain(SETTINGS.metadata);
    const { text } = await visitor.get(`/portal/endpoints/${id}`);
    expect(unescape(text)).toContain(SETTINGS.metadata);
    expect(text).toContain("X-Team: billing: eu");
    expect(text).toContain("at most 20 deliveries per second");
    expect(text).toContain("200 and the ping&#39;s challenge");
  });

  test("are filled into the form unchanged, and saving it changes nothing", async () => {
    const id = await idOfAdded(SETTINGS);
    const before = JSON.parse(await textOf(id)) as object;
    const form = await visitor.get(`/portal/endpoints/${id}/edit`);
    expect(areaOf(form, "headers")).toBe("X-Environment: staging\nX-Team: billing: eu");
    expect(areaOf(form, "metadata")).toBe(SETTINGS.metadata);
    expect(form.text).toContain('<option value="yes" selected>');
    const same = {
      filter: areaOf(form, "filter"),
      headers: areaOf(form, "headers"),
      metadata: areaOf(form, "metadata"),
      rate_limit: "20",
      require_echo: "yes",
      authentication: "none",
    };
    expect(await edit(id, same)).toMatchObject({ status: 303 });
    expect(await textOf(id)).toContain(SETTINGS.metadata);
    const { updated_at: _before, ...rest } = before as { updated_at: string };
    expect(await bodyOf(id)).toMatchObject(rest);
  });

  test("are removed by empty fields and kept if the form lacks the field", async () => {
    const id = await idOfAdded(SETTINGS);
    expect(await edit(id, {})).toMatchObject({ status: 303 });
    expect(await bodyOf(id)).toMatchObject({ rate_limit: 20, require_echo: true });
    const empty = { filter: "", headers: "", metadata: " ", rate_limit: "", require_echo: "no" };
    expect(await edit(id, empty)).toMatchObject({ status: 303 });
    expect(await bodyOf(id)).toMatchObject({
      filter: null,
      headers: {},
      metadata: null,
      rate_limit: null,
      require_echo: false,
    });
  });

  test.each([
    ["filter", "{", "is not JSON"],
    ["filter", "1", "must be an object"],
    ["filter", '{"data.a": {"$near": 1}}', "$near"],
    ["metadata", "{'a': 1}", "is not JSON"],
    ["metadata", "[]", "must be an object"],
    ["metadata", '{}, "url": "https://evil.example"', "is not JSON"],
    ["headers", "no colon", "Line 1 is not of the form Name: value"],
    ["headers", ": value", "Line 1 is not of the form Name: value"],
    ["headers", "X-A: 1\nX-A: 2", "The header X-A appears twice"],
    ["headers", "Host: evil.example", "Host is a reserved header"],
    ["headers", "Authorization: Bearer x", "Authorization contains a secret"],
    ["headers", "X-A: ", "X-A must"],
    ["rate_limit", "fast", "Deliveries per second must be a whole number from 1 to 1000 or empty."],
    ["rate_limit", "0", "from 1 to 1000, not 0"],
    ["rate_limit", "5000", "from 1 to 1000, not 5000"],
  ])("with %s %s are rejected beside the field, which keeps its text", async (name, value, message) => {
    const answer = await add({ [name]: value });
    expect(answer.status).toBe(422);
    expect(errorOf(answer, name)).toContain(message);
    expect(answer.text).toContain("<details open>");
    expect(answer.text).toMatch(new RegExp(`name="${name}"[^>]*\\saria-invalid="true"`));
    const kept = name === "rate_limit" ? value : areaOf(answer, name);
    // A header that contains a secret loses its value.
    expect(kept).toBe(value.replace(" Bearer x", ""));
  });

  test("that are too long for the API get the API's answer", async () => {
    const metadata = JSON.stringify({ long: "x".repeat(5_000) });
    const answer = await add({ metadata });
    expect(answer.status).toBe(422);
    expect(answer.text).toContain("metadata may have at most 4096 bytes");
  });
});

describe("authentication to the receiver", () => {
  const HEADER = {
    authentication: "header",
    auth_name: "Authorization",
    auth_value: `Bearer ${CANARY}`,
  };
  const OAUTH = {
    authentication: "oauth2_client_credentials",
    auth_token_url: "https://tokens.example.com/token",
    auth_client_id: "billing",
    auth_client_secret: CANARY,
    auth_scope: "hooks",
  };
  let certificate: Readonly<Record<string, string>>;

  beforeAll(() => {
    const authority = createAuthority();
    const { cert, key } = authority.issue("DNS:sender.example.com");
    authority.remove();
    // As browsers send lines.
    const lines = (pem: string): string => pem.replaceAll(/\r?\n/g, "\r\n");
    certificate = {
      authentication: "client_certificate",
      auth_certificate: lines(cert),
      auth_private_key: lines(key),
    };
  });

  test("of each kind can be set, replaced and removed; no page shows its secret", async () => {
    const id = await idOfAdded(HEADER);
    expect(await bodyOf(id)).toMatchObject({ authentication: { type: "header", name: "Authorization" } });
    expect(await edit(id, OAUTH)).toMatchObject({ status: 303 });
    expect(await bodyOf(id)).toMatchObject({
      authentication: {
        type: "oauth2_client_credentials",
        token_url: OAUTH.auth_token_url,
        client_id: "billing",
        scope: "hooks",
      },
    });
    for (const path of [`/portal/endpoints/${id}`, `/portal/endpoints/${id}/edit`, "/portal/endpoints"]) {
      const { status, text } = await visitor.get(path);
      expect({ path, status, leaks: text.includes(CANARY) }).toEqual({ path, status: 200, leaks: false });
    }
    expect(await edit(id, certificate)).toMatchObject({ status: 303 });
    const { text } = await visitor.get(`/portal/endpoints/${id}`);
    expect(text).toContain("client certificate");
    expect(text).not.toContain("PRIVATE KEY");
    expect(await bodyOf(id)).toMatchObject({ authentication: { type: "client_certificate" } });
    expect(await edit(id, { authentication: "none" })).toMatchObject({ status: 303 });
    expect(await bodyOf(id)).toMatchObject({ authentication: null });
    const sealed = await sql(api, "SELECT 1 FROM endpoint_authentications WHERE endpoint_id = $1", [id]);
    expect(sealed).toEqual([]);
  });

  test.each([
    ["a header line", { headers: `Authorization: Bearer ${CANARY}` }, "headers", "contains a secret"],
    ["the address", { url: `https://user:${CANARY}@example.com/hooks` }, "url", "user names"],
    ["the description", { description: `sgn_live_sk_${CANARY}`, rate_limit: "0" }, "rate_limit", "must be"],
    ["the event types", { events: `whsec_${"a".repeat(9)}${CANARY}` }, "events", "must"],
    [
      "the token URL",
      { ...OAUTH, auth_token_url: `https://u:${CANARY}@example.com` },
      "auth_token_url",
      "is not allowed",
    ],
    [
      "the client id",
      { ...OAUTH, auth_client_id: `sgn_live_sk_${CANARY}`, rate_limit: "0" },
      "rate_limit",
      "must",
    ],
    [
      "the certificate field, as a private key",
      { authentication: "client_certificate", auth_certificate: `-----BEGIN PRIVATE KEY-----\n${CANARY}` },
      "auth_certificate",
      "contains a private key",
    ],
    [
      "the certificate field, as unknown text",
      { authentication: "client_certificate", auth_certificate: CANARY, auth_private_key: CANARY },
      "auth_certificate",
      "is not a PEM certificate",
    ],
  ])("a secret in %s is not repeated in the rejected form", async (_where, fields, name, message) => {
    const id = await idOfAdded({});
    for (const answer of [await add(fields), await edit(id, fields)]) {
      expect({ status: answer.status, leaks: answer.text.includes(CANARY) }).toEqual({
        status: 422,
        leaks: false,
      });
      expect(errorOf(answer, name)).toContain(message);
    }
  });

  test("remains unchanged unless another kind is chosen", async () => {
    const id = await idOfAdded(HEADER);
    const version = async (): Promise<unknown> =>
      await sql(api, "SELECT sealed FROM endpoint_authentications WHERE endpoint_id = $1", [id]);
    const before = await version();
    const form = await visitor.get(`/portal/endpoints/${id}/edit`);
    expect(form.text).toMatch(/value="keep"\s+checked/);
    expect(await edit(id, { authentication: "keep", description: "New" })).toMatchObject({ status: 303 });
    expect(await edit(id, { description: "Newer" })).toMatchObject({ status: 303 });
    expect(await version()).toEqual(before);
    expect(await bodyOf(id)).toMatchObject({ description: "Newer", authentication: { type: "header" } });
  });

  test("does not move to another host unless its secret is entered again", async () => {
    for (const fields of [HEADER, OAUTH, certificate]) {
      const id = await idOfAdded(fields);
      const moved = { url: "https://elsewhere.example.com/in" };
      const refused = await edit(id, { ...moved, authentication: "keep" });
      expect(refused.status).toBe(422);
      expect(errorOf(refused, "authentication")).toContain("must be sent again");
      expect(await edit(id, { ...moved, ...fields })).toMatchObject({ status: 303 });
      expect(await bodyOf(id)).toMatchObject(moved);
    }
  });

  test("that is invalid is rejected beside its fields, and its secrets must be entered again", async () => {
    const cases: readonly (readonly [Readonly<Record<string, string>>, string, string])[] = [
      [{ ...HEADER, auth_name: "no name" }, "auth_name", "must be a header name"],
      [{ ...HEADER, auth_name: "Host" }, "auth_name", "is a reserved header"],
      [{ ...HEADER, auth_value: "" }, "auth_value", "must be a header value"],
      [{ ...OAUTH, auth_token_url: "http://10.0.0.1/token" }, "auth_token_url", "is not allowed"],
      [{ ...OAUTH, auth_client_id: "" }, "auth_client_id", "must have at least 1 character, not 0"],
      [{ ...OAUTH, auth_client_secret: "" }, "auth_client_secret", "must have at least 1 character, not 0"],
      [{ ...certificate, auth_certificate: CANARY }, "auth_certificate", "is not a PEM certificate"],
      [{ ...certificate, auth_private_key: CANARY }, "auth_private_key", "is not an unencrypted PEM"],
    ];
    for (const [fields, field, message] of cases) {
      const answer = await add(fields);
      expect({ field, status: answer.status }).toEqual({ field, status: 422 });
      expect(errorOf(answer, field)).toContain(message);
      // No errors for the kinds that were not chosen.
      const wrong = [...answer.text.matchAll(/<p class="error" id="([^"]+)-error">/g)].map(
        ([, name]) => name,
      );
      expect(wrong).toEqual([field]);
      expect(answer.text).toMatch(new RegExp(`value="${fields["authentication"] ?? ""}"\\s+checked`));
      expect(answer.text).not.toContain(CANARY);
      expect(answer.text).not.toContain("PRIVATE KEY-----");
    }
  });

  test("of an unknown kind is rejected", async () => {
    expect(await add({ authentication: "magic" })).toMatchObject({ status: 422 });
  });

  test("has a secret that is never logged", async () => {
    await idOfAdded(HEADER);
    expect(api.log.some((line) => line.includes(CANARY))).toBe(false);
  });
});

test("an endpoint that answered 410 is marked on its page and the home page, and can be enabled there", async () => {
  const { id } = await createEndpoint(api, tenant);
  await sql(api, "UPDATE endpoints SET state = 'DISABLED', disabled_reason = 'gone' WHERE id = $1", [id]);
  expect(await tenant.get(`/v1/webhooks/endpoints/${id}`)).toMatchObject({
    body: { state: "DISABLED", disabled_reason: "gone" },
  });
  expect((await visitor.get(`/portal/endpoints/${id}`)).text).toContain("with 410 Gone");
  expect((await visitor.get("/portal")).text).toContain("was disabled because it answered 410 Gone");
  expect(await visitor.post(`/portal/endpoints/${id}/enable`, {})).toMatchObject({ status: 303 });
  expect(await tenant.get(`/v1/webhooks/endpoints/${id}`)).toMatchObject({ body: { state: "PENDING" } });
});

describe("the form", () => {
  test("shows the problems of all fields at once, in words about them", async () => {
    const answer = await add({
      url: "http://10.0.0.1/hooks",
      events: "Invoice Paid!",
      filter: "{",
      headers: "no colon",
      metadata: "[]",
      rate_limit: "fast",
    });
    expect(answer.status).toBe(422);
    expect(errorOf(answer, "url")).toContain("not an allowed target");
    expect(errorOf(answer, "events")).toBe(
      "“Invoice Paid!” is not an event type. A type must be two or more words of a-z, 0-9 and _, joined by dots. Did you mean invoice.paid?",
    );
    expect(errorOf(answer, "filter")).toBe("Filter is not JSON.");
    expect(errorOf(answer, "headers")).toBe("Line 1 is not of the form Name: value.");
    expect(errorOf(answer, "metadata")).toBe("Metadata must be an object or empty, not a list.");
    expect(errorOf(answer, "rate_limit")).toBe(
      "Deliveries per second must be a whole number from 1 to 1000 or empty.",
    );
    expect(answer.text).toContain("6 fields are invalid.");
    expect(areaOf(answer, "events")).toBe("Invoice Paid!");
  });

  test("has the catalogue's event types to select, and lines for others", async () => {
    const owner = await createTenant(api, SCOPES);
    const own = await signInToPortal(api, owner.token);
    for (const name of ["invoice.paid", "invoice.sent", "pipeline.failed"]) {
      await owner.post("/v1/webhooks/event-types", { name });
    }
    const form = { ...BASE, events: "other.type, invoice.sent" };
    const made = await own.post("/portal/endpoints/new", { ...form, "types[]": "invoice.paid" });
    const id = /\/portal\/endpoints\/(ep_[0-9a-z]{24})/.exec(made.text)?.[1] ?? "";
    expect((await owner.get(`/v1/webhooks/endpoints/${id}`)).body["events"]).toEqual(
      expect.arrayContaining(["invoice.paid", "invoice.sent", "other.type"]),
    );
    const edited = await own.get(`/portal/endpoints/${id}/edit`);
    const checked = [...edited.text.matchAll(/value="([a-z.]+)"\s+checked/g)].map(([, name]) => name);
    expect(checked.slice(0, 2)).toEqual(["invoice.paid", "invoice.sent"]);
    expect(areaOf(edited, "events")).toBe("other.type");
  });
});

test("a new endpoint's page waits for its 200 and has code of a receiver with the secret", async () => {
  const { text } = await add({});
  const secret = /whsec_[A-Za-z0-9+/=]+/.exec(text)?.[0] ?? "?";
  expect(text).toContain("Waiting for your 200");
  expect(text).toMatch(/hx-get="\/portal\/endpoints\/ep_[0-9a-z]{24}"\s+hx-select="#state"/);
  for (const name of ["Node", "Python", "Go", "curl"]) {
    const code = new RegExp(`aria-label="Code for ${name}"[^>]*>([^<]*)`).exec(text)?.[1] ?? "";
    expect({ name, filled: code.includes(secret) }).toEqual({ name, filled: true });
  }
  expect(text).toContain("URL=&#39;https://example.com/hooks&#39;");
});
